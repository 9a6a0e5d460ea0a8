"""How the daemon looks at its workers: with what it knows of its own lag, and with what their probes have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from supervisor_core.adapters.processes_identity import platform
from supervisor_core.config import Worker
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.lag import LagMeter
from supervisor_core.runtime.observing import Seen, look
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.probing import THREADS, Prober
from supervisor_core.runtime.services import Service

T = TypeVar("T")


class Senses(Service):
    """A service of the daemon that works behind the others."""

    name = "senses"

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._parts = parts
        self._meter = LagMeter(platform.since_boot, ticked=self.pulse.beat)
        self._prober = Prober(parts, Blocking(THREADS), self._meter.within, self._probes_changed)
        self.changed: Callable[[str], None] = lambda _: None
        """Called with a worker whose probes have begun to fail, or are well again."""

    def look(self, workers: Sequence[Worker]) -> list[Seen]:
        """Look at these workers. In a thread: it blocks."""
        return look(self._parts.host, workers, lag=self._meter.within, probes=self._prober.failing)

    def follow(self, looked: Iterable[Seen]) -> None:
        """From now on ask the processes that were seen. On the event loop."""
        for seen in looked:
            self._prober.worker(seen.worker.id, seen.worker, seen.found.identity)

    def forget(self, worker_id: str) -> None:
        """It was removed."""
        self._prober.forget(worker_id)

    def _probes_changed(self, worker_id: str) -> None:
        self.changed(worker_id)

    async def run(self, stopping: asyncio.Event) -> None:
        """Measure and ask until told to stop."""
        try:
            async with asyncio.TaskGroup() as both:  # one that fails ends the other, and both begin anew
                both.create_task(self._meter.run(stopping))
                both.create_task(self._prober.run(stopping))
        except ExceptionGroup as failed:  # its own words say only that there was one
            raise failed.exceptions[0] from failed


class OneLook(Generic[T]):
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
