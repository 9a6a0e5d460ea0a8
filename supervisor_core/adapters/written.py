"""What a worker wrote, by itself or to us: the end of it, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from supervisor_core.adapters.drive import Drive
from supervisor_core.adapters.open_folder import End, UnreadableError
from supervisor_core.adapters.output_files import drive_log, output_path, read_output_end
from supervisor_core.adapters.processes_records import read_record
from supervisor_core.adapters.report_tail import READ_BYTES, read_end
from supervisor_core.config import SupervisorConfig, Worker


class Source(NamedTuple):
    """A file that a worker's output is in, and how to read the end of it."""

    path: Path
    on_drive: bool
    """Then it's read through the drive, which may hang."""
    read: Callable[[int], End]
    """`FileNotFoundError` where nothing was written yet."""


def written_to(config: SupervisorConfig, worker: Worker) -> Path:
    """The file that this worker writes itself, else the one that its output is captured in.

    A worker that was started by an earlier version writes to the drive until its next start.
    """
    if worker.log_file:
        return worker.log_file
    earlier = drive_log(config, worker.id)
    return earlier if _on_record(config, worker) == str(earlier) else output_path(config.state_dir, worker.id)


def source_of(config: SupervisorConfig, worker: Worker) -> Source:
    """Where the worker's output is."""
    path = written_to(config, worker)
    if path == output_path(config.state_dir, worker.id):
        return Source(path, on_drive=False, read=partial(read_output_end, path))
    return _file(config, path)


def source_before(config: SupervisorConfig, worker: Worker) -> Source:
    """The file that the worker's own log was before it was begun anew. Captured output needs no such look."""
    path = written_to(config, worker)
    return _file(config, path.with_name(f"{path.name}.1"))


def _file(config: SupervisorConfig, path: Path) -> Source:
    root = config.nas.root
    if path.is_relative_to(root):
        return Source(path, on_drive=True, read=partial(read_end, path, root=root))
    return Source(path, on_drive=False, read=partial(read_end, path))


def read_source(drive: Drive, source: Source, most: int = READ_BYTES, *, timeout: float | None = None) -> End:
    """The last bytes of it, at most so many."""
    if not source.on_drive:
        return source.read(most)
    return drive.call(_read_there, drive, source, most, timeout=timeout)


def _read_there(drive: Drive, source: Source, most: int) -> End:
    drive.confirm()
    return source.read(most)


def _on_record(config: SupervisorConfig, worker: Worker) -> str:
    try:
        record = read_record(config.state_dir, worker.id)
    except (UnreadableError, OSError):
        return ""
    return record.log_path if record else ""
