"""Notices new heartbeats and changed pause flags immediately, by file system events.

The kernel only reports files that this host writes; polling finds the rest on a shared drive. An event is a hint to
observe.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.folder_watch import FolderWatch
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import GOOD_WORDS
from supervisor_core.workers.heartbeats.files import last_beats, worker_of
from supervisor_core.workers.pauses import paused_by

AGAIN_SECONDS, SOON_SECONDS = 30.0, 1.0
"""The intervals for checking that the watched folder is still in place, and for retries while there is none."""

GATHER_SECONDS = 0.1
"""Changes within this time are followed together: our own files are many."""

log = logging.getLogger(__name__)


class HeartbeatWatch(Service):
    """A background service of the daemon. `health` says whether each running worker is healthy; `observe` observes a
    worker now. Both run on the event loop."""

    name = "beats"

    def __init__(
        self,
        parts: DaemonContext,
        blocking: Blocking,
        health: Callable[[], Mapping[str, bool]],
        observe: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = blocking
        self._health = health
        self._observe = observe

    async def run(self, stopping: asyncio.Event) -> None:
        loop, watch, woken = asyncio.get_running_loop(), FolderWatch(every_change=True), asyncio.Event()
        descriptor = watch.fileno()
        try:
            while not stopping.is_set():
                self.pulse.beat()
                drive, folder = self._parts.host.drive, self._parts.host.config.folder("state")
                seconds = SOON_SECONDS
                with contextlib.suppress(DriveUnavailable, OSError):
                    if descriptor is None or await self._blocking(drive.call, watch.watch, folder, drive.root):
                        seconds = AGAIN_SECONDS
                woken.clear()
                if descriptor is not None:
                    loop.add_reader(descriptor, woken.set)
                self.pulse.beat(within=seconds)
                await wait_until(woken, stopping, seconds)
                if descriptor is not None:
                    loop.remove_reader(descriptor)
                if woken.is_set() and not stopping.is_set():
                    await self._follow(watch.drain())
                    await wait_until(None, stopping, GATHER_SECONDS)
        finally:
            if descriptor is not None:
                loop.remove_reader(descriptor)
            watch.close()

    async def _follow(self, names: list[str]) -> None:
        """Observe workers whose pause flag changed, and unhealthy ones with a new heartbeat: they may have recovered.
        Of the others, observe those whose heartbeat reports a problem."""
        for worker_id in dict.fromkeys(filter(None, map(paused_by, names))):
            self._observe(worker_id)
        health = self._health()
        worker_ids = set(filter(None, map(worker_of, names))) & set(health)
        healthy = [worker_id for worker_id in worker_ids if health[worker_id]]
        for worker_id in worker_ids.difference(healthy):
            self._observe(worker_id)
        drive, folder = self._parts.host.drive, self._parts.host.config.folder("state")
        try:
            beats = await self._blocking(drive.call, last_beats, drive.root, folder, healthy) if healthy else {}
        except (DriveUnavailable, OSError) as error:
            log.debug("new heartbeats couldn't be read: %s", error)
            return
        for worker_id, beat in beats.items():
            if beat.error or beat.status.lower() not in GOOD_WORDS:
                self._observe(worker_id)
