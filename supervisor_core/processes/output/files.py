"""The files of captured output in the state folder, the logs that workers write themselves, and their ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FOLDER, chunks
from supervisor_core.host.drive import Drive
from supervisor_core.host.logging.excerpts import READ_BYTES, read_end
from supervisor_core.host.open_folder import FileEnd, OpenFolder

FOLDER = "output"

READ_ATTEMPTS = 5
"""Attempts to read the end of a file that is rotated at the same moment."""


def output_path(state_dir: Path, worker_id: str) -> Path:
    """The file that a worker's output goes to."""
    return state_dir / FOLDER / f"{worker_id}.log"


def drive_log(config: SupervisorConfig, worker_id: str) -> Path:
    return config.folder("logs") / "workers" / f"{worker_id}.log"


def make_output_folder(state_dir: Path) -> Path:
    """Make the folder of all captured output, readable by nobody else."""
    folder = state_dir / FOLDER
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return folder


@contextlib.contextmanager
def opened_output(path: Path, flags: int) -> Iterator[int]:
    """A checked descriptor: a regular file of our own with one name, reached through no link and never waited for."""
    with OpenFolder.at(path.parent, shared=True) as folder, folder.opened(path.name, flags, own=True) as opened:
        descriptor = os.dup(opened)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_output_end(path: Path, max_bytes: int) -> FileEnd:
    """The last bytes, at most so many, from as many of the older files as it takes.

    `FileNotFoundError` where nothing was captured yet.
    """
    for _ in range(READ_ATTEMPTS):
        newest = _inode(numbered(path, 1))
        end = _end_of(path, max_bytes)
        for older in older_files(path):
            if len(end.data) >= max_bytes:
                break
            with contextlib.suppress(FileNotFoundError):
                before = _end_of(older, max_bytes - len(end.data))
                end = FileEnd(before.data + end.data, end.size, before.cut)
        if size_of(path) >= end.size and _inode(numbered(path, 1)) == newest:
            break
    return end


def _end_of(path: Path, max_bytes: int) -> FileEnd:
    with opened_output(path, os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        start = max(size - max_bytes, 0)
        return FileEnd(read_at(descriptor, start, size - start), size, start > 0)


def numbered(path: Path, number: int) -> Path:
    """The older file with this number; 1 is the newest."""
    return path.with_name(f"{path.name}.{number}")


def older_files(path: Path) -> list[Path]:
    numbers = (name.removeprefix(f"{path.name}.") for name in os.listdir(path.parent))
    return [numbered(path, number) for number in sorted(int(text) for text in numbers if text.isdigit())]


def size_of(path: Path) -> int:
    """The size of a file; 0 where there is none."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return 0


def read_at(descriptor: int, start: int, length: int) -> bytes:
    """So many bytes from there on, fewer where the file ends."""
    os.lseek(descriptor, start, os.SEEK_SET)
    return b"".join(chunks(descriptor, length))


class OutputSource(NamedTuple):
    """A file that a worker's output is in, and how to read the end of it."""

    path: Path
    on_drive: bool
    """Then it's read through the drive, which may hang."""
    read: Callable[[int], FileEnd]
    """`FileNotFoundError` where nothing was written yet."""


def written_to(config: SupervisorConfig, worker: WorkerSettings) -> Path:
    """The file that this worker writes itself, else the one that its output is captured in."""
    return worker.log_file or output_path(config.state_dir, worker.id)


def source_of(config: SupervisorConfig, worker: WorkerSettings) -> OutputSource:
    path = written_to(config, worker)
    if not worker.log_file:
        return OutputSource(path, on_drive=False, read=partial(read_output_end, path))
    return _file(config, path)


def source_before(config: SupervisorConfig, worker: WorkerSettings) -> OutputSource:
    """The file that the worker's own log was before it was begun anew. Captured output needs no such look."""
    path = written_to(config, worker)
    return _file(config, path.with_name(f"{path.name}.1"))


def _file(config: SupervisorConfig, path: Path) -> OutputSource:
    root = config.drive_root
    if path.is_relative_to(root):
        return OutputSource(path, on_drive=True, read=partial(read_end, path, root=root))
    return OutputSource(path, on_drive=False, read=partial(read_end, path))


def read_source(
    drive: Drive, source: OutputSource, max_bytes: int = READ_BYTES, *, timeout: float | None = None
) -> FileEnd:
    """The last bytes of it."""

    def read() -> FileEnd:
        drive.confirm()
        return source.read(max_bytes)

    return drive.call(read, timeout=timeout) if source.on_drive else source.read(max_bytes)
