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
from supervisor_core.workers.context import DaemonContext, HostContext

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

PASS_SECONDS = 5.0
"""The time for deliveries in a pass; the next pass continues."""

FORGET_SECONDS = 7 * 24 * 3600.0
"""The time for which the output of an unconfigured worker is kept."""

ROTATING, DELIVERING = "rotating", "delivering"


def maintain_output(host: HostContext, worker_id: str) -> None:
    """Rotate one worker's output and deliver what waits, once. For a pass, which has the worker to itself."""
    path, limits = output_path(host.config.state_dir, worker_id), host.config.logging
    if not path.exists():
        return
    output = WorkerOutput(path)
    output.rotate(limits.max_bytes, limits.backups)
    deadline = time.monotonic() + PASS_SECONDS
    while output.deliver(host.config, host.drive) and time.monotonic() < deadline:
        pass


class WorkerOutputs(Service):
    """A background service of the daemon. It rotates files while a delivery hangs with the drive."""

    name = "outputs"

    def __init__(self, parts: DaemonContext) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = Blocking(3, "outputs")
        self._outputs: dict[str, WorkerOutput] = {}
        self._sizes: dict[str, int] = {}
        self._problems: dict[str, str] = {}
        self._delivering = threading.Lock()
        self._next_cleanup = 0.0

    async def run(self, stopping: asyncio.Event) -> None:
        loop, watch, woken = asyncio.get_running_loop(), FolderWatch(next_write=True), asyncio.Event()

        def on_write() -> None:
            watch.drain()
            woken.set()

        if (descriptor := watch.fileno()) is not None:
            loop.add_reader(descriptor, on_write)
        delivery: asyncio.Future[float | None] | None = None
        is_waiting, deliver_at, retries = False, 0.0, False
        try:
            while not stopping.is_set():
                self.pulse.beat(loop=ROTATING)
                woken.clear()
                is_watching = watch.watch(make_output_folder(self._parts.host.config.state_dir))
                room = await self._blocking(self._rotate_round)
                if delivery is not None and delivery.done():
                    self.pulse.rest(DELIVERING)
                    retry_seconds, delivery = delivery.result(), None
                    retries = retry_seconds is not None
                    is_waiting = is_waiting or retries
                    deliver_at = loop.time() + (DELIVER_SECONDS if retry_seconds is None else retry_seconds)
                is_waiting = is_waiting or room is not None
                seconds = None if is_watching else POLL_SECONDS
                if is_waiting and delivery is None:
                    urgent_bytes = self._parts.host.config.logging.max_bytes / 2
                    is_urgent = not retries and any(output.waiting > urgent_bytes for output in self._outputs.values())
                    seconds = 0.0 if is_urgent else max(deliver_at - loop.time(), 0.0)
                    if seconds == 0.0:
                        self.pulse.beat(ROUND_SECONDS, DELIVERING)
                        is_waiting, seconds = False, None if is_watching else POLL_SECONDS
                        delivery = asyncio.ensure_future(self._blocking(self._deliver_round))
                        delivery.add_done_callback(lambda _: woken.set())
                if room is not None:  # somebody writes now
                    pause = min(max(room / FASTEST_BYTES_PER_SECOND, SHORTEST_PAUSE), LONGEST_PAUSE)
                    await wait_until(None, stopping, pause)
                else:
                    self.pulse.rest(ROTATING)
                    await wait_until(woken, stopping, seconds)
        finally:  # a delivery that hangs is left to its thread
            self.pulse.rest(ROTATING)
            self.pulse.rest(DELIVERING)
            if descriptor is not None:
                loop.remove_reader(descriptor)
            watch.close()

    async def finish(self) -> None:
        """Deliver what was written so far, if the drive responds soon."""

        def deliver_all() -> None:
            self._rotate_round()
            while self._deliver_round() == 0.0:
                pass

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._blocking(deliver_all), LAST_SECONDS)

    def _rotate_round(self) -> int | None:
        """Rotate the full files. Returns the smallest room left in one that has grown, None if none has."""
        config, room = self._parts.host.config, None
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
                spare = 2 * config.logging.max_bytes  # retried after a pause
            else:
                self._sizes[worker_id] = output.size
                spare = max(2 * config.logging.max_bytes - output.size, 0)
            room = spare if room is None else min(room, spare)
        return room

    def _deliver_round(self) -> float | None:
        """Deliver what waits. Returns the seconds until the next round, None if everything is delivered."""
        host, retry_seconds = self._parts.host, None
        with self._delivering:
            for worker_id, output in list(self._outputs.items()):
                try:
                    if output.deliver(host.config, host.drive):
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

    def _record_problem(self, subject: str, step: str, error: Exception | None) -> None:
        """Log a change, not a state."""
        before = self._problems.pop(f"{subject} {step}", "")
        if error is not None:
            self._problems[f"{subject} {step}"] = str(error)
            if before != str(error):
                log.warning("the output of %s can't be %s: %s", subject, step, error)
        elif before:
            log.info("the output of %s can be %s again", subject, step)
