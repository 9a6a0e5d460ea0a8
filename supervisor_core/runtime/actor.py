"""One actor per worker: brings it up, then carries out its commands in order, one at a time, whatever others do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from supervisor_core.adapters.observation import state_of
from supervisor_core.adapters.worker import find_watcher, start_watcher
from supervisor_core.config import Worker
from supervisor_core.domain.catalog import by_handler
from supervisor_core.domain.definitions import Tier
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.health import WorkerState
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.planning import ActionKind, Actual, Wanted, plan
from supervisor_core.ledger import jobs
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.checkout_lock import checkout_shared
from supervisor_core.runtime.executing import Patience, execute
from supervisor_core.runtime.parts import Parts

PAUSE_AFTER_TROUBLE_SECONDS = 1.0
SETTLE_SECONDS = 2.0
"""How often the drive is tried while it does not know of a pause yet."""

log = logging.getLogger(__name__)


class WorkerActor:
    """Its mailbox is the worker's rows in the queue; `wake` says that there may be one.

    Nobody else in this program starts or stops the worker, or writes its pause.
    """

    def __init__(
        self,
        worker: Worker,
        parts: Parts,
        blocking: Blocking,
        done: Callable[[Job], None],
        progressed: Callable[[Job], None] = lambda _: None,
    ) -> None:
        self.worker = worker
        self._parts = parts
        self._blocking = blocking
        self._done = done
        self._progressed = progressed
        self._woken = asyncio.Event()
        self._coming_up = True
        self._busy: Job | None = None
        self._about = {"worker_id": worker.id}  # for the structured log
        self.problem = ""
        """What keeps it from its work."""
        self.start_error: str | None = None
        """Why the worker could not be brought up."""

    @property
    def state(self) -> WorkerState | None:
        """What is being done about the worker; None where its processes alone say how it is."""
        if self._coming_up:
            return WorkerState.STARTING
        if self._busy is None:
            return None
        stops = WorkerState.STOPPING  # also of a restart it is the half that may take long
        if self.changes_code:
            return stops
        return {"pause": stops, "restart_watcher": stops, "resume": WorkerState.STARTING}.get(self._busy.handler)

    @property
    def changes_code(self) -> bool:
        """Whether the code that its worker runs from is being changed: others may run from it as well."""
        definition = by_handler(self._busy.handler) if self._busy else None
        return definition is not None and definition.tier is Tier.CODE

    def wake(self) -> None:
        """Look into the queue, now."""
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Bring the worker up, then do what is queued until asked to stop, which is heard between two jobs."""
        try:
            await self._careful(self._blocking(self._bring_up, stopping.is_set))
            self._coming_up = False
            while not stopping.is_set():
                self._woken.clear()
                idle = await self._careful(self._next_job(Patience(stopping.is_set)))
                if idle is None:
                    await _first_of(stopping.wait, seconds=PAUSE_AFTER_TROUBLE_SECONDS)
                elif idle:
                    unsettled = await self._blocking(self._parts.host.pauses.unsettled, self.worker.id)
                    await _first_of(self._woken.wait, stopping.wait, seconds=SETTLE_SECONDS if unsettled else None)
        except asyncio.CancelledError:
            if self._busy is not None:
                words = "%s of %s is still under way and is left"
                log.error(words, self._busy.handler, self.worker.id, extra=self._about)  # noqa: TRY400
            raise

    async def _careful(self, work: Awaitable[bool]) -> bool | None:
        """The edge of the actor: it goes on whatever happens, and says what is wrong; None where something was."""
        try:
            answer = await work
        except Exception as error:
            log.exception("the actor of %s could not work", self.worker.id, extra=self._about)
            self.problem = f"{type(error).__name__}: {error}"
            return None
        self.problem = ""
        return answer

    async def _next_job(self, patience: Patience) -> bool:
        """Carry out one job; True where there was none to do."""
        ledger, host = self._parts.ledger, self._parts.host
        job = await self._blocking(lambda: ledger.read(lambda connection: jobs.next_to_run(connection, self.worker.id)))
        if job is None:
            await self._blocking(host.pauses.settle, self.worker.id)
            return True
        self._busy = job
        loop = asyncio.get_running_loop()

        def heard(job: Job) -> None:
            loop.call_soon_threadsafe(self._progressed, job)

        outcome = await self._blocking(execute, job, host, ledger, self._trouble, patience, heard)
        self._busy = None
        if outcome is not None and outcome.success:
            self.start_error = None
        self._done(job)
        return False

    def _trouble(self, words: str) -> None:
        """Called from the handler's thread; one assignment is all it does."""
        self.problem = words

    def _bring_up(self, told: Callable[[], object]) -> bool:
        """Start the worker if it should run and does not, once; find it if it runs."""
        host, worker = self._parts.host, self.worker
        found = find_watcher(host.processes, host.drive, host.config, worker)
        if found.identity is not None:
            log.info("%s runs already, as pid %d", worker.id, found.identity.pid, extra=self._about)
        wanted = Wanted(worker.enabled, worker.quarantined, host.pauses.read(worker.id) is not None)
        actual = Actual(state_of(found))
        if plan({worker.id: wanted}, {worker.id: actual}, datetime.now(UTC))[worker.id].kind is not ActionKind.START:
            return True
        try:
            with checkout_shared(host, worker, wait=True, told=told) as ours:
                if not ours:
                    return True
                if host.pauses.read_surely(worker.id) is not None:  # made while we looked, or while the drive hung
                    return True
                identity = start_watcher(host.processes, host.drive, host.config, worker)
        except (SupervisorError, OSError) as error:
            self.start_error = str(error)
            log.error("%s could not be started: %s", worker.id, error, extra=self._about)  # noqa: TRY400 (the words say it all)
        else:
            log.info("%s started as pid %d", worker.id, identity.pid, extra=self._about)
        return True


async def _first_of(*waits: Callable[[], Awaitable[object]], seconds: float | None = None) -> None:
    """Come back when the first of these does, or after so long."""
    tasks = [asyncio.ensure_future(wait()) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
