"""A tick at a fixed distance, by APScheduler: the net below everything that wakes the scheduler at once.

Its jobs are in memory and hold nothing: what is due is rows of ours, and a tick only has somebody look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# What it says of each run of a job is of no use to anybody, every few seconds.
logging.getLogger("apscheduler").setLevel(logging.WARNING)


class Ticker:
    """Ticks every so many seconds, on the event loop on which it is started. `besides` is called at each tick, too."""

    def __init__(self, seconds: float, besides: Callable[[], None] = lambda: None) -> None:
        self._seconds = seconds
        self._besides = besides

    @contextmanager
    def ticking(self, call: Callable[[], None]) -> Iterator[None]:
        """Call this at each tick; on the event loop. Ticks that could not come in time are one."""
        from apscheduler.schedulers.asyncio import AsyncIOScheduler  # dear to import, and of use to daemons alone

        async def tick() -> None:  # a coroutine runs on the loop; a plain function would in a thread
            self._besides()
            call()

        scheduler = AsyncIOScheduler(timezone="UTC")
        scheduler.add_job(
            tick, "interval", seconds=self._seconds, coalesce=True, max_instances=1, misfire_grace_time=None
        )
        scheduler.start()
        try:
            yield
        finally:
            scheduler.shutdown(wait=False)
