"""One actor per worker: carries out that worker's commands in order, one at a time, whatever others do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from supervisor_core.config import Worker
from supervisor_core.domain.health import WorkerState
from supervisor_core.domain.jobs import Job
from supervisor_core.ledger import jobs
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.executing import execute
from supervisor_core.runtime.parts import Parts

PAUSE_AFTER_TROUBLE_SECONDS = 1.0

log = logging.getLogger(__name__)


class WorkerActor:
    """Its mailbox is the worker's rows in the queue; `wake` says that there may be one."""

    def __init__(self, worker: Worker, parts: Parts, blocking: Blocking, done: Callable[[Job], None]) -> None:
        self.worker = worker
        self._parts = parts
        self._blocking = blocking
        self._done = done
        self._woken = asyncio.Event()
        self._busy: Job | None = None
        self.problem = ""

    @property
    def busy_with(self) -> Job | None:
        """The job in hand."""
        return self._busy

    @property
    def state(self) -> WorkerState | None:
        """What the job in hand makes of the worker's state; None where its processes alone say."""
        if self._busy is None:
            return None
        return {"pause": WorkerState.STOPPING, "resume": WorkerState.STARTING}.get(self._busy.handler)

    def wake(self) -> None:
        """Look into the queue, now."""
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Carry out what is queued until asked to stop, which is heard between two jobs."""
        while not stopping.is_set():
            self._woken.clear()
            try:
                rest = not await self._next_job()
                self.problem = ""
            except Exception as error:  # the edge of the actor: it goes on, and says what is wrong
                log.exception("the actor of %s could not work", self.worker.id)
                self.problem = f"{type(error).__name__}: {error}"
                await asyncio.wait([asyncio.ensure_future(stopping.wait())], timeout=PAUSE_AFTER_TROUBLE_SECONDS)
                rest = False
            if rest:
                await _either(self._woken.wait, stopping.wait)

    async def _next_job(self) -> bool:
        """Carry out one job; False where there is none."""
        ledger = self._parts.ledger
        job = await self._blocking(lambda: ledger.read(lambda connection: jobs.next_to_run(connection, self.worker.id)))
        if job is None:
            return False
        self._busy = job
        try:
            await self._blocking(execute, job, self._parts.host, ledger)
        finally:
            self._busy = None
        self._done(job)
        return True


async def _either(*waits: Callable[[], Awaitable[object]]) -> None:
    """Come back when the first of these does."""
    tasks = [asyncio.ensure_future(wait()) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
