"""The steps of a command: kept while it goes on, told to whoever waits, and never in the way of the work."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from supervisor_core.commands.command import Outcome
from supervisor_core.common import crashpoints
from supervisor_core.daemon import execution as executing
from supervisor_core.daemon.execution import execute
from supervisor_core.jobs import progress
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.steps import Message
from supervisor_core.storage.tables import jobs as jobs_table
from supervisor_core.workers.context import HostContext
from tests.support.homes import SUPERVISOR, Home, a_home
from tests.support.intake.handler_hosts import FakeHost
from tests.support.storage.ledger_rows import NOW, a_new_job, opened

CARD = {"channel": "C0OPS"}


class Bench:
    """A ledger with one job in it, whose handler is a function of the test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = FakeHost(folder).host
        self.folder = folder / "var"
        self.ledger = opened(self.folder)
        self._monkeypatch = monkeypatch
        self.file("t1")

    def file(self, task_id: str, card: dict[str, str] | None = None) -> None:
        new = a_new_job(task_id)
        self.ledger.write(lambda connection: jobs.file(connection, "TestHost", new, datetime.now(UTC)))
        if card:
            self.ledger.order([Message(jobs.CARD, task_id, card)], NOW)

    def job(self, task_id: str = "t1") -> Job:
        found = self.ledger.read(lambda connection: jobs.find(connection, task_id, "OrionMX"))
        assert found is not None
        return found

    def words(self, task_id: str = "t1") -> list[str]:
        return [step.words for step in self.job(task_id).progress]

    def carry_out(
        self,
        handler: Callable[[HostContext], object],
        heard: Callable[[Job], None] = lambda _: None,
        task_id: str = "t1",
    ) -> Outcome:
        def handle(host: HostContext, _job: Job) -> Outcome:
            handler(host)
            return Outcome.done()

        self._monkeypatch.setattr(executing, "HANDLERS", {"pause": handle})
        outcome = execute(self.job(task_id), self.host, self.ledger, on_progress=heard)
        assert outcome is not None
        return outcome

    def sql(self, words: str) -> list[tuple[Any, ...]]:
        """Plain SQL, as a program that is not ours or is older may run it."""
        with closing(sqlite3.connect(self.folder / LEDGER_FILE, isolation_level=None)) as connection:
            return connection.execute(words).fetchall()

    def changed(self, task_id: str = "t1") -> int:
        query = select(jobs_table.c.changed).where(jobs_table.c.task_id == task_id)
        return int(self.ledger.read(lambda connection: connection.execute(query).scalar_one()))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(tmp_path, monkeypatch)
    yield made
    made.ledger.close()


# One job and its ledger


def test_each_step_is_kept_with_its_time_before_the_handler_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    passed: list[str] = []
    monkeypatch.setattr(crashpoints, "reach", passed.append)
    kept: list[list[str]] = []

    def handler(host: HostContext) -> None:
        for words in ("stopping OrionMX", "taking 3 commits back"):
            host.progress(words)
            kept.append(bench.words())

    heard: list[Job] = []
    assert bench.carry_out(handler, heard.append).success
    assert kept == [["stopping OrionMX"], ["stopping OrionMX", "taking 3 commits back"]]
    first, second = bench.job().progress
    assert first.at <= second.at <= first.at + timedelta(minutes=1)
    assert [job.task_id for job in heard] == ["t1", "t1"]
    assert passed.count("job.progress:after") == 2
    assert "pause of OrionMX: taking 3 commits back" in caplog.messages


def test_a_ledger_that_does_not_take_a_step_and_a_listener_that_fails_harm_no_handler(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def deaf(_job: Job) -> None:
        raise RuntimeError("Event loop is closed")

    bench.sql(
        "CREATE TRIGGER refusing BEFORE UPDATE OF progress_json ON jobs_t WHEN NEW.progress_json LIKE '%refused%' "
        "BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )

    def handler(host: HostContext) -> None:
        host.progress("refused")
        host.progress("taken")

    assert bench.carry_out(handler, deaf).success
    assert bench.words() == ["taken"]
    complaints = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert ["no room" in said or "loop is closed" in said for said in complaints] == [True, True]


def test_a_handler_does_not_wait_for_a_ledger_that_somebody_holds_and_nothing_of_it_is_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "WRITE_SECONDS", 0.05)
    kept: list[list[str]] = []

    def handler(host: HostContext) -> None:
        with closing(sqlite3.connect(bench.folder / LEDGER_FILE, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            for number in range(3):
                host.progress(f"step {number}")
            kept.append(bench.words())
            holder.execute("ROLLBACK")

    assert bench.carry_out(handler).success
    assert kept == [[]]
    assert bench.words() == ["step 0", "step 1", "step 2"]


# Whoever waits


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def read_line(stream: Any) -> str:
    with ThreadPoolExecutor(1) as pool:
        line: str = pool.submit(stream.readline).result(20)
    return line


def test_on_a_terminal_each_step_is_there_while_the_command_goes_on(home: Home) -> None:
    home.start_daemon()
    (old,) = home.running_copies("OrionMX")
    words = [*SUPERVISOR, "send", "restart", "--wait"]
    with subprocess.Popen(words, cwd=home.folder, env=home.environ, stdout=subprocess.PIPE, text=True) as sending:
        first = read_line(sending.stdout)
        assert home.worker("OrionMX")["state"] == "stopping", "the command is still under way"
        said, _ = sending.communicate(timeout=20)
    second, outcome, _task = said.splitlines()
    seconds, rest = first.strip().split(" s  ")
    assert rest == f"stopping OrionMX (pid {old})"
    assert second.endswith(" s  starting OrionMX")
    assert 0 <= float(seconds) <= float(second.split(" s  ")[0])
    assert outcome.startswith("ok: Restarted OrionMX")
    assert "restart of OrionMX: starting OrionMX" in home.daemon_log()
    assert "restart_watcher" not in home.daemon_log(), "the log has the command's own name"


def test_without_a_daemon_the_steps_of_the_pass_are_seen_in_the_ledger(home: Home) -> None:
    home.start_daemon()
    assert home.supervisor("stop").returncode == 0
    words = [*SUPERVISOR, "send", "restart", "--wait"]
    with subprocess.Popen(words, cwd=home.folder, env=home.environ, stdout=subprocess.PIPE, text=True) as sending:
        assert "No daemon is running" in read_line(sending.stdout)
        with ThreadPoolExecutor(1) as pool:
            passing = pool.submit(home.supervisor, "once")
            assert "stopping OrionMX (pid" in read_line(sending.stdout)
            assert not passing.done(), "the pass is still at it"
            assert passing.result(30).returncode == 0
        said, _ = sending.communicate(timeout=20)
    assert "starting OrionMX" in said
    assert "ok: Restarted OrionMX" in said
