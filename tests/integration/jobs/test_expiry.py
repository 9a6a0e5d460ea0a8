"""Commands that wait without a daemon: how long they are valid, and that they never run afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.waiting import wait_until

WORKERS = ("West", "North", "South")
VALID_SECONDS = 1.2


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    settings = {
        "id": "TestHost",
        "state_dir": "var",
        "parallel": 1,
        "command_expires_minutes": VALID_SECONDS / 60,
    }
    with a_home(tmp_path / "home", dict.fromkeys(WORKERS, SLEEPER), make=Host, supervisor=settings) as made:
        assert isinstance(made, Host)
        yield made


def test_without_a_daemon_a_command_says_for_how_long_it_waits_and_then_never_runs(home: Host) -> None:
    sent = home.supervisor("pause", "West", "--no-wait")
    assert "No daemon is running." in sent.stdout
    assert "valid for 1.2 s" in sent.stdout
    waited = home.supervisor("pause", "North", "--timeout", "1")
    assert waited.returncode == 1
    assert "valid for 1.2 s" in waited.stdout.splitlines()[0], "at once"
    time.sleep(VALID_SECONDS)
    home.start_daemon()
    wait_until(lambda: len(home.audit()) == 2, 20, "both have an outcome")
    assert [(row["action"], row["outcome"]) for row in home.audit()] == [("PAUSE", "failure")] * 2
    result = home.result("pause", home.audit()[0]["task_id"])
    assert result is not None
    assert result["details"]["expired"], result
    assert not any(home.worker(worker)["paused"] for worker in WORKERS)


def test_what_waits_for_its_turn_does_not_expire(home: Host) -> None:
    home.start_daemon()
    answer = home.json("restart", "all")
    assert answer["success"], answer
