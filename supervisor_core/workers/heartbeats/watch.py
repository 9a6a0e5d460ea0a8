"""Notices new heartbeats and changed pause flags immediately, by file system events.

The kernel only reports files that this host writes; polling finds the rest on a shared drive. An event is a hint to
observe.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.folder_watch import FolderWatch
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import GOOD_WORDS, Heartbeat
from supervisor_core.workers.heartbeats.files import last_beat, worker_of
from supervisor_core.workers.pauses import paused_by

AGAIN_SECONDS, SOON_SECONDS = 30.0, 1.0
"""The intervals for checking that the watched folder is still in place, and for retries while there is none."""

GATHER_SECONDS = 0.1
"""Changes within this time are read in one call to the drive."""

log = logging.getLogger(__name__)


class HeartbeatWatch(Service):
    """A background service of the daemon. `fine` says whether each running worker is healthy; `look` observes a worker
    now. Both run on the event loop."""

    name = "beats"

    def __init__(
        self,
        parts: DaemonContext,
        blocking: Blocking,
        fine: Callable[[], Mapping[str, bool]],
        look: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = blocking
        self._fine = fine
        self._look = look
        self._watch: FolderWatch | None = None
        self._heard: set[str] = set()
        self._woken = asyncio.Event()
        self._deaf: asyncio.TimerHandle | None = None

    async def initialise(self) -> None:
        """Ask the kernel to report new files, where it can."""
        self._watch = FolderWatch(every_change=True)
        descriptor = self._watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._something_new)

    async def run(self, stopping: asyncio.Event) -> None:
        """Watch until asked to stop."""
        while not stopping.is_set():
            self.pulse.beat()
            seconds = AGAIN_SECONDS if await self._listen() else SOON_SECONDS
            self.pulse.beat(within=seconds)
            await wait_until(self._woken, stopping, seconds)
            self._woken.clear()
            if self._heard and not stopping.is_set():
                await wait_until(None, stopping, GATHER_SECONDS)
                await self._follow()

    async def shut_down(self) -> None:
        watch, self._watch = self._watch, None
        if self._deaf is not None:
            self._deaf.cancel()
        if watch is None:
            return
        descriptor = watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
        watch.close()

    async def _listen(self) -> bool:
        """Watch the folder; False if a retry may work soon."""
        watch, drive = self._watch, self._parts.host.drive
        folder = self._parts.host.config.folder("state")
        if watch is None or watch.fileno() is None:
            return True  # never
        with contextlib.suppress(DriveUnavailable, OSError):
            return await self._blocking(drive.call, watch.watch, folder, drive.root)
        return False

    def _something_new(self) -> None:
        """Follow what happened at once, and what happens in the next moment together: our own files are many."""
        descriptor = self._watch.fileno() if self._watch is not None else None
        if descriptor is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(descriptor)
            self._deaf = loop.call_later(GATHER_SECONDS, loop.add_reader, descriptor, self._something_new)
        names = self._watch.drain() if self._watch is not None else []
        for name in names:
            if (paused := paused_by(name)) is not None:
                self._look(paused)
        heard = {worker_id for name in names if (worker_id := worker_of(name)) is not None}
        if heard:
            self._heard |= heard
            self._woken.set()

    async def _follow(self) -> None:
        """Observe the unhealthy workers again: they may have recovered. Read the heartbeats of the others."""
        heard, self._heard = self._heard, set()
        fine = self._fine()
        for worker_id in heard:
            if fine.get(worker_id) is False:
                self._look(worker_id)
        drive, folder = self._parts.host.drive, self._parts.host.config.folder("state")
        well = [worker_id for worker_id in heard if fine.get(worker_id)]
        try:
            unwell = await self._blocking(drive.call, _unwell, drive.root, folder, well) if well else []
        except (DriveUnavailable, OSError) as error:
            log.debug("new heartbeats couldn't be read: %s", error)
            return
        for worker_id in unwell:
            self._look(worker_id)


def _unwell(root: Path, folder: Path, worker_ids: Collection[str]) -> list[str]:
    return [worker_id for worker_id in worker_ids if _complains(last_beat(root, folder, worker_id))]


def _complains(beat: Heartbeat | None) -> bool:
    return beat is not None and (bool(beat.error) or beat.status.lower() not in GOOD_WORDS)
