"""The APScheduler job of the scheduler's check, and the due times between two checks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler

CHECK = "check"
"""The name of the APScheduler job, and of its loop in the health report."""

# At INFO it logs each run of each job, at WARNING each check that it skips because the last one hasn't ended: the next
# one makes up for it. Its lines would go to stderr, beside our log.
logging.getLogger("apscheduler").setLevel(logging.ERROR)

log = logging.getLogger(__name__)

PATIENCE = 0.9
"""The part of an interval that one check may take. After that the next one runs, whatever the last one waits for."""

CLOCK_JITTER = timedelta(seconds=1)

OPTIONS: dict[str, Any] = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
"""Runs that were missed become one, and a run is never dropped for being late."""

NEVER_SECONDS = 100 * 365 * 86_400
"""The interval of a job that runs only when it's told to."""

MOST_CALLS = 1000
"""Calls of one name that have started and not ended. One that comes while the last one starts must not be skipped."""


class Ticker:
    """Runs on the event loop on which `ticking` is entered."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.jobs: AsyncIOScheduler | None = None
        """APScheduler, while it runs."""

    @contextmanager
    def ticking(self, check: Callable[[], Awaitable[None]], rounds: Mapping[str, Callable[[], None]]) -> Iterator[None]:
        """Run this check at each interval, and each of the rounds when `at` says so.

        A check that raises is logged, and one that hangs is cut off.
        """

        async def run() -> None:
            # APScheduler would log the cancellation with which it stops a running job as an error of the job.
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(self.seconds * PATIENCE):
                    try:
                        await check()
                    except Exception:
                        log.exception("the scheduler's check failed")

        self.jobs = _Scheduler(self.seconds)
        first = datetime.now(UTC) + timedelta(seconds=self.seconds)
        self.jobs.add_job(run, "interval", seconds=self.seconds, start_date=first, id=CHECK, **OPTIONS)
        for name, start in rounds.items():
            options = OPTIONS | {"max_instances": MOST_CALLS, "next_run_time": None}
            self.jobs.add_job(_begin, "interval", (name, start), seconds=NEVER_SECONDS, id=name, **options)
        self.jobs.start()
        try:
            yield
        finally:
            self.jobs.shutdown(wait=False)
            self.jobs = None

    def at(self, name: str, moment: datetime | None) -> None:
        """Start this round at that moment, and not when it was planned before; None: plan nothing."""
        if self.jobs is not None:
            self.jobs.modify_job(name, next_run_time=moment)


async def _begin(name: str, start: Callable[[], None]) -> None:  # a plain function would run in a thread
    try:
        start()
    except Exception:
        log.exception("the scheduler could not start %s", name)


class _Scheduler(AsyncIOScheduler):  # type: ignore[misc]  # APScheduler carries no types
    """Keeps checking when the wall clock is set back. APScheduler alone would wait until the old time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(timezone=UTC)
        self._interval = timedelta(seconds=seconds)

    def wakeup(self) -> None:
        """Look which jobs are due."""
        job, soon = self.get_job(CHECK), datetime.now(UTC) + self._interval
        if job is not None and job.next_run_time is not None and job.next_run_time > soon + CLOCK_JITTER:
            job.modify(next_run_time=soon)
        super().wakeup()
