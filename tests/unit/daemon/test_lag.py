"""Time in which this program didn't run isn't counted against the workers."""

from __future__ import annotations

import asyncio
import os

import pytest

from supervisor_core.daemon.observer import TICK_SECONDS, SuspensionClock
from supervisor_core.host.process_facts.identity import age_seconds, identify, since_boot
from tests.unit.common.test_services import run


def test_a_suspension_of_the_host_counts_as_lost_time_until_it_is_long_ago() -> None:
    """The loop's clock stands still in a suspension; the system's goes on."""

    async def story() -> None:
        loop, suspended = asyncio.get_running_loop(), [0.0]
        clock, stopping = SuspensionClock(lambda: loop.time() + suspended[0]), asyncio.Event()
        assert clock.lost_seconds(1000) == 0, "nothing ticks yet"
        running = asyncio.create_task(clock.run(stopping))
        await asyncio.sleep(100.5)
        assert clock.lost_seconds(1000) == 0
        suspended[0] = 8 * 3600
        assert clock.lost_seconds(300) == pytest.approx(8 * 3600, abs=TICK_SECONDS), "a thread may look first"
        await asyncio.sleep(100)
        assert clock.lost_seconds(300) == pytest.approx(8 * 3600, abs=TICK_SECONDS)
        await asyncio.sleep(300)
        assert clock.lost_seconds(300) == 0
        stopping.set()
        await running
        suspended[0] += 3600
        assert clock.lost_seconds(300) == 0, "nothing that ticks no more is late"

    run(story())


def test_the_clock_of_the_system_goes_on_and_knows_how_old_a_process_is() -> None:
    own = identify(os.getpid())
    assert own is not None
    before = since_boot()
    assert 0 <= age_seconds(own.start) <= since_boot()
    assert since_boot() >= before
