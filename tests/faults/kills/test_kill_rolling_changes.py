"""`kill -9` of the daemon at every step of a rolling change: each batch is released once, and it reaches its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon.daemon_homes import SLEEPER
from tests.support.homes import Home, a_home
from tests.support.programs.armed import armed, distinct
from tests.support.waiting import wait_until

WORKERS = ("W1", "W2", "W3")
RELEASES = ["ROLLING_STARTED", "ROLLING_BATCH", "ROLLING_BATCH", "ROLLING_DONE"]
POINTS = (
    "rolling_changes_t.running:before",
    "rolling_changes_t.running:after",
    "rolling_changes_t.running:before#2",
    "rolling_changes_t.running:after#2",
    "rolling_changes_t.done:before",
    "rolling_changes_t.done:after",
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home", dict.fromkeys(WORKERS, SLEEPER)) as made:
        yield made


def state(home: Home, task_id: str) -> str:
    return str(home.json("rolling", "status", task_id)["details"]["state"])


def decisions(home: Home, task_id: str) -> list[str]:
    return [row["action"] for row in home.audit(task_id) if row["action"].startswith("ROLLING")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(POINTS))
def test_killed_at_a_decision_it_takes_each_one_once_and_ends(home: Home, point: str) -> None:
    daemon = home.start_daemon(program=armed(point))
    task_id = home.json("send", "restart all --batch 1 --healthy 0m")["task_id"]
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
    home.start_daemon()
    wait_until(lambda: state(home, task_id) == "done", 30, f"it is done:\n{home.daemon_log()}")
    assert decisions(home, task_id) == RELEASES
    told = [row["target_id"] for row in home.audit(task_id) if row["action"] == "RESTART_WATCHER"]
    assert told == list(WORKERS), "each worker once"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("point", "aborted"), [("before", False), ("after", True)])
def test_a_shell_killed_while_it_aborts_has_aborted_all_of_it_or_nothing(home: Home, point: str, aborted: bool) -> None:
    home.start_daemon()
    task_id = home.json("send", "restart all --batch 1 --healthy 1d")["task_id"]
    wait_until(lambda: len(home.audit(task_id)) == 2, 20, "the first worker is restarted")
    shell = home.supervisor("rolling", "abort", task_id, program=armed(f"rolling_changes_t.aborted:{point}"))
    assert shell.returncode == -signal.SIGKILL
    told = home.json("rolling", "status", task_id)["details"]
    assert told["state"] == ("aborted" if aborted else "running")
    assert told["workers"].get("not started", []) == (list(WORKERS[1:]) if aborted else [])
