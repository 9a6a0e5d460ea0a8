"""Carrying out a job where its ledger does not take what came of it, or somebody else has it already."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.command import Outcome
from supervisor_core.daemon import execution as executing
from supervisor_core.daemon.single_pass import Findings, Supervisor, check_control_flags
from supervisor_core.host.process_facts.signals import StopRequest
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.steps import Step
from supervisor_core.storage.store import Ledger
from tests.support.homes import SUPERVISOR, Home, a_home
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home in which a command waits, for a worker that is paused and well."""
    with a_home(tmp_path / "home") as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(made.folder)
        assert made.supervisor("send", "pause").returncode == 0
        yield made


def refuse(home: Home, when: str) -> None:
    """From now on the ledger takes no such outcome, which is no trouble with the disk."""
    with sqlite3.connect(home.state_dir / LEDGER_FILE) as connection:
        what = f"WHEN NEW.state = 'done' AND {when} BEGIN SELECT RAISE(ABORT, 'not here'); END"
        connection.execute(f"CREATE TRIGGER refusing BEFORE UPDATE ON jobs_t {what}")
    connection.close()


def accept(home: Home) -> None:
    with sqlite3.connect(home.state_dir / LEDGER_FILE) as connection:
        connection.execute("DROP TRIGGER refusing")
    connection.close()


def states(home: Home) -> list[str]:
    connection = sqlite3.connect(home.state_dir / LEDGER_FILE)
    found = [state for (state,) in connection.execute("SELECT state FROM jobs_t ORDER BY job_id")]
    connection.close()
    return found


def heartbeat(home: Home) -> dict[str, Any]:
    path = home.nas / "00_STATE" / "supervisor_heartbeat_OrionMX.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_an_outcome_that_is_refused_as_it_is_ends_as_a_failure_that_says_so(home: Home) -> None:
    refuse(home, "NEW.success")
    done = home.supervisor("once")
    assert done.returncode == 1, done.stderr
    (row,) = home.audit()
    assert (row["action"], row["outcome"]) == ("PAUSE", "failure")
    assert "pause failed: Its outcome couldn't be stored" in heartbeat(home)["error"]


def test_a_pass_gives_up_on_a_ledger_that_takes_no_outcome_and_the_next_reports_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executing, "PASS_PATIENCE_SECONDS", 0.05)
    assert home.supervisor("send", "resume").returncode == 0
    refuse(home, "1")
    assert Supervisor(home.config, "OrionMX").run_once() == 1
    assert states(home) == ["started", "queued"], "nothing more is begun with such a ledger"
    said = heartbeat(home)
    assert (said["success"], said["actions"]) == (False, ["pause"])
    assert "pause of OrionMX succeeded, but the outcome couldn't be recorded" in said["error"]
    accept(home)
    assert Supervisor(home.config, "OrionMX").run_once() == 1
    assert states(home) == ["interrupted", "done"]
    assert "pause was interrupted and isn't run again" in heartbeat(home)["error"]


def test_a_pass_that_can_not_write_an_outcome_hears_that_it_must_stop(home: Home) -> None:
    refuse(home, "1")
    with (home.folder / "pass.log").open("wb") as log:
        running = subprocess.Popen([*SUPERVISOR, "once"], cwd=home.folder, env=home.environ, stderr=log)
    try:
        path = home.folder / "pass.log"
        wait_until(lambda: "is waiting to be recorded" in path.read_text(), 20, "it waits")
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 130
    finally:
        running.kill()
        running.wait()
    assert path.read_text().count("is waiting to be recorded") == 1, "it waits between two tries"
    assert "Received SIGTERM, stopping" in heartbeat(home)["error"]
    assert states(home) == ["started"]


def test_a_daemon_that_can_not_write_an_outcome_says_so_and_stops_when_told(home: Home) -> None:
    refuse(home, "1")
    daemon = home.start_daemon(wait=False)
    wait_until(lambda: "is waiting to be recorded" in home.daemon_log(), 20, "it waits")
    assert "is waiting to be recorded" in home.worker("OrionMX")["reason"]
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(20) == 0, home.daemon_log()
    assert states(home) == ["started"]


class Contested(Ledger):
    """A ledger in which somebody else is always a moment quicker to claim, and quick to end what was claimed."""

    def step(self, step: Step, now: datetime | None = None) -> bool:
        if step.to == JobState.CLAIMED:
            (job,) = self.read(lambda connection: jobs.waiting(connection, ["OrionMX"], [JobState.QUEUED]))
            moment = datetime.now(UTC)
            for theirs in (jobs.claim, jobs.begin):
                assert super().step(theirs(job, moment))
            assert super().step(jobs.finish(job, Outcome.done(), moment, 0.1))
        return super().step(step, now)


def test_what_somebody_else_did_is_no_action_of_this_pass(home: Home) -> None:
    supervisor, findings = Supervisor(home.config, "OrionMX"), Findings()
    with Contested(home.state_dir / LEDGER_FILE, "TestHost") as ledger:
        check_control_flags(supervisor.host, supervisor.worker, ledger, findings, StopRequest())
    assert states(home) == ["done"]
    assert (findings.actions, findings.problems) == ([], [])
