"""The output of all workers: kept small in the state folder, and appended to the drive while it's there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import threading
import time

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.folder_watch import FolderWatch
from supervisor_core.processes.output.capture import WorkerOutput
from supervisor_core.processes.output.files import make_output_folder, output_path
from supervisor_core.processes.records import record_path
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.output.delivery import deliver

log = logging.getLogger(__name__)

FASTEST_BYTES_PER_SECOND = 50e6
"""The assumed fastest writer: the next check comes before it could write twice `logging.max_bytes`."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.5

POLL_SECONDS = 1.0
"""The interval of checks if the system can't report writes."""

ROUND_SECONDS = 60.0
"""The time for one delivery of all output. Each piece has the drive's deadline."""

DELIVER_SECONDS = 1.0
"""The interval of deliveries, so that many small writes make one append; shorter if much waits."""

RETRY_SECONDS = 2.0
"""The delay between retries while the drive is away."""

LAST_SECONDS = 3.0
"""The time for waiting output when the daemon stops."""

FORGET_SECONDS = 7 * 24 * 3600.0
"""The time for which the output of an unconfigured worker is kept."""

ROTATING, DELIVERING = "rotating", "delivering"
"""The two loops."""


class WorkerOutputs(Service):
    """A background service of the daemon. Files are rotated while the drive hangs, so there are two loops."""

    name = "outputs"

    def __init__(self, parts: DaemonContext) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = Blocking(3, "outputs")
        self._outputs: dict[str, WorkerOutput] = {}
        self._sizes: dict[str, int] = {}
        self._problems: dict[str, str] = {}
        self._new_output, self._much_output = asyncio.Event(), asyncio.Event()
        self._delivering = threading.Lock()
        self._next_cleanup = 0.0

    async def run(self, stopping: asyncio.Event) -> None:
        loops = [asyncio.create_task(self._rotate(stopping)), asyncio.create_task(self._deliver(stopping))]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()

    async def finish(self) -> None:
        """Deliver what was written so far, if the drive responds soon."""

        def deliver_all() -> None:
            self._rotate_round()
            while self._deliver_round() == 0.0:
                pass

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._blocking(deliver_all), LAST_SECONDS)

    async def _rotate(self, stopping: asyncio.Event) -> None:
        loop, watch, written = asyncio.get_running_loop(), FolderWatch(next_write=True), asyncio.Event()

        def on_write() -> None:
            watch.drain()
            written.set()

        if (descriptor := watch.fileno()) is not None:
            loop.add_reader(descriptor, on_write)
        try:
            while not stopping.is_set():
                self.pulse.beat(loop=ROTATING)
                written.clear()
                is_watching = watch.watch(make_output_folder(self._parts.host.config.state_dir))
                room, much = await self._blocking(self._rotate_round)
                if room is None:
                    self.pulse.rest(ROTATING)
                    await wait_until(written, stopping, None if is_watching else POLL_SECONDS)
                    continue
                self._new_output.set()
                if much:
                    self._much_output.set()
                pause = room / FASTEST_BYTES_PER_SECOND
                await wait_until(None, stopping, min(max(pause, SHORTEST_PAUSE), LONGEST_PAUSE))
        finally:
            self.pulse.rest(ROTATING)
            if descriptor is not None:
                loop.remove_reader(descriptor)
            watch.close()

    def _rotate_round(self) -> tuple[int | None, bool]:
        """Rotate the full files. Returns the smallest room left in one that has grown, None if none has, and whether
        much waits for the drive."""
        config, room, much = self._parts.host.config, None, False
        for name in os.listdir(make_output_folder(config.state_dir)):
            worker_id = name.removesuffix(".log")
            if worker_id == name or name.startswith("."):
                continue
            if worker_id not in self._outputs:
                self._outputs[worker_id] = WorkerOutput(output_path(config.state_dir, worker_id))
            output = self._outputs[worker_id]
            if output.size == self._sizes.get(worker_id):
                continue
            try:
                output.rotate(config.logging.max_bytes, config.logging.backups)
                self._record_problem(worker_id, "rotated", None)
            except (SupervisorError, OSError) as error:
                self._record_problem(worker_id, "rotated", error)
                continue
            self._sizes[worker_id] = output.size
            left = max(2 * config.logging.max_bytes - output.size, 0)
            room = left if room is None else min(room, left)
            much = much or output.waiting > config.logging.max_bytes / 2
        return room, much

    async def _deliver(self, stopping: asyncio.Event) -> None:
        while True:
            self.pulse.rest(DELIVERING)
            if await wait_until(self._new_output, stopping):
                return
            self._new_output.clear()
            self._much_output.clear()
            self.pulse.beat(ROUND_SECONDS, DELIVERING)
            delivery = asyncio.ensure_future(self._blocking(self._deliver_round))
            if await wait_until(delivery, stopping):
                return  # one that hangs is left to its thread
            retry_seconds = delivery.result()
            if retry_seconds is None:
                await wait_until(self._much_output, stopping, DELIVER_SECONDS)
            else:
                self._new_output.set()
                await wait_until(None, stopping, retry_seconds)

    def _deliver_round(self) -> float | None:
        """Deliver what waits. Returns the seconds until the next round, None if everything is delivered."""
        retry_seconds: float | None = None
        with self._delivering:
            for worker_id, output in list(self._outputs.items()):
                try:
                    if deliver(self._parts.host, worker_id, output):
                        retry_seconds = retry_seconds or 0.0
                except DriveUnavailable as error:
                    self._record_problem("all workers", "delivered", error)
                    return RETRY_SECONDS
                except (SupervisorError, OSError) as error:
                    self._record_problem(worker_id, "delivered", error)
                    retry_seconds = RETRY_SECONDS
                else:
                    self._record_problem(worker_id, "delivered", None)
                    self._record_problem("all workers", "delivered", None)
            if time.monotonic() >= self._next_cleanup:
                self._next_cleanup = time.monotonic() + FORGET_SECONDS / 24
                self._forget_removed_workers()
        return retry_seconds

    def _forget_removed_workers(self) -> None:
        config = self._parts.host.config
        for worker_id, output in list(self._outputs.items()):
            if worker_id in config.workers or record_path(config.state_dir, worker_id).exists() or output.waiting:
                continue
            try:
                age = time.time() - output.path.stat().st_mtime
            except FileNotFoundError:
                age = math.inf  # somebody removed it by hand
            if age > FORGET_SECONDS:
                output.forget()
                del self._outputs[worker_id]
                self._sizes.pop(worker_id, None)

    def _record_problem(self, subject: str, what: str, error: Exception | None) -> None:
        """Log a change, not a state."""
        before = self._problems.pop(f"{subject} {what}", "")
        if error is not None:
            self._problems[f"{subject} {what}"] = str(error)
            if before != str(error):
                log.warning("the output of %s can't be %s: %s", subject, what, error)
        elif before:
            log.info("the output of %s can be %s again", subject, what)
