"""What is said of a worker that is watched after its code was changed, and after which commands it is watched."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.code.watch.rules import (
    LATE,
    Bake,
    BakeState,
    BakeVerdict,
    WatchedWorker,
    change_of,
    judge,
    overtakes,
    watched_elsewhere,
)
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.restarts.policy import WorkerRun

B, H, W = BakeState, Health, WorkerState
SINCE = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
UNTIL = SINCE + timedelta(minutes=10)
SECOND = timedelta(seconds=1)
GRACE = timedelta(seconds=30)
STARTED = SINCE - SECOND
BAKE = Bake("task_1", "North", "TestHost", "North", SINCE, UNTIL)

WELL = WatchedWorker(W.RUNNING, H.HEALTHY, True, "running, heartbeat 2 s ago", STARTED)
UNWELL = WELL._replace(health=H.DEGRADED, fine=False, reason="reports an error: no disk")
SILENT = UNWELL._replace(health=H.STALE)
FROZEN = UNWELL._replace(health=H.FROZEN)
UNKNOWN = UNWELL._replace(health=H.UNKNOWN, reason="running, but its heartbeat can't be read: the drive is unreachable")
DOWN = WatchedWorker(W.STOPPED, H.MISSING, False, "not running, but should be")
BACKING_OFF = DOWN._replace(state=W.BACKING_OFF, reason="exited (code 1) after 2.0 s; restarting in 5 s")
GIVEN_UP = DOWN._replace(state=W.QUARANTINED, reason="quarantined: too often", given_up=True)
GIVEN_UP_AND_RUNS = WELL._replace(fine=False, given_up=True)
KILL = WorkerRun(SINCE, SINCE + SECOND, -9)
KILLED = BACKING_OFF._replace(lives=(KILL,))
KILLED_AND_GIVEN_UP = GIVEN_UP._replace(lives=(KILL, KILL))
KILLED_AND_EXITED = GIVEN_UP._replace(lives=(KILL, WorkerRun(SINCE, SINCE + SECOND, 1)))
STUCK = DOWN._replace(state=W.STUCK, health=H.UNKNOWN, reason="some of its processes can't be killed")
AGAIN = WELL._replace(started_at=SINCE + SECOND, started_again_at=SINCE + SECOND)
KILLED_AND_RUNS = AGAIN._replace(lives=(WorkerRun(SINCE - SECOND, SINCE, 1), KILL))
AGAIN_BEFORE = WELL._replace(started_again_at=SINCE - SECOND)
STARTING = DOWN._replace(state=W.STARTING, health=H.UNKNOWN, reason="starting")
STOPPING = STARTING._replace(state=W.STOPPING, fine=True)
PAUSED = WELL._replace(paused=True, reason="paused by bob")
PAUSED_DOWN = PAUSED._replace(state=W.STOPPED, health=H.UNKNOWN)
DISABLED = WELL._replace(wanted=False, reason="disabled in the configuration")
ENDED_WELL = DOWN._replace(health=H.UNKNOWN, fine=True, reason="exited (code 0); not restarted")
AT_ONCE = (DOWN, BACKING_OFF, GIVEN_UP, GIVEN_UP_AND_RUNS, STUCK, AGAIN)
AT_REST = (PAUSED, PAUSED_DOWN, DISABLED, ENDED_WELL, None)
ALL = (*AT_ONCE, *AT_REST, WELL, UNWELL, SILENT, FROZEN, UNKNOWN, AGAIN_BEFORE, STARTING, STOPPING)


def said(worker: WatchedWorker | None, now: datetime, bake: Bake = BAKE) -> BakeState | None:
    verdict = judge(bake, worker, now, GRACE)
    return verdict.state if verdict else None


@pytest.mark.parametrize(
    ("worker", "at_first", "after_the_grace", "at_the_end"),
    [
        pytest.param(WELL, None, None, B.WELL, id="well"),
        pytest.param(AGAIN_BEFORE, None, None, B.WELL, id="had trouble before the change"),
        pytest.param(UNWELL, None, B.DEGRADED, B.DEGRADED, id="unwell"),
        pytest.param(SILENT, None, B.DEGRADED, B.DEGRADED, id="silent"),
        pytest.param(FROZEN, None, None, B.ENDED, id="stopped by a signal"),
        pytest.param(KILLED, None, None, B.ENDED, id="killed"),
        pytest.param(KILLED_AND_RUNS, None, None, B.WELL, id="killed and started again"),
        pytest.param(KILLED_AND_GIVEN_UP, B.ENDED, B.ENDED, B.ENDED, id="killed and given up"),
        pytest.param(KILLED_AND_EXITED, B.DEGRADED, B.DEGRADED, B.DEGRADED, id="killed, and exited by itself"),
        pytest.param(UNKNOWN, None, None, B.ENDED, id="nobody can tell"),
        pytest.param(STARTING, None, None, None, id="starting"),
        pytest.param(STOPPING, None, None, None, id="stopping"),
        *(pytest.param(each, B.DEGRADED, B.DEGRADED, B.DEGRADED, id=f"down: {each.reason}") for each in AT_ONCE),
        *(pytest.param(each, B.ENDED, B.ENDED, B.ENDED, id=f"at rest: {each and each.reason}") for each in AT_REST),
    ],
)
def test_a_watched_worker_is_judged_as_it_is_and_by_the_time(
    worker: WatchedWorker | None,
    at_first: BakeState | None,
    after_the_grace: BakeState | None,
    at_the_end: BakeState | None,
) -> None:
    assert said(worker, SINCE + SECOND) is at_first
    assert said(worker, SINCE + GRACE) is after_the_grace
    assert said(worker, UNTIL) is at_the_end


def test_who_was_started_late_has_its_grace_beyond_the_end_and_no_longer() -> None:
    late = UNWELL._replace(started_at=UNTIL - SECOND)
    assert said(late, UNTIL) is None
    assert said(late, UNTIL - SECOND + GRACE) is B.DEGRADED
    assert said(late._replace(health=H.HEALTHY, fine=True), UNTIL + SECOND) is B.WELL


@pytest.mark.parametrize("worker", ALL)
def test_who_looks_long_after_the_end_blames_nothing_on_the_change(worker: WatchedWorker | None) -> None:
    now = UNTIL + GRACE + LATE
    verdict = judge(BAKE, worker, now + SECOND, GRACE)
    assert verdict is not None
    assert (verdict.state, "no supervisor was running" in verdict.reason) == (B.ENDED, True)


SECONDS = st.integers(0, 600)


@st.composite
def looks(draw: st.DrawFn) -> list[tuple[datetime, WatchedWorker | None]]:
    """A worker as it was at some moments, one after the other."""
    moments = sorted(draw(st.sets(SECONDS, min_size=1, max_size=20)))
    found: list[tuple[datetime, WatchedWorker | None]] = []
    for second in moments:
        worker = draw(st.sampled_from(ALL))
        if worker is not None and worker.state is W.RUNNING and draw(st.booleans()):
            worker = worker._replace(started_at=SINCE + timedelta(seconds=draw(st.integers(0, second))))
        found.append((SINCE + timedelta(seconds=second), worker))
    return found


@given(looks())
def test_nobody_is_held_to_be_unwell_within_the_grace_after_a_start(
    seen: list[tuple[datetime, WatchedWorker | None]],
) -> None:
    for now, worker in seen:
        if worker is None or worker.state is not W.RUNNING or said(worker, now) is not B.DEGRADED:
            continue
        down = worker.given_up or (worker.started_again_at is not None and worker.started_again_at > SINCE)
        assert down or (worker.started_at is not None and now - worker.started_at >= GRACE)


@given(looks(), st.integers(0, 60))
def test_it_is_well_at_its_end_alone_and_comes_to_one_end(
    seen: list[tuple[datetime, WatchedWorker | None]], grace: int
) -> None:
    for now, worker in seen:
        verdict = judge(BAKE, worker, now, timedelta(seconds=grace))
        if verdict is not None and verdict.state is B.WELL:
            assert now >= UNTIL
            assert worker is not None
            assert worker.fine
        assert verdict is None or verdict.state not in (B.WATCHING, B.OVERTAKEN)
        assert (verdict is not None and bool(verdict.reason)) == (verdict is not None and verdict.state is not B.WELL)


OLD, NEW = "a" * 40, "b" * 40
RUNS: dict[str, Any] = {"new_pid": 12, "rests": None, "error": None}
RESTS: dict[str, Any] = {"new_pid": None, "rests": "paused by bob", "error": None}
MOVED: dict[str, Any] = {"before": OLD, "after": NEW, "workers": {"North": RUNS}}


def a_job(details: dict[str, Any], *, success: bool = True, **other: Any) -> Job:
    job = Job(
        1, "TestHost", "task_2", "North", "update_code", {}, None, Issuer("cli:a", "a"), "cli", JobState.DONE, SINCE
    )
    return replace(job, outcome=Outcome(success, None if success else "no", details), finished_at=UNTIL, **other)


PACKAGES = {**MOVED, "after": OLD, "packages": [{"python": "p", "changed": ["alpha 1.0 → 2.0"]}]}
NO_PACKAGES = {**PACKAGES, "packages": [{"python": "p", "changed": []}]}


@pytest.mark.parametrize(
    ("details", "changed"),
    [
        (MOVED, True),
        ({**MOVED, "after": OLD}, False),
        (PACKAGES, True),
        (NO_PACKAGES, False),
        ({**MOVED, "after": OLD, "packages_said": "as they were"}, True),
        ({**MOVED, "after": OLD, "packages_said": None}, False),
        ({"before": OLD, "after": OLD}, False),
        ({}, False),
        ({"packages": "what an older program wrote"}, False),
    ],
)
def test_a_command_has_changed_something_where_other_commits_or_packages_run(
    details: dict[str, Any], changed: bool
) -> None:
    assert (change_of(a_job(details)) is not None) is changed


def test_who_was_started_with_it_is_watched_and_who_rests_is_not() -> None:
    change = change_of(a_job({**MOVED, "workers": {"North": RUNS, "South": RUNS, "West": RESTS}}))
    assert change is not None
    assert (change.touched, change.started) == (frozenset({"North", "South", "West"}), ("North", "South"))


def test_a_command_that_failed_half_way_changed_the_code_and_has_nobody_watched() -> None:
    change = change_of(a_job(MOVED, success=False))
    assert change is not None
    assert (change.started, change.touched) == ((), frozenset({"North"}))


@pytest.mark.parametrize(
    ("changed", "overtaken"),
    [
        ({}, True),
        ({"task_id": "task_1"}, False),  # the same command for another worker
        ({"at": SINCE}, False),
        ({"at": SINCE - SECOND}, False),
        ({"touched": frozenset({"South"})}, False),
        ({"worker_id": "South", "touched": frozenset({"North", "South"})}, True),
    ],
)
def test_a_newer_change_of_the_code_that_it_runs_from_overtakes(changed: dict[str, Any], overtaken: bool) -> None:
    change = change_of(a_job(MOVED))
    assert change is not None
    change = replace(change, at=SINCE + SECOND)
    assert overtakes(replace(change, **changed), BAKE) is overtaken


ELSEWHERE: dict[str, Any] = {
    "state": "running",
    "health": "healthy",
    "fine": True,
    "reason": "running, heartbeat 2 s ago",
    "pid": 12,
    "paused": False,
    "enabled": True,
    "started_at": "2026-02-05T14:29:59Z",
}


@pytest.mark.parametrize(
    ("reported", "verdict"),
    [
        ({}, BakeVerdict(B.WELL)),
        (
            {"state": "backing_off", "fine": False, "reason": "exited (code 1)"},
            BakeVerdict(B.DEGRADED, "exited (code 1)"),
        ),
        ({"paused": True, "reason": "paused by bob"}, BakeVerdict(B.ENDED, "paused by bob")),
        (
            {"health": "unknown", "fine": False, "reason": "web-1 is unresponsive"},
            BakeVerdict(B.ENDED, "web-1 is unresponsive"),
        ),
        (
            {"state": "stopped", "health": "unknown", "pid": None, "reason": "not connected yet", "started_at": None},
            BakeVerdict(B.ENDED, "not connected yet"),
        ),
    ],
)
def test_a_worker_of_another_host_is_judged_by_what_its_host_reports(
    reported: dict[str, Any], verdict: BakeVerdict
) -> None:
    worker = watched_elsewhere({**ELSEWHERE, **reported})
    assert judge(BAKE, worker, UNTIL, GRACE) == verdict
    early = judge(BAKE, worker, SINCE + SECOND, GRACE)
    assert early == (verdict if verdict.state is B.DEGRADED or worker.paused else None)
