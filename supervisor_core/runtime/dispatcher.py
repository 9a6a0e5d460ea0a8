"""The dispatcher: one actor per worker, woken when there is something to do; and the start of what should run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from supervisor_core.adapters.worker import check_watcher_process, start_watcher
from supervisor_core.config import Worker
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.health import WorkerState
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.plan import ActionKind, Wanted, plan
from supervisor_core.runtime.actor import WorkerActor
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.observing import state_of
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.recovery import report_interrupted

log = logging.getLogger(__name__)


class Dispatcher:
    """Hands each worker's commands to its actor. `finished` is called after each job, on the event loop."""

    name = "orchestrator_dispatcher"

    def __init__(self, parts: Parts, blocking: Blocking, finished: Callable[[Job], None]) -> None:
        self._parts = parts
        self._blocking = blocking
        self._finished = finished
        self._workers = dict(parts.host.config.workers)
        self._actors: dict[str, WorkerActor] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._recovered = False
        self._errors: dict[str, str] = {}

    def wake(self) -> None:
        """Have every actor look into its queue."""
        for actor in self._actors.values():
            actor.wake()

    def state_of(self, worker_id: str) -> WorkerState | None:
        """What a job in hand makes of the worker's state."""
        actor = self._actors.get(worker_id)
        return actor.state if actor else None

    def last_error(self, worker_id: str) -> str | None:
        """Why this worker could not be started."""
        return self._errors.get(worker_id)

    def problem(self) -> str:
        """What keeps actors from their work."""
        return "; ".join(f"{name}: {actor.problem}" for name, actor in self._actors.items() if actor.problem)

    async def initialise(self) -> None:
        """Report what a crash interrupted (once: later, what is under way is our own); find or start the workers."""
        if not self._recovered:
            ids = list(self._workers)
            await self._blocking(report_interrupted, self._parts.host, self._parts.ledger, ids)
            self._recovered = True
        await asyncio.gather(*(self._blocking(self._bring_up, worker) for worker in self._workers.values()))

    async def run(self, stopping: asyncio.Event) -> None:
        """Let the actors work until asked to stop; each finishes what it has in hand."""
        for worker in self._workers.values():
            actor = WorkerActor(worker, self._parts, self._blocking, self._finished)
            self._actors[worker.id] = actor
            self._tasks.append(asyncio.create_task(actor.run(stopping), name=worker.id))
        try:
            if self._tasks:
                await asyncio.gather(*self._tasks)
            else:
                await stopping.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def shut_down(self) -> None:
        """Name what is cut off: it will be reported as interrupted at the next start."""
        for actor in self._actors.values():
            if actor.busy_with is not None:
                log.error("%s of %s is still under way and is left", actor.busy_with.handler, actor.worker.id)
        self._actors, self._tasks = {}, []

    def _bring_up(self, worker: Worker) -> None:
        host = self._parts.host
        found = check_watcher_process(host.processes, worker)
        wanted = Wanted(worker.enabled, worker.quarantined, host.pauses.read(worker.id) is not None)
        action = plan({worker.id: wanted}, {worker.id: state_of(found)})[worker.id]
        if found.identity is not None:
            log.info("%s runs already, as pid %d", worker.id, found.identity.pid)
        if action is not ActionKind.START:
            return
        try:
            identity = start_watcher(host.processes, host.drive, host.config, worker)
        except (SupervisorError, OSError) as error:
            self._errors[worker.id] = str(error)
            log.error("%s could not be started: %s", worker.id, error)  # noqa: TRY400 (the words say it all)
        else:
            self._errors.pop(worker.id, None)
            log.info("%s started as pid %d", worker.id, identity.pid)
