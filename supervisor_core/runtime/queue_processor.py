"""The queue processor: flags become rows, rows wake their actors, and what is done becomes result files."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.watching import FolderWatch
from supervisor_core.ledger import jobs
from supervisor_core.runtime import results
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.flag_intake import FlagIntake
from supervisor_core.runtime.host import trust_of
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.rotating import rotate_outputs
from supervisor_core.runtime.service_names import QUEUE_PROCESSOR

ROTATE_SECONDS = 60.0
"""Between two looks at how large the workers' output has grown."""

log = logging.getLogger(__name__)


class QueueProcessor:
    """Woken by the kernel when a flag lands on a local disk, by the poll elsewhere, and after each job.

    Each time it wakes the actors of all workers for whom something waits: a row whose filer died before it could
    say so is found like any other.
    """

    name = QUEUE_PROCESSOR

    def __init__(self, parts: Parts, blocking: Blocking, waiting: Callable[[Collection[str]], None]) -> None:
        config = parts.host.config
        self._parts = parts
        self._blocking = blocking
        self._waiting = waiting
        self._poll_seconds = config.supervisor.inbox_poll_seconds
        self._folders = [config.folder(name) for name in type(config.nas.folders).model_fields]
        self._intake = FlagIntake(parts.host, parts.ledger, list(config.workers), trust_of(config))
        self._watch: FolderWatch | None = None
        self._woken = asyncio.Event()
        self._problem = ""
        self._rotate_at = 0.0

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    def configured(self) -> None:
        """Other workers are configured from now on: their flags are taken, too."""
        host = self._parts.host
        self._intake = FlagIntake(host, self._parts.ledger, list(host.config.workers), trust_of(host.config))
        self.wake()

    def problem(self) -> str:
        """Why the drive can't be worked with."""
        return self._problem

    async def initialise(self) -> None:
        """Have the kernel tell of new files, where it can."""
        self._watch = FolderWatch()
        descriptor = self._watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._something_new)

    async def run(self, stopping: asyncio.Event) -> None:
        """Sweep, deliver, wait; until asked to stop."""
        stop = asyncio.ensure_future(stopping.wait())
        stop.add_done_callback(lambda _: self.wake())
        try:
            while not stopping.is_set():
                self._woken.clear()
                self._waiting(await self._blocking(self._work))
                try:
                    async with asyncio.timeout(self._poll_seconds):
                        await self._woken.wait()
                except TimeoutError:
                    pass
        finally:
            stop.cancel()
        await self._blocking(self._deliver)

    async def shut_down(self) -> None:
        """Stop listening to the kernel."""
        if self._watch is None:
            return
        descriptor = self._watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
        self._watch.close()
        self._watch = None

    def _something_new(self) -> None:
        if self._watch is not None:
            self._watch.drain()
        self.wake()

    def _work(self) -> set[str]:
        """Sweep and deliver; for whom something waits."""
        try:
            self._sweep()
            self._notice("")
        except (DriveUnavailable, OSError) as error:
            self._notice(str(error))
        self._deliver()
        if time.monotonic() >= self._rotate_at:
            self._rotate_at = time.monotonic() + ROTATE_SECONDS
            rotate_outputs(self._parts.host, self._parts.host.config.workers.values())
        self._parts.host.processes.reap()  # their actors tell of them
        return self._parts.ledger.read(jobs.workers_with_work)

    def _sweep(self) -> None:
        drive, inbox, watch = self._parts.host.drive, self._parts.host.inbox, self._watch
        drive.check()
        while self._folders:  # once: a worker may rely on them
            drive.make_folder(self._folders[-1])
            self._folders.pop()
        drive.call(inbox.prepare)
        if watch is not None:
            drive.call(watch.watch, inbox.folder)
        self._intake.sweep()

    def _deliver(self) -> None:
        results.deliver(self._parts.host, self._parts.ledger)

    def _notice(self, problem: str) -> None:
        """Log a change, not a state."""
        if problem and not self._problem:
            log.warning("the drive can't be worked with: %s", problem)
        elif self._problem and not problem:
            log.info("the drive can be worked with again")
        self._problem = problem
