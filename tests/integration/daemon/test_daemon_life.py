"""The daemon's life from the shell: start, restart and stop of real ones, and a stop whose target can't be ended.

The program is started from nothing by the first test, by a restart, and where a start fails; elsewhere it is forked.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.daemon.control import lifecycle
from supervisor_core.daemon.control.lifecycle import StartError, start_daemon
from supervisor_core.daemon.ownership import daemon_holder
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identify
from tests.support.daemon.daemon_homes import Host
from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    with a_home(tmp_path / "home", make=Host) as made:
        assert isinstance(made, Host)
        yield made


def started(home: Host) -> int:
    done = home.quick("start")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    pid = daemon_holder(home.state_dir)
    assert f"Started: pid {pid}" in done.stdout
    assert pid
    return pid


def worker(home: Home) -> int:
    (pid,) = home.running_copies("OrionMX")
    return pid


def test_start_comes_back_when_the_daemon_is_up_and_its_workers_run(home: Host) -> None:
    pid = started(home)
    status = home.status()
    assert (status["supervisor"]["pid"], status["supervisor"]["state"]) == (pid, "running")
    assert worker(home)
    log = (home.state_dir / "daemon.out").read_text()
    assert log == "", "what it logs is in its log"


def test_a_daemon_that_can_not_come_up_is_an_error_with_its_last_words(home: Host) -> None:
    home.state_dir.mkdir(mode=0o700)
    (home.state_dir / "ledger.db").write_bytes(b"this is no database, and far too long to be an empty one" * 100)
    done = home.supervisor("start")
    assert done.returncode == 1
    assert "exited (code 1)" in done.stderr
    assert "ledger" in done.stderr


def test_one_that_fails_while_it_comes_up_says_why_and_is_not_called_dead_without_a_word(home: Host) -> None:
    (home.state_dir / "control.sock").mkdir(parents=True)
    home.state_dir.chmod(0o700)
    done = home.supervisor("start")
    assert done.returncode == 1
    assert "control.sock" in done.stderr
    status = home.supervisor("status", "--plain")
    assert "supervisor.state=stopped\n" in status.stdout


def test_one_that_is_killed_while_it_comes_up_has_its_last_words_in_the_log(
    home: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = ["-c", "import logging, os; print(end='', flush=True); os.kill(os.getpid(), 9)"]
    home.state_dir.mkdir(mode=0o700)
    (home.state_dir / "supervisor.log").write_text("of an earlier life\n")
    logs = "import os, sys; open('supervisor.log', 'a').write('the disk is full'); os.kill(os.getpid(), 9)"
    with (
        pytest.raises(StartError, match=r"exited \(code -9\)\. Its last output:\nthe disk is full$"),
        chdir(home.folder),
    ):
        start_daemon(home.state_dir, home.config, "supervisor.log", (sys.executable, "-c", logs))

    def identify_late(pid: int) -> ProcessIdentity | None:
        wait_until(lambda: (home.state_dir / "supervisor.log").stat().st_size > written, message="it has logged")
        return identify(pid)

    written = (home.state_dir / "supervisor.log").stat().st_size
    with monkeypatch.context() as slow, chdir(home.folder):
        slow.setattr(lifecycle, "identify", identify_late)
        with pytest.raises(StartError, match=r"Its last output:\nthe disk is full$"):
            start_daemon(home.state_dir, home.config, "supervisor.log", (sys.executable, "-c", logs))
    with pytest.raises(StartError, match=r"exited \(code -9\)\. It had no output\."):
        start_daemon(home.state_dir, home.config, "supervisor.log", (sys.executable, *dies))


def test_a_worker_that_comes_up_is_waited_for(tmp_path: Path) -> None:
    slow = {"command": demo_command(), "start_grace_seconds": 1.5, "stop_timeout_seconds": 10}
    with a_home(tmp_path / "home", {"OrionMX": slow}, make=Host) as home:
        assert isinstance(home, Host)
        started(home)
        assert (home.worker("OrionMX")["state"], home.worker("OrionMX")["pid"]) == ("running", worker(home))
        written = home.state_dir / "runtime.json"

        def noted() -> Any:
            workers = json.loads(written.read_text())["workers"]  # empty until its first round
            return workers["OrionMX"]["actual"]["state"] if workers else ""

        wait_until(lambda: noted() == "running", 20, "what is written of it follows")


def test_a_wrong_configuration_is_said_by_start_itself(home: Host) -> None:
    home.config.write_text("workers: 3\n")
    done = home.supervisor("start")
    assert done.returncode == 2
    assert "workers" in done.stderr


def test_after_a_kill_the_place_is_taken_over_and_the_worker_is_the_same(home: Host) -> None:
    first = started(home)
    old = worker(home)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: daemon_holder(home.state_dir) is None, 10, "it is dead")
    done = home.quick("start")
    assert done.returncode == 0
    assert f"(pid {first}) crashed" in done.stdout
    assert worker(home) == old


def test_restart_leaves_the_workers_alone(home: Host) -> None:
    first = started(home)
    old = worker(home)
    home.json("send", "pause OrionMX", "--wait")
    done = home.supervisor("daemon", "restart")
    assert done.returncode == 0, done.stderr
    assert daemon_holder(home.state_dir) == first
    assert home.running_copies("OrionMX") == [], f"{old} was paused, and stays so"
    assert home.worker("OrionMX")["paused"]


def test_restart_with_a_wrong_configuration_ends_nothing(home: Host) -> None:
    first = started(home)
    home.config.write_text("workers: 3\n")
    assert home.supervisor("daemon", "restart").returncode == 2
    assert daemon_holder(home.state_dir) == first


def test_stop_leaves_the_workers_and_stop_workers_ends_them(home: Host) -> None:
    pid = started(home)
    old = worker(home)
    done = home.supervisor("stop")
    assert (done.returncode, done.stdout) == (0, f"Stopped: pid {pid}. Workers still running: OrionMX\n")
    assert worker(home) == old
    started(home)
    ended = home.supervisor("stop", "--workers")
    assert ended.returncode == 0
    assert "its workers were stopped" in ended.stdout
    assert home.everybody() == []
    assert daemon_holder(home.state_dir) is None
    assert json.loads((home.state_dir / "runtime.json").read_text())["running"] is False


def test_a_daemon_that_does_not_answer_is_terminated_or_killed(home: Host) -> None:
    pid = started(home)
    old = worker(home)
    os.kill(pid, signal.SIGSTOP)
    done = home.supervisor("stop")
    assert done.returncode == 0, done.stderr
    assert "killed because it didn't answer" in done.stdout
    runtime = json.loads((home.state_dir / "runtime.json").read_text())
    assert runtime["running"] is False, "it was stopped, and didn't crash"
    assert runtime["stopped_at"] >= runtime["started_at"]
    assert home.json("status")["supervisor"]["state"] == "stopped"
    assert daemon_holder(home.state_dir) is None
    assert worker(home) == old


class Immortal:
    """A daemon that survives whatever is sent to it."""

    def __init__(self) -> None:
        self.me = ProcessIdentity(4711, 1, "boot")
        self.signals: list[int] = []

    def holder(self) -> ProcessIdentity:
        return self.me

    def ask_to_stop(self, *, workers: bool) -> dict[str, Any]:
        return {"bound_seconds": 1.0, "workers": [str(workers)]}

    def signal(self, who: ProcessIdentity, number: int) -> None:
        assert who == self.me
        self.signals.append(number)

    def wait(self, who: ProcessIdentity, seconds: float) -> bool:
        assert who == self.me
        assert seconds > 0
        return False

    def record_stop(self, who: ProcessIdentity) -> None:
        raise AssertionError(f"{who} was never stopped")
