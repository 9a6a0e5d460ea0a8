"""Observes workers for the daemon, with what it knows of its own lag and of their probes.

A suspended or busy host must not make workers look stale: `SuspensionClock` notices it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.process_facts.identity import since_boot
from supervisor_core.processes.finding import ProcessTable, scan_processes
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.probes import THREADS, Prober
from supervisor_core.workers.status import WorkerStatus

TICK_SECONDS = 5.0
"""The interval of ticks. A shorter stop between two of them is unnoticed and irrelevant."""

TOLERATED_SECONDS = 0.5
"""A tick that is less late than this is punctual: on a busy host all are a little late."""

TABLE_SECONDS = 1.0
"""Observations of workers without a process share a table up to this age. Every start and stop makes a new one."""


class SuspensionClock:
    """Recognizes that this program didn't run for a while, since the host was suspended or busy.

    It ticks on the event loop; `lost_seconds` may be called from any thread. Its clock goes on during a suspension, and
    setting the system time doesn't affect it. The event loop's clock stops, so that the tick comes late.
    """

    def __init__(self, clock: Callable[[], float] = since_boot) -> None:
        self._clock = clock
        self._next_tick = math.inf
        self._resumed_at, self._lost = -math.inf, 0.0

    def lost_seconds(self, within: float) -> float:
        """The time that was lost in the last stop, if that ended within so many seconds or isn't noticed yet."""
        now = self._clock()
        if now - self._next_tick >= TOLERATED_SECONDS:
            return now - self._next_tick
        return self._lost if now - self._resumed_at <= within else 0.0

    async def run(self, stopping: asyncio.Event, ticked: Callable[[float], None] = lambda _: None) -> None:
        """Tick until asked to stop."""
        try:
            while not stopping.is_set():
                ticked(TICK_SECONDS)
                self._next_tick = self._clock() + TICK_SECONDS
                await wait_until(None, stopping, TICK_SECONDS)
                now = self._clock()
                if now - self._next_tick >= TOLERATED_SECONDS:
                    self._resumed_at, self._lost = now, now - self._next_tick
        finally:
            self._next_tick = math.inf


class WorkerObserver(Service):
    """A service behind the others. `changed` is called with a worker whose probes begin to fail, or recover."""

    name = "observer"

    def __init__(self, context: DaemonContext, changed: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self._context = context
        self._clock = SuspensionClock()
        self._table: tuple[float, ProcessTable | None] = (0.0, None)
        self.prober = Prober(context, Blocking(THREADS), self._clock.lost_seconds, changed)

    def look(self, workers: Sequence[WorkerSettings]) -> list[WorkerStatus]:
        """Look at these workers. In a thread: it blocks."""
        lag, probes = self._clock.lost_seconds, self.prober.failing
        return observe_workers(self._context.host, workers, lag=lag, probes=probes, scan=self._scan_recently)

    def _scan_recently(self) -> ProcessTable:
        at, table = self._table
        if table is None or time.monotonic() - at >= TABLE_SECONDS:
            self._table = at, table = time.monotonic(), scan_processes()
        return table

    async def run(self, stopping: asyncio.Event) -> None:
        """Measure and check until told to stop."""
        try:
            async with asyncio.TaskGroup() as both:  # one that fails ends the other, and both begin anew
                both.create_task(self._clock.run(stopping, self.pulse.beat))
                both.create_task(self.prober.run(stopping))
        except ExceptionGroup as failed:  # its own words say only that there was one
            raise failed.exceptions[0] from failed
