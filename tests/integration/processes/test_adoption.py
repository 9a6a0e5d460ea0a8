"""A worker that somebody started by hand before the supervisor came: taken over if it is surely it, else left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.config.load import load_supervisor_config
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.processes.finding import Presence
from supervisor_core.processes.records import read_record
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.status import WorkerStatus
from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until


class ByHand:
    """A home in which somebody starts programs in a shell of their own."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.config = load_supervisor_config(home.config)
        self.command = self.config.command_for(self.config.worker("OrionMX"))
        self.state = home.nas / "00_STATE"
        self.state.mkdir()
        self._programs: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> int:
        """A program in the background of our own session; its PID."""
        program = subprocess.Popen(
            command or self.command, cwd=self.home.folder, env=self.home.environ, stdout=subprocess.DEVNULL
        )
        self._programs.append(program)
        return program.pid

    def start_worker(self) -> int:
        """The worker, with exactly its command, seen to beat."""
        pid = self.start()
        wait_until(lambda: self.beat().get("pid") == pid, 10, "the worker beats")
        return pid

    def beat(self) -> dict[str, Any]:
        path = self.state / "watcher_heartbeat_OrionMX.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def say(self, process: int, **other: Any) -> None:
        """Write a heartbeat that names this process."""
        now = datetime.now(UTC).isoformat()
        beat = {"pid": process, "hostname": os.uname().nodename, "status": "running", "utc": now, **other}
        (self.state / "watcher_heartbeat_OrionMX.json").write_text(json.dumps(beat))

    def look(self) -> WorkerStatus:
        return observe_workers(open_doors(self.config), [self.config.worker("OrionMX")])[0]

    def reaped(self, pid: int) -> int | None:
        """The exit code of what was started, once it has ended."""
        return next(program.poll() for program in self._programs if program.pid == pid)

    def end(self) -> None:
        for program in self._programs:
            program.kill()
            program.wait()


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[ByHand]:
    with a_home(tmp_path / "home") as home:
        made = ByHand(home)
        try:
            yield made
        finally:
            made.end()


def test_a_pass_takes_it_over_and_starts_no_second_one(hand: ByHand) -> None:
    pid = hand.start_worker()
    done = hand.home.supervisor("once", "--heal")
    assert done.returncode == 0, done.stderr
    assert f"adopted OrionMX (pid {pid})" in done.stderr
    assert "adopted" not in hand.home.supervisor("once", "--worker-id", "OrionMX").stderr, (
        "only the first pass adopts it"
    )
    assert hand.home.running_copies("OrionMX") == [pid]
    (worker,) = hand.home.json("status")["workers"]
    assert (worker["pid"], worker["state"], worker["health"]) == (pid, "running", "healthy")
    record = read_record(hand.home.state_dir, "OrionMX")
    assert record is not None
    assert record.identity == identify(pid), "the programs use the same backend as this test"


def test_a_pause_ends_it_with_its_descendants_and_not_the_session_that_it_was_started_from(hand: ByHand) -> None:
    neighbour = hand.start("sleep", "100")
    hand.home.config.write_text(
        hand.home.config.read_text().replace("    - '0.2'\n", "    - '0.2'\n    - --misbehave\n    - fork\n")
    )
    hand.config = load_supervisor_config(hand.home.config)
    hand.command = hand.config.command_for(hand.config.worker("OrionMX"))
    pid = hand.start_worker()
    assert os.getsid(pid) == os.getsid(neighbour) == os.getsid(0)
    helpers = [member.pid for member in open_doors(hand.config).processes.members("OrionMX")]
    assert helpers == [], "nobody knows it yet"
    outcome = hand.home.supervisor("send", "pause")
    assert outcome.returncode == 0
    done = hand.home.supervisor("once")
    assert done.returncode == 0, done.stderr
    assert hand.reaped(pid) is not None
    (row,) = hand.home.audit()
    assert row["outcome"] == "success"
    assert len(json.loads(row["details_json"])["result"]["killed"]) >= 2, "its helpers ignore TERM"
    assert hand.reaped(neighbour) is None


def test_a_pause_ends_it_by_its_arguments_and_directory_where_no_heartbeat_can_be_read(hand: ByHand) -> None:
    pid = hand.start_worker()
    assert hand.home.supervisor("send", "pause").returncode == 0
    hand.home.nas.rename(hand.home.folder / "away")
    hand.home.supervisor("once")
    (row,) = hand.home.audit()
    assert row["outcome"] == "success"
    assert hand.reaped(pid) is not None


def test_a_restart_puts_one_of_its_own_in_its_place(hand: ByHand) -> None:
    pid = hand.start_worker()
    hand.home.drop_flag("supervisor_restart_watcher_OrionMX_t1.flag", {})
    assert hand.home.supervisor("once").returncode == 0
    result = hand.home.result("restart_watcher", "t1")
    assert result is not None
    assert result["details"]["old_pid"] == pid
    assert hand.reaped(pid) is not None
    assert hand.home.running_copies("OrionMX") == [result["details"]["new_pid"]]


def test_a_resume_starts_none_beside_it(hand: ByHand) -> None:
    (hand.state / "supervisor_pause_OrionMX.flag").touch()
    pid = hand.start_worker()
    hand.home.drop_flag("supervisor_resume_OrionMX_t1.flag", {})
    assert hand.home.supervisor("once").returncode == 0
    result = hand.home.result("resume", "t1")
    assert result is not None
    assert (result["details"]["already_running"], result["details"]["pid"]) == (True, pid)
    assert hand.home.running_copies("OrionMX") == [pid]


def test_a_stop_while_its_beat_is_still_on_the_drive_is_not_undone_by_that(hand: ByHand) -> None:
    hand.start_worker()
    hand.home.drop_flag("supervisor_pause_OrionMX.flag", {})
    assert hand.home.supervisor("once").returncode == 0
    assert hand.beat()["pid"]
    assert hand.look().found.presence is Presence.STOPPED


@pytest.mark.parametrize("more", [["--extra"], []], ids=["a word more", "another program"])
def test_a_pid_that_another_program_has_by_now_is_neither_adopted_nor_signalled(hand: ByHand, more: list[str]) -> None:
    """The worker of the last beat is gone, and its PID was given to somebody else."""
    stranger = hand.start(*(quiet(hand)[:-1] if more else ()), *(more or ["sleep", "100"]))
    identity = identify(stranger)
    hand.say(stranger, utc="2026-01-01T00:00:00Z")
    assert hand.home.supervisor("once").returncode == 1, "the worker does not run"
    hand.home.drop_flag("supervisor_pause_OrionMX.flag", {})
    assert hand.home.supervisor("once").returncode == 0
    assert identify(stranger) == identity
    assert hand.reaped(stranger) is None


def quiet(hand: ByHand) -> list[str]:
    """A program that the configuration names as the worker's, and that writes no heartbeat."""
    command = [sys.executable, "-c", "import time; time.sleep(100)", "--worker-id", "OrionMX"]
    text = hand.home.config.read_text()
    if "time.sleep" not in text:
        import yaml

        document = yaml.safe_load(text)
        document["workers"]["OrionMX"]["command"] = command
        hand.home.config.write_text(yaml.safe_dump(document))
        hand.config = load_supervisor_config(hand.home.config)
    return command
