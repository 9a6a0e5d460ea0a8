"""What the daemon answers at its control door: how it is, wake up, what became of a command, rest, stop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from supervisor_core.domain.jobs import FINAL, Job
from supervisor_core.ledger import jobs
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.results import progress_document, result_document

LONGEST_WAIT_SECONDS = 24 * 3600.0


class Waiting:
    """Whoever waits for a command is told as soon as there is something to tell."""

    def __init__(self, ledger: Ledger, blocking: Blocking, stopping: asyncio.Event) -> None:
        self._ledger = ledger
        self._blocking = blocking
        self._stopping = stopping
        self._news = asyncio.Condition()
        self._telling: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """There is something new: have all who wait look."""

        async def tell() -> None:
            async with self._news:
                self._news.notify_all()

        self._telling = asyncio.ensure_future(tell())  # the loop keeps only a weak reference

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The outcomes of a command's jobs, as soon as all have one; `stopping` where that can't be waited for.

        Who has `seen` so many steps of its handlers is also answered when there are more: with all of them, in the
        order of their times, so that nothing hangs on which of two workers' steps was written first.
        """
        task_id = str(request.get("task_id", ""))
        seen = None if request.get("seen") is None else int(request["seen"])
        seconds = min(float(request.get("seconds", 60.0)), LONGEST_WAIT_SECONDS)
        try:
            async with asyncio.timeout(seconds), self._news:
                while not self._stopping.is_set():
                    found = await self._blocking(self._jobs_of, task_id)
                    if found and all(job.state in FINAL for job in found):
                        return {"done": True, "results": [result_document(job) for job in found]}
                    steps = progress_document(found)
                    if seen is not None and len(steps) > seen:
                        return {"done": False, "progress": steps}
                    await self._news.wait()
                return {"done": False, "stopping": True}
        except TimeoutError:
            return {"done": False}

    def _jobs_of(self, task_id: str) -> list[Job]:
        return self._ledger.read(lambda connection: jobs.of_task(connection, task_id))


def stop_answer(workers: list[dict[str, Any]], bound_seconds: float) -> dict[str, Any]:
    """For who asks the daemon to stop: whom to wait for, how long, and which workers run."""
    running = [worker["id"] for worker in workers if worker["pid"]]
    return {"ok": True, "pid": os.getpid(), "workers": running, "bound_seconds": bound_seconds}
