"""The queue processor: flags become rows, rows wake their workers, and finished jobs become result files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.service_names import QUEUE_PROCESSOR
from supervisor_core.daemon.environment import FOLDERS, flag_trust
from supervisor_core.host import drive_files
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.folder_watch import FolderWatch
from supervisor_core.intake.inbox import FlagIntake
from supervisor_core.jobs import results
from supervisor_core.jobs import rows as jobs
from supervisor_core.processes import children
from supervisor_core.workers.context import DaemonContext

WATCHED_POLL_SECONDS = 30.0
"""The interval for an inbox in a folder of our own, of which the kernel reports every change."""

GATHER_SECONDS = 0.02
"""The time from one delivery to the next: the results of the same moment are written together."""

log = logging.getLogger(__name__)


class QueueProcessor(Service):
    """Woken by the kernel when a flag lands on a local disk, by the poll elsewhere, and after each job.

    Each look wakes all workers for whom something waits: a row whose filer died before it could say so is
    found like any other.
    """

    name = QUEUE_PROCESSOR

    def __init__(self, parts: DaemonContext, blocking: Blocking, wake: Callable[[Collection[str]], None]) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = blocking
        self._wake_workers = wake
        self._poll_seconds = parts.host.config.supervisor.inbox_poll_seconds
        self._missing_folders = list(parts.host.config.folders)
        self._watch: FolderWatch | None = None
        self._is_watched = False
        self._woken = asyncio.Event()
        self._problem = ""
        self._unripe = 0
        """Flags that seem to be incomplete and are checked again soon."""
        self.configured()

    def configured(self) -> None:
        """Take the flags of the workers of the active configuration."""
        host = self._parts.host
        self._intake = FlagIntake(host, self._parts.ledger, list(host.config.workers), flag_trust(host.config))
        self.wake()

    def wake(self) -> None:
        """Look into the inbox."""
        self._look_due = True
        self._woken.set()

    def deliver(self) -> None:
        """Write the results of commands that have ended."""
        self._woken.set()

    def problem(self) -> str:
        """The reason why the drive can't be used."""
        return self._problem

    async def initialise(self) -> None:
        """Have the kernel tell of new files, where it can."""
        watch = self._watch = FolderWatch()

        def on_change() -> None:
            watch.drain()
            self.wake()

        descriptor = watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, on_change)

    async def run(self, stopping: asyncio.Event) -> None:
        """Look, deliver, wait; until asked to stop."""
        loop = asyncio.get_running_loop()
        next_look = delivered_at = loop.time()
        while not stopping.is_set():
            self.pulse.beat()
            self._woken.clear()
            look_due = self._look_due or loop.time() >= next_look
            self._look_due = unfinished = False
            try:
                if look_due:
                    workers, unfinished = await self._blocking(self._work)
                    self._look_due = self._look_due or unfinished
                    self._wake_workers(workers)
                elif count := await self._blocking(results.deliver, self._parts.host, self._parts.ledger):
                    unfinished, delivered_at = count >= results.AT_ONCE, loop.time()
            except LedgerUnavailable as error:  # the flags wait, and are followed once it can be written
                about = LogEvent.LEDGER_LOST.extra(error=str(error))
                log.error("commands are waiting: %s", error, extra=about)  # noqa: TRY400
            if look_due:
                is_local = self._parts.host.config.nas.root is None
                can_wait = self._is_watched and is_local and not self._problem and not self._unripe
                next_look = loop.time() + max(WATCHED_POLL_SECONDS if can_wait else 0.0, self._poll_seconds)
            if not (self._look_due or unfinished):
                seconds = max(0.0, next_look - loop.time())
                self.pulse.beat(within=seconds)
                await wait_until(self._woken, stopping, seconds)
                gather = delivered_at + GATHER_SECONDS - loop.time()
                if gather > 0 and not self._look_due:
                    await wait_until(None, stopping, gather)
        await self._blocking(results.deliver, self._parts.host, self._parts.ledger)

    async def shut_down(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            descriptor = watch.fileno()
            if descriptor is not None:
                asyncio.get_running_loop().remove_reader(descriptor)
            watch.close()

    def _work(self) -> tuple[set[str], bool]:
        """Take flags and deliver; return the workers with waiting jobs, and whether there is more to do right away."""
        host, unfinished, problem = self._parts.host, False, ""
        try:
            while self._missing_folders:  # once: a worker may rely on them
                host.drive.check()
                name = self._missing_folders[-1]
                folder = host.config.folder(name)
                # One that only workers use may be a link; the supervisor never goes into it.
                if name in FOLDERS or not host.drive.call(drive_files.exists, host.drive.root, folder):
                    host.drive.make_folder(folder)
                self._missing_folders.pop()
            swept = self._intake.sweep(self._watch_inbox)
            self._unripe, unfinished = swept.unripe, swept.more
        except (DriveUnavailable, OSError) as error:
            problem = str(error)
        if problem and not self._problem:
            log.warning("the drive can't be used: %s", problem, extra=LogEvent.DRIVE_LOST.extra(error=problem))
        elif self._problem and not problem:
            log.info("the drive can be used again", extra=LogEvent.DRIVE_BACK.extra())
        self._problem = problem
        unfinished = results.deliver(host, self._parts.ledger) >= results.AT_ONCE or unfinished
        children.reap()  # their workers tell of them
        with_work = partial(jobs.workers_with_work, parallel=host.config.supervisor.parallel)
        return self._parts.ledger.read(with_work), unfinished

    def _watch_inbox(self) -> None:
        """Have the kernel report new flags; for the thread of a call to the drive."""
        if self._watch is not None:
            self._is_watched = self._watch.watch(self._parts.host.inbox.folder, self._parts.host.drive.root)
