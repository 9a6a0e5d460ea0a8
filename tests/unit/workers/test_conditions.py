"""The condition of a worker: what is so, since when it truly is, and when to look although nothing happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor_core.common.times import with_countdown
from supervisor_core.workers.conditions import Condition, changes_at, read_condition
from supervisor_core.workers.health import Heartbeat, WorkerState, health
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason
from supervisor_core.workers.status import WorkerStatus
from tests.support.daemon.worker_statuses import worker_status

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
FAR = datetime.max.replace(tzinfo=UTC)
GRACE = timedelta(seconds=30)
RUNNING, STOPPED = WorkerState.RUNNING, WorkerState.STOPPED


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def status(state: WorkerState = RUNNING, **known: Any) -> WorkerStatus:
    return worker_status("North", NOW, state, **known)


def beat(seconds: float, **more: Any) -> Heartbeat:
    return Heartbeat("running", ago(seconds), **more)


def rest(reason: RestartReason = RestartReason.POLICY_NEVER, words: str = "not started again") -> RestartDecision:
    return RestartDecision(Next.REST, reason, words)


def wait(seconds: float) -> RestartDecision:
    return RestartDecision(
        Next.WAIT, RestartReason.BACKING_OFF, "started again soon", NOW + timedelta(seconds=seconds), seconds
    )


@pytest.mark.parametrize(
    ("seen", "condition", "since"),
    [
        (status(heartbeat=beat(3), started_at=ago(500)), "well", 3),
        (status(max_age_seconds=0, started_at=ago(500)), "well", 500),
        (status(heartbeat=beat(310), started_at=ago(900), max_age_seconds=300), "stale", 10),
        (status(started_at=ago(400), max_age_seconds=300), "missing", 100),
        (status(heartbeat=beat(3, error="no disk"), started_at=ago(500)), "degraded", 3),
        (status(heartbeat=beat(3, progress=ago(310)), started_at=ago(900)), "stuck", 10),
        (status(heartbeat=beat(3, progress=ago(310)), started_at=ago(900), lag_seconds=4), "stuck", 6),
        (status(heartbeat=beat(3, progress=ago(310)), started_at=ago(305)), "stuck", 5),
        (status(heartbeat=beat(3, progress=ago(310)), started_at=ago(900), probe_failing="its probe"), "stuck", 10),
        (status(heartbeat=beat(3, progress=ago(310), error="no disk"), started_at=ago(900)), "degraded", 3),
        (status(heartbeat=beat(3, progress=ago(290)), started_at=ago(900)), "well", 3),
        (status(heartbeat=beat(3), started_at=ago(500), probe_failing="its probe fails"), "degraded", 0),
        (status(heartbeat=beat(3), started_at=ago(500), frozen_seconds=12.0), "frozen", 12),
        (status(heartbeat=beat(-60), started_at=ago(500)), "clock_skew", 0),
        (status(heartbeat=beat(3), started_at=ago(500), quarantine="given up"), "restart_limit", 0),
        (status(heartbeat=beat(3), inactive_reason="paused by ann"), "paused", 0),
        (status(STOPPED, inactive_reason="not enabled in the configuration"), "paused", 0),
        (status(WorkerState.QUARANTINED, quarantine="too many", ended_at=ago(2)), "restart_limit", 2),
        (status(WorkerState.STUCK), "stuck", 0),
        (status(WorkerState.STUCK, unverifiable="nobody can tell"), "unknown", 0),
        (status(STOPPED, died=True, ended_at=ago(2), decision=rest()), "down", 2),
        (status(STOPPED, died=True, ended_at=ago(2), decision=rest(RestartReason.ENDED_WELL)), "paused", 2),
        (status(STOPPED, start_error="there is no such program"), "down", 0),
        (status(WorkerState.STARTING, died=True, ended_at=ago(2)), "down", 2),
        (status(WorkerState.BACKING_OFF, died=True, decision=wait(40)), "down", 0),
    ],
)
def test_what_was_seen_has_its_condition_and_the_moment_since_when(
    seen: WorkerStatus, condition: str, since: float
) -> None:
    reading = read_condition(seen, GRACE)
    assert reading is not None
    assert (str(reading.condition), (NOW - reading.since).total_seconds()) == (condition, since)
    assert reading.reason


@pytest.mark.parametrize(
    "seen",
    [
        status(heartbeat_known=False, started_at=ago(500)),
        status(WorkerState.STARTING),
        status(WorkerState.STOPPING, died=True),
        status(STOPPED),
    ],
    ids=["the drive is away", "it comes up for the first time", "somebody stops it", "it was stopped by a command"],
)
def test_a_look_that_says_nothing_gives_no_condition(seen: WorkerStatus) -> None:
    assert read_condition(seen, GRACE) is None


@pytest.mark.parametrize(
    ("seen", "held", "healing"),
    [
        (status(STOPPED, died=True, ended_at=ago(2)), 8.0, True),
        (status(STOPPED, died=True, ended_at=ago(2), started_at=ago(62)), 8.0, True),
        (status(STOPPED, died=True, ended_at=ago(0.5), started_at=ago(60)), 4.5, True),
        (status(STOPPED, died=True, ended_at=ago(2), decision=wait(1)), None, False),
        (status(STOPPED, died=True, ended_at=ago(2), decision=rest()), None, False),
        (status(STOPPED, died=True, ended_at=ago(2), start_error="no such program"), None, False),
        (status(heartbeat=beat(3, error="no disk"), started_at=ago(10)), 20.0, False),
        (status(heartbeat=beat(3, error="no disk"), started_at=ago(31)), None, False),
        (status(started_at=ago(10), frozen_seconds=10.0), None, False),
    ],
)
def test_who_is_brought_back_soon_or_was_just_started_is_not_accused_yet(
    seen: WorkerStatus, held: float | None, *, healing: bool
) -> None:
    reading = read_condition(seen, GRACE)
    assert reading is not None
    until = reading.held_until
    assert (until and (until - NOW).total_seconds(), reading.healing) == (held, healing)


@pytest.mark.parametrize(
    ("seen", "seconds"),
    [
        (status(RUNNING, heartbeat=beat(3), started_at=ago(500), max_age_seconds=300), 297),
        (status(RUNNING, heartbeat=beat(3), started_at=ago(500), max_age_seconds=300, lag_seconds=5), 302),
        (status(RUNNING, started_at=ago(100), max_age_seconds=300), 200),
        (status(RUNNING, heartbeat=beat(700), started_at=ago(100), max_age_seconds=300), 200),
        (status(RUNNING, heartbeat=beat(3, progress=ago(200)), started_at=ago(900)), 100),
        (status(RUNNING, heartbeat=beat(3, progress=ago(200)), started_at=ago(900), lag_seconds=5), 105),
        (status(RUNNING, heartbeat=beat(3, progress=ago(200)), started_at=ago(900), resumed_at=ago(50)), 250),
        (status(RUNNING, heartbeat=beat(3, progress=ago(200)), started_at=ago(900), paused=True), 297),
        (status(RUNNING, heartbeat=Heartbeat("running", FAR, progress=FAR), started_at=ago(9)), None),
        (status(RUNNING, heartbeat=beat(3), frozen_seconds=4.0), 6),
        (status(RUNNING, heartbeat=beat(310), started_at=ago(900), max_age_seconds=300), None),
        (status(RUNNING, max_age_seconds=0, started_at=ago(900)), None),
        (status(RUNNING, heartbeat_known=False, started_at=ago(900)), None),
        (status(STOPPED), None),
    ],
)
def test_the_next_moment_at_which_anything_can_change_is_computed(seen: WorkerStatus, seconds: float | None) -> None:
    moment = changes_at(seen)
    assert (moment and (moment - NOW).total_seconds()) == seconds
    if moment is not None and seen.frozen_seconds is None:
        before, after = health(seen, moment - timedelta(microseconds=1)), health(seen, moment)
        assert before.fine
        assert not after.fine


def test_a_worker_is_not_well_before_its_start_grace_is_over() -> None:
    young = status(RUNNING, max_age_seconds=0, started_at=ago(1))
    assert changes_at(young) == NOW + timedelta(seconds=1)
    assert read_condition(status(max_age_seconds=0, started_at=ago(1))) is None
    known = read_condition(status(max_age_seconds=0, started_at=ago(3)))
    assert known is not None
    assert known.condition is Condition.WELL


def test_a_worker_that_was_restarted_after_a_failure_is_well_once_it_is_older_than_the_one_that_failed() -> None:
    def seen(age: float) -> WorkerStatus:
        return status(max_age_seconds=0, started_at=ago(age), failed_after_seconds=20.0)

    assert read_condition(seen(21)) is None
    known = read_condition(seen(22))
    assert known is not None
    assert known.condition is Condition.WELL


def test_the_reason_of_a_crash_says_when_the_restart_is_and_not_in_how_many_seconds() -> None:
    words = "exited (code 1) after 2 s; restarting in 40 s (3 of 5 this hour)"
    decision = replace(wait(40), words=words)
    reading = read_condition(status(STOPPED, died=True, decision=decision))
    assert reading is not None
    assert reading.reason == "exited (code 1) after 2 s; restarting at 2026-02-05T14:30:40Z (3 of 5 this hour)"
    assert with_countdown(reading.reason, NOW) == words
    assert "restarting now (3 of 5" in with_countdown(reading.reason, NOW + timedelta(seconds=41))
