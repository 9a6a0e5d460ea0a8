"""The queue processor: flags become rows, rows wake their actors, and what is done becomes result files."""

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
from supervisor_core.workers.context import DaemonContext

WATCHED_POLL_SECONDS = 30.0
"""The interval for an inbox in a folder of our own, of which the kernel reports every change."""

GATHER_SECONDS = 0.02
"""The time from one delivery to the next: the results of the same moment are written together."""

log = logging.getLogger(__name__)


class QueueProcessor(Service):
    """Woken by the kernel when a flag lands on a local disk, by the poll elsewhere, and after each job.

    Each time it wakes the actors of all workers for whom something waits: a row whose filer died before it could
    say so is found like any other.
    """

    name = QUEUE_PROCESSOR

    def __init__(self, parts: DaemonContext, blocking: Blocking, waiting: Callable[[Collection[str]], None]) -> None:
        config = parts.host.config
        super().__init__()
        self._parts = parts
        self._blocking = blocking
        self._waiting = waiting
        self._poll_seconds = config.supervisor.inbox_poll_seconds
        self._folders = list(config.folders)
        self._intake = FlagIntake(parts.host, parts.ledger, list(config.workers), flag_trust(config))
        self._watch: FolderWatch | None = None
        self._woken = asyncio.Event()
        self._problem = ""
        self._is_watched = False
        self._looks = True
        """The inbox is to be looked into; else only results are written."""
        self._unripe = 0
        """Flags that seem to be incomplete and are checked again soon."""

    def wake(self) -> None:
        self._looks = True
        self._woken.set()

    def deliver(self) -> None:
        """Write the results of commands that have ended."""
        self._woken.set()

    def configured(self) -> None:
        """Other workers are configured from now on: their flags are taken, too."""
        host = self._parts.host
        self._intake = FlagIntake(host, self._parts.ledger, list(host.config.workers), flag_trust(host.config))
        self.wake()

    def problem(self) -> str:
        """The reason why the drive can't be used."""
        return self._problem

    async def initialise(self) -> None:
        """Have the kernel tell of new files, where it can."""
        self._watch = FolderWatch()
        descriptor = self._watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._something_new)

    async def run(self, stopping: asyncio.Event) -> None:
        """Sweep, deliver, wait; until asked to stop."""
        loop = asyncio.get_running_loop()
        look_at = written_at = loop.time()
        while not stopping.is_set():
            self.pulse.beat()
            self._woken.clear()
            looks, more = self._looks or loop.time() >= look_at, False
            self._looks, written = False, 0
            try:
                if looks:
                    waiting, more = await self._blocking(self._work)
                    self._looks = self._looks or more
                    self._waiting(waiting)
                else:
                    written = await self._blocking(self._deliver)
                    more = written >= results.AT_ONCE
            except LedgerUnavailable as error:  # the flags wait, and are followed once it can be written
                about = LogEvent.LEDGER_LOST.extra(error=str(error))
                log.error("commands are waiting: %s", error, extra=about)  # noqa: TRY400
            written_at = loop.time() if written else written_at
            if looks:
                look_at = loop.time() + self._pause_seconds()
            if not (self._looks or more):
                seconds = max(0.0, look_at - loop.time())
                self.pulse.beat(within=seconds)
                await wait_until(self._woken, stopping, seconds)
                gather = written_at + GATHER_SECONDS - loop.time()
                if gather > 0 and not self._looks:
                    await wait_until(None, stopping, gather)
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

    def _pause_seconds(self) -> float:
        """The time until the next look if nothing wakes it."""
        watched = self._is_watched and self._parts.host.config.nas.root is None
        quiet = watched and not self._problem and not self._unripe
        return max(WATCHED_POLL_SECONDS, self._poll_seconds) if quiet else self._poll_seconds

    def _something_new(self) -> None:
        if self._watch is not None:
            self._watch.drain()
        self.wake()

    def _work(self) -> tuple[set[str], bool]:
        """Sweep and deliver; return the workers with waiting jobs, and whether there is more to do right away."""
        more = False
        try:
            more = self._sweep()
            self._notice("")
        except (DriveUnavailable, OSError) as error:
            self._notice(str(error))
        more = self._deliver() >= results.AT_ONCE or more
        self._parts.host.processes.reap()  # their actors tell of them
        parallel = self._parts.host.config.supervisor.parallel
        return self._parts.ledger.read(partial(jobs.workers_with_work, parallel=parallel)), more

    def _sweep(self) -> bool:
        drive = self._parts.host.drive
        while self._folders:  # once: a worker may rely on them
            drive.check()
            self._make_folder(self._folders[-1])
            self._folders.pop()
        found = self._intake.sweep(self._follow_inbox)
        self._unripe = found.unripe
        return found.more

    def _follow_inbox(self) -> None:
        """Have the kernel report new flags; for the thread of a call to the drive."""
        if self._watch is not None:
            self._is_watched = self._watch.watch(self._parts.host.inbox.folder, self._parts.host.drive.root)

    def _make_folder(self, name: str) -> None:
        """Create a folder of the drive. One that only workers use may be a link; the supervisor never goes into it."""
        drive, folder = self._parts.host.drive, self._parts.host.config.folder(name)
        if name in FOLDERS or not drive.call(drive_files.exists, drive.root, folder):
            drive.make_folder(folder)

    def _deliver(self) -> int:
        return results.deliver(self._parts.host, self._parts.ledger)

    def _notice(self, problem: str) -> None:
        """Log a change, not a state."""
        if problem and not self._problem:
            log.warning("the drive can't be used: %s", problem, extra=LogEvent.DRIVE_LOST.extra(error=problem))
        elif self._problem and not problem:
            log.info("the drive can be used again", extra=LogEvent.DRIVE_BACK.extra())
        self._problem = problem
