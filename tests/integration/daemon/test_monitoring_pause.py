"""`supervisor send 'monitoring pause'` with a real daemon: it rests, also after `kill -9`, until somebody ends that."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.daemon.ownership import daemon_holder
from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until

WORKER = {
    "command": demo_command(),
    "start_grace_seconds": 0.2,
    "stop_timeout_seconds": 10,
    "restart": {"backoff_seconds": 0},
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home", {"OrionMX": WORKER}) as made:
        yield made


def rest(home: Home, what: str = "pause") -> subprocess.CompletedProcess[str]:
    return home.supervisor("send", f"monitoring {what}")


def kill_worker(home: Home) -> None:
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGKILL)


def test_without_a_daemon_it_fails_in_words(home: Home) -> None:
    done = rest(home)
    assert (done.returncode, done.stdout) == (1, "")
    assert "No daemon is running" in done.stderr
    assert home.json("send", "monitoring resume")["success"] is False


def test_paused_it_starts_nothing_also_after_it_was_killed_and_resumed_it_catches_up(home: Home) -> None:
    daemon = home.start_daemon()
    done = rest(home)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Monitoring is paused, also across restarts" in done.stdout
    again = rest(home)
    assert again.returncode == 0
    assert "Monitoring is already paused." in again.stdout
    assert [row["action"] for row in home.audit()] == ["MUTED"]
    daemon.kill()
    daemon.wait()
    wait_until(lambda: daemon_holder(home.state_dir) is None, 10, "it is dead")
    kill_worker(home)
    home.start_daemon()
    wait_until(lambda: home.status()["supervisor"]["status"] == "PAUSED", 10, "it is paused, as it was left")
    worker = home.worker("OrionMX")
    assert (worker["state"], worker["pid"]) == ("stopped", None)
    assert home.running_copies("OrionMX") == []
    assert home.json("send", "diagnostics", "--wait")["success"], "commands go on"
    assert home.running_copies("OrionMX") == []
    done = rest(home, "resume")
    assert (done.returncode, done.stderr) == (0, "")
    wait_until(lambda: home.running_copies("OrionMX"), 10, "what changed meanwhile is dealt with")
    assert [row["action"] for row in home.audit()][-1] == "UNMUTED"


def test_a_worker_that_dies_under_the_next_daemon_is_heard_of_at_once(home: Home) -> None:
    daemon = home.start_daemon()
    daemon.kill()
    daemon.wait()
    wait_until(lambda: daemon_holder(home.state_dir) is None, 10, "it is dead")
    (old,) = home.running_copies("OrionMX")
    home.start_daemon()
    assert home.running_copies("OrionMX") == [old], "taken over, not doubled"
    os.kill(old, signal.SIGKILL)
    wait_until(
        lambda: home.running_copies("OrionMX") not in ([], [old]), 10, "its end was heard of before the next round"
    )
