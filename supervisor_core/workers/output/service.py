"""The output of all workers: bounded in the state folder, and delivered to the drive when it's there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import threading
import time
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Service, wait_until
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.folder_watch import WriteAlarm
from supervisor_core.processes.output.capture import WorkerOutput
from supervisor_core.processes.output.files import make_output_folder, output_path
from supervisor_core.processes.records import record_path
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.output.delivery import deliver

log = logging.getLogger(__name__)

FASTEST_BYTES_PER_SECOND = 50e6
"""The assumed fastest writer: the next check comes before it could write twice `logging.max_bytes`."""

SHORTEST_NAP, LONGEST_NAP = 0.005, 0.5

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

WATCHING, DELIVERING = "watching", "delivering"
"""The two loops."""


class WorkerOutputs(Service):
    """A background service of the daemon. One thread bounds the files, the other one delivers, so that files don't grow
    while the drive hangs."""

    name = "outputs"

    def __init__(self, parts: DaemonContext) -> None:
        super().__init__()
        self._parts = parts
        self._outputs: dict[str, WorkerOutput] = {}
        self._ends: dict[str, int] = {}
        self._problems: dict[str, str] = {}
        self._alarm: WriteAlarm | None = None
        self._news, self._much, self._stopped = threading.Event(), threading.Event(), threading.Event()
        self._threads = DaemonThreads("outputs", 3)

    async def initialise(self) -> None:
        """Prepare the service."""
        self._stopped.clear()
        self._alarm = WriteAlarm()

    async def run(self, stopping: asyncio.Event) -> None:
        """Watch and deliver until asked to stop."""
        both: list[asyncio.Future[Any]] = [
            asyncio.wrap_future(self._threads.submit(each)) for each in (self._watch, self._deliver_all)
        ]
        ended = asyncio.Event()
        for each in both:
            each.add_done_callback(lambda _: ended.set())
        try:
            await wait_until(ended, stopping)
        finally:
            self._end()
        await asyncio.wait(both, timeout=LAST_SECONDS)
        for each in both:
            if each.done():
                each.result()

    async def shut_down(self) -> None:
        """Release everything. A thread that waits for the drive is left alone."""
        self._end()

    async def finish(self) -> None:
        """Deliver what was written so far, if the drive responds immediately."""
        done = asyncio.wrap_future(self._threads.submit(self._finish))
        await asyncio.wait({done}, timeout=LAST_SECONDS)
        if done.done() and (error := done.exception()) is not None:
            log.warning("the workers' last output is delivered after the next start: %s", error)

    def _end(self) -> None:
        self._stopped.set()
        self._news.set()
        self._much.set()
        if self._alarm is not None:
            self._alarm.wake()

    # --- keeping the files small

    def _watch(self) -> None:
        alarm, armed = self._alarm, False
        if alarm is None:
            return
        try:
            while not self._stopped.is_set():
                self.pulse.beat(loop=WATCHING)
                room = self._look()
                if room is not None:
                    armed = False
                    nap = room / FASTEST_BYTES_PER_SECOND
                    self._stopped.wait(min(max(nap, SHORTEST_NAP), LONGEST_NAP))
                elif not armed and alarm.arm(self._folder()):
                    armed = True  # a write before that was not told of: one more look
                else:
                    self.pulse.rest(WATCHING)
                    alarm.wait(None if armed else POLL_SECONDS)
                    armed = False
        finally:
            self.pulse.rest(WATCHING)
            alarm.close()

    def _look(self) -> int | None:
        """Bound the files that have grown. Returns the smallest room left in one of them; None if none has grown."""
        limits, rooms = self._parts.host.config.logging, []
        for worker_id, size in self._sizes():
            try:
                output = self._output(worker_id)
                if output.end_at(size) == self._ends.get(worker_id):
                    continue
                small = output.bound(limits.max_bytes, limits.backups)
                self._solved(worker_id, "be kept small")
            except (SupervisorError, OSError) as error:
                self._failed(worker_id, "be kept small", error)
                continue
            left = output.size
            self._ends[worker_id] = output.end_at(left)
            rooms.append(max(2 * limits.max_bytes - left, 0) if small else 0)
            if output.waiting > limits.max_bytes / 2:
                self._much.set()
        if rooms:
            self._news.set()
        return min(rooms, default=None)

    def _sizes(self) -> list[tuple[str, int]]:
        sizes = []
        with os.scandir(self._folder()) as entries:
            for entry in entries:
                if entry.name.endswith(".log") and not entry.name.startswith("."):
                    with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                        sizes.append((entry.name.removesuffix(".log"), entry.stat(follow_symlinks=False).st_size))
        return sizes

    def _folder(self) -> Path:
        return make_output_folder(self._parts.host.config.state_dir)

    def _output(self, worker_id: str) -> WorkerOutput:
        output = self._outputs.get(worker_id)
        if output is None:
            output = WorkerOutput(output_path(self._parts.host.config.state_dir, worker_id))
            self._outputs[worker_id] = output
        return output

    # --- bringing them to the drive

    def _deliver_all(self) -> None:
        forget_at = 0.0
        while True:
            self.pulse.rest(DELIVERING)
            self._news.wait()
            if self._stopped.is_set():
                return
            self._news.clear()
            self._much.clear()
            self.pulse.beat(ROUND_SECONDS, DELIVERING)
            if not self._round():
                self._news.set()
                self._stopped.wait(RETRY_SECONDS)
                continue
            if time.monotonic() >= forget_at:
                forget_at = time.monotonic() + FORGET_SECONDS / 24
                self._forget_removed()
            self._much.wait(DELIVER_SECONDS)

    def _round(self) -> bool:
        """Deliver what waits; False if the drive is away."""
        well = True
        for worker_id, output in list(self._outputs.items()):
            try:
                if deliver(self._parts.host, worker_id, output):
                    self._news.set()
                    self._much.set()
            except DriveUnavailable as error:
                self._failed("all workers", "reach the drive", error)
                return False
            except (SupervisorError, OSError) as error:
                self._failed(worker_id, "reach the drive", error)
                well = False
            else:
                self._solved(worker_id, "reach the drive")
                self._solved("all workers", "reach the drive")
        return well

    def _forget_removed(self) -> None:
        for worker_id, output in list(self._outputs.items()):
            config = self._parts.host.config
            if worker_id in config.workers or record_path(config.state_dir, worker_id).exists() or output.waiting:
                continue
            try:
                age = time.time() - output.path.stat().st_mtime
            except FileNotFoundError:
                age = math.inf  # somebody removed it by hand
            if age > FORGET_SECONDS:
                output.forget()
                del self._outputs[worker_id]
                self._ends.pop(worker_id, None)

    def _finish(self) -> None:
        self._look()
        self._round()

    def _failed(self, whose: str, what: str, error: Exception) -> None:
        """Log a change, not a state."""
        if self._problems.get(f"{whose} {what}") != str(error):
            self._problems[f"{whose} {what}"] = str(error)
            log.warning("the output of %s can't %s: %s", whose, what, error)

    def _solved(self, whose: str, what: str) -> None:
        if self._problems.pop(f"{whose} {what}", None) is not None:
            log.info("the output of %s can %s again", whose, what)
