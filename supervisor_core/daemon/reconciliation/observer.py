"""Observes workers for the daemon, with what it knows of its own lag and of their probes.

A suspended or busy host must not make workers look stale: `SuspensionClock` notices it.
`ObservationSchedule` knows when a condition may change without an event.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar

from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.process_facts import linux as platform
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.probes import THREADS, Prober
from supervisor_core.workers.status import WorkerStatus

log = logging.getLogger(__name__)

SHORTEST_SECONDS = 0.001
"""The shortest wait for the next observation."""

TICK_SECONDS = 5.0
"""The interval of ticks. A shorter stop between two of them is unnoticed and irrelevant."""

TOLERATED_SECONDS = 0.5
"""A tick that is less late than this is punctual: on a busy host all are a little late."""


class SuspensionClock:
    """Recognizes that this program didn't run for a while, since the host was suspended or busy.

    It ticks on the event loop; `lost_seconds` may be called from any thread. Its clock goes on during a suspension, and
    setting the system time doesn't affect it. The event loop's clock stops, so that the tick comes late.
    """

    def __init__(self, clock: Callable[[], float] = platform.since_boot) -> None:
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


T = TypeVar("T")


class WorkerObserver(Service):
    """A service behind the others. `changed` is called with a worker whose probes begin to fail, or recover."""

    name = "observer"

    def __init__(self, parts: DaemonContext, changed: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self._parts = parts
        self._clock = SuspensionClock()
        self._prober = Prober(parts, Blocking(THREADS), self._clock.lost_seconds, changed)

    def look(self, workers: Sequence[WorkerSettings]) -> list[WorkerStatus]:
        """Look at these workers. In a thread: it blocks."""
        return observe_workers(self._parts.host, workers, lag=self._clock.lost_seconds, probes=self._prober.failing)

    def follow(self, looked: Iterable[WorkerStatus]) -> None:
        """From now on ask the processes that were seen. On the event loop."""
        for seen in looked:
            self._prober.worker(seen.worker.id, seen.worker, seen.found.identity)

    def forget(self, worker_id: str) -> None:
        """It was removed."""
        self._prober.forget(worker_id)

    async def run(self, stopping: asyncio.Event) -> None:
        """Measure and check until told to stop."""
        try:
            async with asyncio.TaskGroup() as both:  # one that fails ends the other, and both begin anew
                both.create_task(self._clock.run(stopping, self.pulse.beat))
                both.create_task(self._prober.run(stopping))
        except ExceptionGroup as failed:  # its own words say only that there was one
            raise failed.exceptions[0] from failed


class ObservationSchedule:
    """One moment for each worker; a new one replaces the old one."""

    def __init__(self) -> None:
        self._moments: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def note(self, worker_id: str, moment: datetime | None) -> None:
        """Observe this worker at that time; None if nothing can change without an event."""
        if moment is None:
            self._moments.pop(worker_id, None)
        elif self._moments.get(worker_id) != moment:
            self._moments[worker_id] = moment
            heapq.heappush(self._heap, (moment, worker_id))
            if len(self._heap) > 2 * len(self._moments) + 100:  # what was overtaken is let go of now and then
                self._heap = [(at, each) for each, at in self._moments.items()]
                heapq.heapify(self._heap)

    def forget(self, worker_id: str) -> None:
        """It was removed."""
        self._moments.pop(worker_id, None)

    def due(self, now: datetime) -> list[str]:
        """The workers that are due; each is named once."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            moment, worker_id = heapq.heappop(self._heap)
            if self._moments.get(worker_id) == moment:
                del self._moments[worker_id]
                found.append(worker_id)
        return found

    def wait(self, now: datetime) -> float:
        """Return the seconds until the first moment; infinity without one."""
        while self._heap and self._moments.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return math.inf
        return max((self._heap[0][0] - now).total_seconds(), SHORTEST_SECONDS)


class SharedObservation(Generic[T]):
    """One look at a time, however many callers ask: a call during a look gets the next one. For one event loop."""

    def __init__(self, look: Callable[[], Awaitable[T]]) -> None:
        self._look = look
        self._running: asyncio.Future[T] | None = None
        self._next: asyncio.Future[T] | None = None

    async def __call__(self) -> T:
        """A look that had not begun when it was asked for."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._after(self._running))
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Future[T] | None) -> T:
        if before is not None:
            await asyncio.wait({before})
        self._running, self._next = self._next, None
        return await self._look()


def log_health_changes(earlier: Mapping[str, WorkerStatus | None], looked: Mapping[str, WorkerStatus]) -> None:
    """Compare these looks with the ones before."""
    for worker_id, seen in looked.items():
        before = earlier.get(worker_id)
        if seen.found.identity is None:
            continue
        was_unwell = before is not None and before.found.identity is not None and not before.verdict.fine
        if seen.verdict.fine and was_unwell:
            about = LogEvent.WORKER_RECOVERED.extra(worker_id=worker_id, reason=seen.verdict.reason)
            log.info("%s recovered: %s", worker_id, seen.verdict.reason, extra=about)
        same = before is not None and before.verdict.health is seen.verdict.health
        if not seen.verdict.fine and not (was_unwell and same):
            health, reason = str(seen.verdict.health), seen.verdict.reason
            about = LogEvent.WORKER_UNHEALTHY.extra(worker_id=worker_id, condition=health, reason=reason)
            log.warning("%s is %s: %s", worker_id, health, reason, extra=about)
