"""What counts as hung: only a running worker that is not paused, and only by what is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from supervisor_core.workers.health import Heartbeat, Observation, WorkerState, hangs, health
from tests.unit.workers.test_health import SIGHTS

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def running(beat_age: float | None = 10, **facts: Any) -> Observation:
    beat = None if beat_age is None else Heartbeat("running", NOW - timedelta(seconds=beat_age))
    started = NOW - timedelta(seconds=3600)
    return Observation(**{"state": WorkerState.RUNNING, "heartbeat": beat, "started_at": started, **facts})


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (running(400), "heartbeat 6 min 40 s ago"),
        (running(None), "no heartbeat"),
        (running(4000), "no heartbeat of its own"),
        (running(frozen_seconds=10), "stopped by a signal"),
        (running(frozen_seconds=10, heartbeat_known=False), "stopped by a signal"),
        (running(probe_failing="its probe x fails"), "its probe x fails"),
        (running(probe_failing="its probe x fails", max_age_seconds=0), "its probe x fails"),
        (running(-100, probe_failing="its probe x fails"), "its probe x fails"),
    ],
)
def test_a_worker_that_is_there_and_does_nothing_is_hung_and_it_is_said_why(seen: Observation, said: str) -> None:
    assert said in hangs(seen, NOW)


@pytest.mark.parametrize(
    "seen",
    [
        running(),
        running(None, max_age_seconds=0),
        running(None, started_at=NOW),
        running(350, lag_seconds=60),
        running(-100),
        running(heartbeat=Heartbeat("broken", NOW, "disk full")),
        running(frozen_seconds=9),
        running(400, paused=True),
        running(frozen_seconds=60, paused=True),
        running(paused=True, probe_failing="its probe x fails"),
        running(400, heartbeat_known=False),
        running(heartbeat_known=False, probe_failing="its probe x fails"),
        *(running(None, state=state, frozen_seconds=60) for state in WorkerState if state is not WorkerState.RUNNING),
    ],
)
def test_one_that_works_rests_or_can_not_be_judged_is_not_hung(seen: Observation) -> None:
    assert hangs(seen, NOW) == ""


@given(SIGHTS)
def test_what_is_hung_runs_is_not_paused_and_is_not_well(seen: Observation) -> None:
    if hangs(seen, NOW):
        assert seen.state is WorkerState.RUNNING
        assert not seen.paused
        assert not health(seen, NOW).fine
