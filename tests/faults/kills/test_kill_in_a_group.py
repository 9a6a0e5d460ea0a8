"""`kill -9` of the daemon in the middle of a group of jobs: each worker has its outcome once, and it's true."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon.daemon_homes import SLEEPER
from tests.support.homes import Home, a_home
from tests.support.programs.armed import armed, distinct
from tests.support.waiting import wait_until

WORKERS = ("West", "North", "South")

IN_THE_GROUP = (
    "pause.copy:after#2",
    "pause.flag:after#2",
    "job.progress:after#2",
    "worker.stop:ordered#2",
    "worker.stop:after#2",
    "handler:after#2",
    "jobs_t.done:before#2",
)
RESULTS = ("result.file:before#2", "result.file:written#2", "result.file:after#2", "outbox_t.sent:before#2")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home", dict.fromkeys(WORKERS, SLEEPER)) as made:
        yield made


def killed(home: Home, point: str) -> str:
    """The daemon dies while it pauses all workers; the task id."""
    daemon = home.start_daemon(program=armed(point))
    wait_until(lambda: all(home.worker(worker)["pid"] for worker in WORKERS), 20, "all run")
    task: str = home.json("send", "pause all")["task_id"]
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
    return task


def results(home: Home, task: str) -> dict[str, dict[str, Any]]:
    """The result files of the next daemon, by worker, once all are there."""
    home.start_daemon()
    paths = [home.outbox / f"supervisor_result_pause_{task}{end}.json" for end in ("", "_North", "_South")]
    wait_until(lambda: all(path.exists() for path in paths), 20, "each has its result file")
    documents = [json.loads(path.read_text()) for path in paths]
    assert sorted(path.name for path in home.outbox.iterdir()) == sorted(path.name for path in paths)
    assert sorted(row["target_id"] for row in home.audit(task)) == sorted(WORKERS), "each is on record once"
    assert home.supervisor("audit", "verify").returncode == 0
    return {document["worker_id"]: document for document in documents}


def check(home: Home, found: dict[str, dict[str, Any]]) -> None:
    """What the outcome of each worker says about now is true."""
    for worker in WORKERS:
        now = home.worker(worker)
        if found[worker]["success"]:
            assert (now["paused"], now["pid"]) == (True, None)
        else:
            assert found[worker]["state"] == "interrupted"
            assert found[worker]["details"]["paused"] == now["paused"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(IN_THE_GROUP))
def test_killed_while_a_group_is_paused_each_worker_has_an_outcome_that_is_true(home: Home, point: str) -> None:
    check(home, results(home, killed(home, point)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(RESULTS))
def test_killed_within_a_batch_of_result_files_each_is_there_once_and_whole(home: Home, point: str) -> None:
    """Those of the first that are done; the last one may be cut off meanwhile."""
    found = results(home, killed(home, point))
    assert sum(result["success"] for result in found.values()) >= 2
    check(home, found)
