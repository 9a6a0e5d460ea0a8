"""Starts that return as soon as the process exists, and their correction where it ends within its start grace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import Daemon, Home, a_home
from tests.support.waiting import wait_until

GRACE_SECONDS = 60.0
"""So long that a start which waited for it would fail the test by its time."""

COMMAND = ["sh", "-c", "until test -e broken; do sleep 0.05; done; echo it broke; exit 3"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    worker = {
        "command": COMMAND,
        "start_grace_seconds": GRACE_SECONDS,
        "heartbeat_max_age_seconds": 0,
        "restart": {"policy": "never"},
    }
    with a_home(tmp_path / "home", {"OrionMX": worker}) as made:
        yield made


def resume(home: Home) -> dict[str, Any]:
    """The first outcome of a resume; the worker has just been started. A client that waits would wait for its grace."""
    task_id = home.json("send", "resume")["task_id"]
    wait_until(lambda: home.result("resume", task_id), 20, "the worker was started")
    result = home.result("resume", task_id)
    assert result is not None
    assert result["success"], result
    return result


def ends(home: Home, task_id: str) -> list[tuple[str, bool]]:
    """The audit rows of a command: the outcome, and whether it corrects an earlier one."""
    rows = home.audit(task_id)
    return [(row["outcome"], "corrects" in json.loads(row["details_json"])) for row in rows]


CORRECTED = [("success", False), ("failure", True)]


def corrected(home: Home, task_id: str) -> dict[str, Any]:
    """The result file of a command after its correction."""
    wait_until(lambda: ends(home, task_id) == CORRECTED, 20, "it was corrected")

    def failed() -> bool:
        result = home.result("resume", task_id)
        return result is not None and not result["success"]

    wait_until(failed, 10, "the result file was written again")
    result = home.result("resume", task_id)
    assert result is not None
    return result


def paused_daemon(home: Home) -> Daemon:
    """Start the daemon and pause its worker, within the grace of its start at boot."""
    daemon = home.start_daemon()
    assert home.json("send", "pause", "--wait")["success"]
    return daemon


def test_a_worker_that_ends_within_its_start_grace_turns_the_success_into_a_failure(home: Home) -> None:
    paused_daemon(home)
    task_id = resume(home)["task_id"]
    (home.folder / "broken").touch()
    result = corrected(home, task_id)
    assert "OrionMX exited (code 3) within 60 s of its start." in result["error"]
    assert result["error"].endswith("it broke"), "its last words"
    assert home.supervisor("audit", "verify").returncode == 0


def test_a_pause_within_the_start_grace_is_no_failure_of_the_start(home: Home) -> None:
    paused_daemon(home)
    task_id = resume(home)["task_id"]
    assert home.json("send", "pause", "--wait")["success"]
    assert not home.everybody()
    resume(home)
    assert ends(home, task_id) == [("success", False)]


def test_an_end_while_no_daemon_runs_is_corrected_once_by_the_next_ones(home: Home) -> None:
    daemon = paused_daemon(home)
    task_id = resume(home)["task_id"]
    daemon.kill()
    daemon.wait()
    (home.folder / "broken").touch()
    wait_until(lambda: not home.everybody(), 10, "the worker ended")
    for _ in range(2):
        daemon = home.start_daemon()
        assert "within 60 s of its start" in corrected(home, task_id)["error"]
        daemon.kill()
        daemon.wait()
    assert ends(home, task_id) == CORRECTED


def test_a_worker_that_outlived_its_start_grace_is_not_held_against_the_command(home: Home) -> None:
    document = home.config.read_text().replace(str(GRACE_SECONDS), "0.1")
    assert "start_grace_seconds: 0.1" in document
    home.config.write_text(document)
    paused_daemon(home)
    task_id = resume(home)["task_id"]
    record = home.state_dir / "workers" / "OrionMX.json"
    wait_until(lambda: json.loads(record.read_text())["order"] is None, 10, "it was seen alive after its grace")
    (home.folder / "broken").touch()
    wait_until(lambda: home.worker("OrionMX")["state"] == "stopped", 10, "its end was noticed")
    assert ends(home, task_id) == [("success", False)]
