"""The files of captured output, in the state folder: where they lie, how they are opened, and the end of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor_core.adapters.open_folder import End, OpenFolder

if TYPE_CHECKING:
    from supervisor_core.config import SupervisorConfig

FOLDER = "output"
MODE, FOLDER_MODE = 0o600, 0o700

READS = 5
"""Of the end, where the file's beginning is cut off each time."""


def output_path(state_dir: Path, worker_id: str) -> Path:
    """The file that a worker's output goes to."""
    return state_dir / FOLDER / f"{worker_id}.log"


def drive_log(config: SupervisorConfig, worker_id: str) -> Path:
    """Where the output is brought to, on the drive."""
    return config.folder("logs") / "workers" / f"{worker_id}.log"


def make_output_folder(state_dir: Path) -> Path:
    """Make the folder of all captured output, readable by nobody else."""
    folder = state_dir / FOLDER
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    return folder


@contextlib.contextmanager
def opened_output(path: Path, flags: int) -> Iterator[int]:
    """A checked descriptor: a regular file of our own with one name, reached through no link and never waited for."""
    with OpenFolder.at(path.parent, shared=True) as folder, folder.opened(path.name, flags, MODE, own=True) as found:
        descriptor = os.dup(found)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_output_end(path: Path, most: int) -> End:
    """The last bytes, at most so many, from as many of the older files as it takes.

    `FileNotFoundError` where nothing was captured yet.
    """
    for _ in range(READS):
        newest = _inode(numbered(path, 1))
        end = _read_end(path, most)
        if size_of(path) >= end.size and _inode(numbered(path, 1)) == newest:
            break
    return end


def _read_end(path: Path, most: int) -> End:
    data, size, cut = _end_of(path, most)
    number = 1
    while len(data) < most:
        try:
            older, _, cut = _end_of(numbered(path, number), most - len(data))
        except FileNotFoundError:
            break
        data, number = older + data, number + 1
    return End(data, size, cut)


def _end_of(path: Path, most: int) -> tuple[bytes, int, bool]:
    with opened_output(path, os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        start = max(size - most, 0)
        return read_at(descriptor, start, size - start), size, start > 0


def numbered(path: Path, number: int) -> Path:
    """The older file with this number; 1 is the newest."""
    return path.with_name(f"{path.name}.{number}")


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
    data = b""
    while len(data) < length and (chunk := os.read(descriptor, length - len(data))):
        data += chunk
    return data
