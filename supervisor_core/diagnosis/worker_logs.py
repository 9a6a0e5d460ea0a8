"""The newest lines of what workers wrote, without secrets; whatever can't be read says why in its place."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from functools import partial

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.diagnosis.reports.files import masking_of
from supervisor_core.host.drive import Drive
from supervisor_core.host.logging.excerpts import Tail, last_lines, start_time
from supervisor_core.host.logging.masking import Masking
from supervisor_core.processes.output.files import read_source, source_before, source_of, written_to

READ_BYTES = 1024 * 1024
"""Of the end of one file: a thousand lines of a thousand characters."""

READ_BYTES_OF_ALL = 8 * READ_BYTES
"""The limit for all workers together."""

SECONDS = 12.0
"""The timeout for all workers together; a hanging drive times out after 10 s."""

AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class WorkerLog:
    worker_id: str
    path: str
    lines: tuple[str, ...] = ()
    size_bytes: int = 0
    problem: str = ""
    """The reason why they are unavailable."""
    nothing: bool = False
    """It has written nothing yet."""


class NewestLines:
    """Reads in a few threads of its own; a hanging one is abandoned, and the others continue."""

    def __init__(self) -> None:
        self._threads = DaemonThreads("logs", AT_ONCE)

    def __call__(self, drive: Drive, config: SupervisorConfig, workers: Sequence[str], count: int) -> list[WorkerLog]:
        """So many lines of each of these workers, in their order, oldest line first."""
        deadline, masking = time.monotonic() + SECONDS, masking_of(config)
        wanted = [config.worker(worker_id) for worker_id in workers]
        most = min(READ_BYTES, READ_BYTES_OF_ALL // max(len(wanted), 1))
        reading = partial(_written, drive, config, count=count, most=most, masking=masking)
        under_way = [(worker, self._threads.submit(reading, worker)) for worker in wanted]
        found = []
        for worker, future in under_way:
            try:
                found.append(future.result(max(deadline - time.monotonic(), 0.0)))
            except FutureTimeout:
                future.cancel()
                words = f"It couldn't be read within {SECONDS:g} s: its disk hangs. Check the mount."
                found.append(WorkerLog(worker.id, str(written_to(config, worker)), problem=words))
        return found


def _written(
    drive: Drive, config: SupervisorConfig, worker: WorkerSettings, *, count: int, most: int, masking: Masking
) -> WorkerLog:
    path = str(written_to(config, worker))
    try:
        tail = _tail(drive, config, worker, count, most, masking)
    except FileNotFoundError:
        return WorkerLog(worker.id, path, nothing=True)
    except (SupervisorError, OSError) as error:
        return WorkerLog(worker.id, path, problem=masking.text(str(error)))
    return WorkerLog(worker.id, path, tuple(tail.lines), tail.size_bytes, nothing=all(map(start_time, tail.lines)))


def _tail(
    drive: Drive, config: SupervisorConfig, worker: WorkerSettings, count: int, most: int, masking: Masking
) -> Tail:
    """Read the end of its file, and of the file before it after a recent rotation."""
    end = read_source(drive, source_of(config, worker), most)
    tail = last_lines(end, count, masking)
    if len(tail.lines) >= count or end.cut or not worker.log_file:
        return tail
    try:
        earlier = read_source(drive, source_before(config, worker), most)
    except FileNotFoundError:
        return tail
    older = last_lines(earlier, count - len(tail.lines), masking)
    return Tail([*older.lines, *tail.lines], tail.size_bytes)
