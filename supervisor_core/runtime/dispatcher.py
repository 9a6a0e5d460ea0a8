"""The dispatcher: reports what a crash interrupted, then keeps one actor per worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from supervisor_core.config import Worker
from supervisor_core.domain.health import WorkerState
from supervisor_core.domain.jobs import Job
from supervisor_core.runtime.actor import WorkerActor
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.recovery import report_interrupted
from supervisor_core.runtime.service_names import DISPATCHER


class Dispatcher:
    """Hands each worker's commands to its actor. On the event loop, `finished` is called after each job, and
    `progressed` after each step that a handler says it takes. `told` says whether the program must stop."""

    name = DISPATCHER

    def __init__(
        self,
        parts: Parts,
        blocking: Blocking,
        finished: Callable[[Job], None],
        progressed: Callable[[Job], None] = lambda _: None,
        told: Callable[[], object] = lambda: False,
    ) -> None:
        self._parts = parts
        self._told = told
        self._blocking = blocking
        self._finished = finished
        self._recovered = False
        workers = parts.host.config.workers.values()
        self._actors = {worker.id: WorkerActor(worker, parts, blocking, finished, progressed) for worker in workers}

    def wake(self, worker_ids: Collection[str] | None = None) -> None:
        """Have the actors of these workers look into their queues; of all where none are named."""
        for worker_id, actor in self._actors.items():
            if worker_ids is None or worker_id in worker_ids:
                actor.wake()

    def actor(self, worker_id: str) -> WorkerActor:
        """The actor of this worker."""
        return self._actors[worker_id]

    def state_of(self, worker_id: str) -> WorkerState | None:
        """What is being done about this worker."""
        return self._actors[worker_id].state

    def changing_code(self) -> list[Worker]:
        """For whom the code is being changed right now."""
        return [actor.worker for actor in self._actors.values() if actor.changes_code]

    def problem(self) -> str:
        """What keeps actors from their work."""
        return "; ".join(f"{name}: {actor.problem}" for name, actor in self._actors.items() if actor.problem)

    async def initialise(self) -> None:
        """Report what a crash interrupted; once, for later what is under way is our own."""
        if self._recovered:
            return
        host, ledger = self._parts.host, self._parts.ledger
        ended = await self._blocking(report_interrupted, host, ledger, list(self._actors), self._told)
        self._recovered = True
        for job in ended:
            self._finished(job)

    async def run(self, stopping: asyncio.Event) -> None:
        """Let the actors work until asked to stop; each finishes what it has in hand."""
        tasks = [asyncio.create_task(actor.run(stopping), name=name) for name, actor in self._actors.items()]
        try:
            await asyncio.gather(*tasks, stopping.wait())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def shut_down(self) -> None:
        """Nothing is left open."""
