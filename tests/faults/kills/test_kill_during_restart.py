"""`kill -9` of the daemon at every step of a restart: told once, never two copies, and the worker runs again after."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.kills.test_kill_at_every_step import AFTER_THE_HANDLER, BEFORE_THE_HANDLER
from tests.support.homes import Home, a_home
from tests.support.programs.armed import BESIDE, armed, distinct
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=3)

TASK = "task_20260205_001"
FLAG = f"supervisor_restart_watcher_OrionMX_{TASK}.flag"
BODY = {"task_id": TASK, "handler": "restart_watcher", "label": "hangs on a scan"}

# The steps of the handler, in their order; the road before and after them is that of every command.
WITH_THE_OLD_ONE = (
    "jobs_t.started:after",
    "handler:before",
    "job.progress:after",
    "worker.stop:before",
    "worker.stop:ordered",
)
WITH_NONE = ("worker.stop:after", "worker.start:before")
WITH_THE_NEW_ONE = ("worker.start:after", "handler:after", "jobs_t.done:before")
IN_THE_HANDLER = WITH_THE_OLD_ONE + WITH_NONE + WITH_THE_NEW_ONE


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def crash_at(home: Home, point: str) -> int:
    """Start an armed daemon, drop the flag, and see the daemon die of it; the PID of the old worker."""
    later = "#2" if point.startswith("worker.start") else ""  # the first time is its start with the daemon
    daemon = home.start_daemon(program=armed(point + later))
    (old,) = home.running_copies("OrionMX")
    home.drop_flag(FLAG, BODY)
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
    return old


def told_once(home: Home, outcome: str) -> dict[str, Any]:
    """Start the daemon again; the result, told once in each place, and the one worker healthy after it."""
    home.start_daemon()
    result = wait_until(lambda: home.result("restart_watcher", TASK), 20, "there is a result")
    assert result is not None
    wait_until(lambda: not any((home.inbox / "processing").iterdir()), 10, "nothing is left in processing")
    (row,) = home.audit(TASK)
    assert (row["action"], row["outcome"]) == ("RESTART_WATCHER", outcome)
    assert result["success"] == (outcome == "success")
    results = [path.name for path in home.outbox.glob("[!.]*")]  # a write that was cut off leaves a hidden file
    assert results == [f"supervisor_result_restart_watcher_{TASK}.json"]
    assert home.supervisor("audit", "verify").returncode == 0
    wait_until(lambda: home.worker("OrionMX")["health"] == "healthy", 20, "the worker is healthy")
    assert home.running_copies("OrionMX") == [home.worker("OrionMX")["pid"]]
    return result


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["flag.row:after", "jobs_t.started:before"])
def test_killed_before_it_began_it_is_done_once(home: Home, point: str) -> None:
    old = crash_at(home, point)
    assert home.running_copies("OrionMX") == [old]
    details = told_once(home, "success")["details"]
    assert (details["old_pid"], details["new_pid"]) == (old, home.worker("OrionMX")["pid"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(WITH_THE_OLD_ONE))
def test_killed_before_the_stop_it_is_interrupted_and_the_old_one_goes_on(home: Home, point: str) -> None:
    old = crash_at(home, point)
    assert told_once(home, "interrupted")["details"]["pid"] == old
    assert home.running_copies("OrionMX") == [old]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", [*WITH_NONE, "job.progress:after#2"])
def test_killed_between_stop_and_start_it_is_interrupted_and_the_worker_is_brought_up(home: Home, point: str) -> None:
    old = crash_at(home, point)
    assert home.running_copies("OrionMX") == []
    result = told_once(home, "interrupted")
    assert "It isn't run again automatically." in result["error"]
    assert result["details"]["pid"] is None, "so it was when this was written"
    assert home.running_copies("OrionMX") != [old]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(WITH_THE_NEW_ONE))
def test_killed_after_the_start_it_is_interrupted_and_no_second_one_is_started(home: Home, point: str) -> None:
    old = crash_at(home, point)
    (new,) = home.running_copies("OrionMX")
    assert new != old
    assert told_once(home, "interrupted")["details"]["pid"] == new
    assert home.running_copies("OrionMX") == [new]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["jobs_t.done:after"])
def test_killed_after_the_outcome_was_written_it_is_told_all_the_same(home: Home, point: str) -> None:
    crash_at(home, point)
    (new,) = home.running_copies("OrionMX")
    assert told_once(home, "success")["details"]["new_pid"] == new
    assert home.running_copies("OrionMX") == [new]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("second", ["jobs_t.interrupted:after", "worker.start:before", "worker.start:after"])
def test_killed_again_while_the_next_one_brings_the_worker_up_there_is_still_one(home: Home, second: str) -> None:
    crash_at(home, "worker.stop:after")
    next_one = home.start_daemon(program=armed(second), wait=False)
    assert next_one.wait(30) == -signal.SIGKILL, home.daemon_log()
    told_once(home, "interrupted")


def test_killed_between_stop_and_start_a_healing_pass_brings_the_worker_up_as_well(home: Home) -> None:
    crash_at(home, "worker.stop:after")
    assert home.supervisor("once", "--worker-id", "OrionMX").returncode == 1, "it says that the worker does not run"
    healed = home.supervisor("once", "--worker-id", "OrionMX", "--heal")
    assert healed.returncode == 0, healed.stderr
    assert len(home.running_copies("OrionMX")) == 1
    assert [row["outcome"] for row in home.audit(TASK)] == ["interrupted"]


def test_a_worker_paused_by_hand_while_nobody_was_there_stays_down(home: Home) -> None:
    crash_at(home, "worker.stop:after")
    (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").touch()
    home.start_daemon()
    wait_until(lambda: home.result("restart_watcher", TASK), 20, "there is a result")
    assert home.worker("OrionMX")["paused"]
    assert home.running_copies("OrionMX") == []


def test_no_point_is_forgotten(home: Home, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    home.start_daemon(program=armed(f"trace:{trace}"))
    started = len(trace.read_text().splitlines())
    home.drop_flag(FLAG, BODY)
    # Not in their order: what the ledger does after a commit and what it woke may come in either.
    known = {point.split("#")[0] for point in (*BEFORE_THE_HANDLER, *IN_THE_HANDLER, *AFTER_THE_HANDLER)}
    wait_until(lambda: known <= set(trace.read_text().splitlines()[started:]), 20, "the command went its whole road")
    assert set(trace.read_text().splitlines()[started:]) - BESIDE == known
