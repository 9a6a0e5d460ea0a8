"""Lag: what a late tick adds, for how long it counts, and what is no lag. The clock is a number."""

from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.daemon.reconciliation.observer import (
    KEPT,
    TICK_SECONDS,
    TOLERATED_SECONDS,
    LagMeter,
    SchedulingLag,
)
from supervisor_core.host.process_facts import linux as platform
from supervisor_core.host.process_facts.identity import identify
from tests.unit.common.test_services import run


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def meter(clock: Clock) -> LagMeter:
    made = LagMeter(clock)
    made.tick()
    return made


def pass_by(clock: Clock, meter: LagMeter, seconds: float) -> None:
    """Time in which nothing is late."""
    for _ in range(round(seconds / TICK_SECONDS)):
        clock.now += TICK_SECONDS
        meter.tick()


def late(clock: Clock, meter: LagMeter, seconds: float) -> None:
    clock.now += TICK_SECONDS + seconds
    meter.tick()


def test_ticks_in_time_or_a_little_late_are_no_lag(clock: Clock, meter: LagMeter) -> None:
    pass_by(clock, meter, 100)
    for _ in range(100):
        late(clock, meter, TOLERATED_SECONDS - 0.01)
    assert meter.within(10_000) == 0


def test_a_late_tick_counts_until_it_is_so_long_ago(clock: Clock, meter: LagMeter) -> None:
    late(clock, meter, 7)
    assert meter.within(300) == pytest.approx(7)
    pass_by(clock, meter, 300)
    assert meter.within(300) == pytest.approx(7)
    pass_by(clock, meter, TICK_SECONDS)
    assert meter.within(300) == 0
    assert meter.within(400) == pytest.approx(7)


def test_of_a_night_that_has_just_ended_all_is_taken_off(clock: Clock, meter: LagMeter) -> None:
    late(clock, meter, 8 * 3600)
    pass_by(clock, meter, 10)
    assert meter.within(300) == pytest.approx(8 * 3600)


def test_a_tick_that_is_overdue_counts_before_it_comes(clock: Clock, meter: LagMeter) -> None:
    """A thread may look first, when the host wakes up."""
    clock.now += TICK_SECONDS + 3600
    assert meter.within(300) == pytest.approx(3600)
    meter.tick()
    assert meter.within(300) == pytest.approx(3600), "and not twice"


def test_nothing_that_ticks_no_more_is_late(clock: Clock, meter: LagMeter) -> None:
    async def story() -> None:
        stopping = asyncio.Event()
        running = asyncio.create_task(meter.run(stopping))
        await asyncio.sleep(0)
        clock.now += 100
        stopping.set()
        await running

    asyncio.run(story())
    overdue = meter.within(1000)
    assert overdue == pytest.approx(100 - TICK_SECONDS, abs=TICK_SECONDS), "what was overdue at the end has been"
    clock.now += 3600
    assert meter.within(10**6) == overdue


def test_it_ticks_on_the_loop_and_a_suspension_of_the_host_is_seen_in_it() -> None:
    """The loop's clock stands still in a suspension; the meter's goes on."""

    async def story() -> None:
        loop, suspended = asyncio.get_running_loop(), [0.0]
        meter, stopping = LagMeter(lambda: loop.time() + suspended[0]), asyncio.Event()
        running = asyncio.create_task(meter.run(stopping))
        await asyncio.sleep(100.5)
        assert meter.within(1000) == 0
        suspended[0] = 3600
        await asyncio.sleep(100)
        assert meter.within(300) == pytest.approx(3600)
        await asyncio.sleep(300)
        assert meter.within(300) == 0
        stopping.set()
        await running

    run(story())


def test_a_meter_that_was_never_run_knows_of_no_lag(clock: Clock) -> None:
    fresh = LagMeter(clock)
    clock.now += 3600
    assert fresh.within(10**6) == 0


def test_the_oldest_are_forgotten_first_and_the_memory_stays_small(clock: Clock, meter: LagMeter) -> None:
    for _ in range(KEPT + 10):
        late(clock, meter, 1)
    assert meter.within(10**9) == pytest.approx(KEPT)


@given(st.lists(st.floats(0, 100), max_size=30))
def test_the_lag_is_never_more_than_the_time_that_passed(steps: list[float]) -> None:
    lag, now = SchedulingLag().woken(0.0), 0.0
    for step in steps:
        now += step
        lag = lag.woken(now)
    assert 0 <= lag.within(10**9, now) <= now + 1e-6


def test_the_clock_of_the_system_goes_on_and_knows_how_old_a_process_is() -> None:
    own = identify(os.getpid())
    assert own is not None
    before = platform.since_boot()
    assert 0 <= platform.age_seconds(own.start) <= platform.since_boot()
    assert platform.since_boot() >= before
