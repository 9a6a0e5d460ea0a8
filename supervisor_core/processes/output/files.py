"""The files of captured output in the state folder: their places, the record of their delivery, and their ends.

The record is replaced as a whole and not synced, because the output itself isn't either: a crash of the program loses
nothing; after a power cut, a stretch of output may be delivered twice. The begin of a file that somebody has open for
appending is cut off in whole blocks on ext4 and XFS, in one step that no write can come between. Elsewhere only all of
a file can be cut off.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FILE, PRIVATE_FOLDER, UnreadableFileError
from supervisor_core.host.drive import Drive
from supervisor_core.host.files import read_json
from supervisor_core.host.logging.excerpts import READ_BYTES, read_end
from supervisor_core.host.open_folder import FileEnd, OpenFolder
from supervisor_core.processes.records import read_record

FOLDER = "output"

READS = 5
"""Of the end, where the file's beginning is cut off each time."""


def output_path(state_dir: Path, worker_id: str) -> Path:
    """The file that a worker's output goes to."""
    return state_dir / FOLDER / f"{worker_id}.log"


def drive_log(config: SupervisorConfig, worker_id: str) -> Path:
    """The path of the output on the drive."""
    return config.folder("logs") / "workers" / f"{worker_id}.log"


def make_output_folder(state_dir: Path) -> Path:
    """Make the folder of all captured output, readable by nobody else."""
    folder = state_dir / FOLDER
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return folder


@contextlib.contextmanager
def opened_output(path: Path, flags: int) -> Iterator[int]:
    """A checked descriptor: a regular file of our own with one name, reached through no link and never waited for."""
    with OpenFolder.at(path.parent, shared=True) as folder, folder.opened(path.name, flags, own=True) as found:
        descriptor = os.dup(found)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_output_end(path: Path, most: int) -> FileEnd:
    """The last bytes, at most so many, from as many of the older files as it takes.

    `FileNotFoundError` where nothing was captured yet.
    """
    for _ in range(READS):
        newest = _inode(numbered(path, 1))
        end = _read_end(path, most)
        if size_of(path) >= end.size and _inode(numbered(path, 1)) == newest:
            break
    return end


def _read_end(path: Path, most: int) -> FileEnd:
    data, size, cut = _end_of(path, most)
    number = 1
    while len(data) < most:
        try:
            older, _, cut = _end_of(numbered(path, number), most - len(data))
        except FileNotFoundError:
            break
        data, number = older + data, number + 1
    return FileEnd(data, size, cut)


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


class DeliveryAttempt(NamedTuple):
    """An append to the drive that may have happened."""

    bytes: int
    lost: int
    """The number of lost bytes before it, which the drive's file names."""
    drive_size: int
    """The size of the drive's file before it."""
    drive_file: int
    """The number of that file (inode): another one means that it was begun anew."""


class OutputCut(NamedTuple):
    """The beginning of the file is being cut off."""

    dropped: int
    """So many bytes were not kept; what follows them was copied."""
    copied: bool
    head: str
    """The digest of the first bytes before the cut, by which a crash shows whether it happened."""
    head_bytes: int


class OutputProgress(NamedTuple):
    """Positions count from the first byte that was ever captured."""

    base: int = 0
    """The offset of the file's begin."""
    sent: int = 0
    """The offset up to which the drive has it."""
    attempt: DeliveryAttempt | None = None
    cut: OutputCut | None = None


def read_progress(path: Path) -> OutputProgress:
    """The recorded progress; empty where the record is missing or damaged, and then all is delivered once more."""
    try:
        document = read_json(path) or {}
        attempt, cut = document.get("attempt"), document.get("cut")
        return OutputProgress(
            base=_count(document.get("base", 0)),
            sent=_count(document.get("sent", 0)),
            attempt=DeliveryAttempt(*(_count(attempt[name]) for name in DeliveryAttempt._fields)) if attempt else None,
            cut=_cut(cut) if cut else None,
        )
    except (UnreadableFileError, KeyError, TypeError, ValueError):
        return OutputProgress()


def write_progress(path: Path, progress: OutputProgress) -> None:
    """Put it on the disk, whole."""
    document: dict[str, Any] = {"base": progress.base, "sent": progress.sent}
    document["attempt"] = progress.attempt._asdict() if progress.attempt else None
    document["cut"] = progress.cut._asdict() if progress.cut else None
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(temporary, flags, PRIVATE_FILE), "w") as file:
        json.dump(document, file)
    temporary.replace(path)


def _cut(found: dict[str, Any]) -> OutputCut:
    return OutputCut(_count(found["dropped"]), found["copied"] is True, str(found["head"]), _count(found["head_bytes"]))


def _count(found: object) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ValueError(f"{found!r} is no count")
    return found


_FALLOC_FL_COLLAPSE_RANGE = 0x08  # from <linux/falloc.h>


def block_size(descriptor: int) -> int:
    """The unit in which the begin of a file can be cut off."""
    return os.fstatvfs(descriptor).f_bsize if hasattr(os, "fstatvfs") else 1


def cut_beginning(descriptor: int, length: int) -> bool:
    """Remove so many bytes at the beginning; False where this file system can't, and nothing was done.

    The length is a multiple of the block size, and something must be left behind it.
    """
    collapse = _collapse()
    return collapse is not None and collapse(descriptor, length) == 0


@cache
def _collapse() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if call is None:  # musl has one for all lengths
        call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if call is None:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    call.restype = ctypes.c_int
    return lambda descriptor, length: int(call(descriptor, _FALLOC_FL_COLLAPSE_RANGE, 0, length))


class OutputSource(NamedTuple):
    """A file that a worker's output is in, and how to read the end of it."""

    path: Path
    on_drive: bool
    """Then it's read through the drive, which may hang."""
    read: Callable[[int], FileEnd]
    """`FileNotFoundError` where nothing was written yet."""


def written_to(config: SupervisorConfig, worker: WorkerSettings) -> Path:
    """The file that this worker writes itself, else the one that its output is captured in.

    A worker that was started by an earlier version writes to the drive until its next start.
    """
    if worker.log_file:
        return worker.log_file
    earlier = drive_log(config, worker.id)
    return earlier if _on_record(config, worker) == str(earlier) else output_path(config.state_dir, worker.id)


def source_of(config: SupervisorConfig, worker: WorkerSettings) -> OutputSource:
    path = written_to(config, worker)
    if path == output_path(config.state_dir, worker.id):
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


def read_source(drive: Drive, source: OutputSource, most: int = READ_BYTES, *, timeout: float | None = None) -> FileEnd:
    """The last bytes of it, at most so many."""
    if not source.on_drive:
        return source.read(most)
    return drive.call(_read_there, drive, source, most, timeout=timeout)


def _read_there(drive: Drive, source: OutputSource, most: int) -> FileEnd:
    drive.confirm()
    return source.read(most)


def _on_record(config: SupervisorConfig, worker: WorkerSettings) -> str:
    try:
        record = read_record(config.state_dir, worker.id)
    except (UnreadableFileError, OSError):
        return ""
    return record.log_path if record else ""
