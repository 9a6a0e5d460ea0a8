"""Starts that report when the worker has lived through its start grace, and what may overtake them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until

LONG_SECONDS = 120.0
"""So long that whatever waits for it fails the test."""

UNTIL_BROKEN = ["sh", "-c", "until test -e broken; do sleep 0.05; done; echo it broke; exit 3"]
WORKERS = ("w1", "w2", "w3", "w4")


def settings(command: list[str], grace: float) -> dict[str, Any]:
    return {
        "command": command,
        "start_grace_seconds": grace,
        "heartbeat_max_age_seconds": 0,
        "restart": {"policy": "never"},
    }


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Four workers with a long grace, paused by a running daemon, that end as soon as they are told to break."""
    with a_home(tmp_path / "home", dict.fromkeys(WORKERS, settings(UNTIL_BROKEN, LONG_SECONDS))) as made:
        made.start_daemon()
        assert made.json("send", "pause all", "--wait")["success"]
        yield made


def started(home: Home, worker_id: str = "w1") -> str:
    """Resume a worker without waiting for the outcome; its process exists."""
    task_id: str = home.json("send", f"resume {worker_id}")["task_id"]
    wait_until(lambda: home.worker(worker_id)["pid"], 20, "its process exists")
    return task_id


def outcomes(home: Home, task_id: str) -> list[str]:
    return [row["outcome"] for row in home.audit(task_id)]


@pytest.mark.parametrize("command", ["resume", "restart"])
def test_a_worker_that_dies_within_its_grace_fails_its_command(tmp_path: Path, command: str) -> None:
    dies = settings(["sh", "-c", "sleep 1; echo it broke; exit 3"], 20.0)
    with a_home(tmp_path / "home", {"OrionMX": {**dies, "enabled": True}}) as home:
        (home.nas / "00_STATE").mkdir(parents=True, exist_ok=True)
        (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").touch()
        home.start_daemon()
        answer = home.json(command, "OrionMX")
        assert not answer["success"]
        assert "exited (code 3) within 20 s of its start" in answer["error"]
        assert answer["error"].endswith("it broke"), "its last output"
        assert outcomes(home, answer["task_id"]) == ["failure"], "one outcome, never corrected"


def test_a_pause_overtakes_the_grace_and_the_start_says_so(home: Home) -> None:
    task_id = started(home)
    assert home.supervisor("status").returncode in (0, 1), "and status answers meanwhile"
    assert home.json("pause", "w1")["success"]
    assert home.everybody() == []
    result = home.result("resume", task_id)
    assert result is not None
    assert result["success"]
    assert "pause" in result["details"]["message"]
    assert outcomes(home, task_id) == ["success"]


def test_several_workers_wait_for_their_graces_at_the_same_time(home: Home) -> None:
    task_id = home.json("send", "resume all")["task_id"]
    wait_until(lambda: all(home.worker(each)["pid"] for each in WORKERS), 30, "all of them were started")
    assert outcomes(home, task_id) == []
    (home.folder / "broken").touch()
    wait_until(lambda: outcomes(home, task_id) == ["failure"] * len(WORKERS), 30, "all of them failed")


def test_the_end_of_the_daemon_overtakes_the_grace(home: Home) -> None:
    task_id = started(home)
    stopped = home.supervisor("daemon", "stop")
    assert stopped.returncode == 0
    assert "w1" in stopped.stdout
    assert outcomes(home, task_id) == ["success"]
