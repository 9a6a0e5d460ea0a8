"""The captured output of one worker: rotated in the state folder while the worker writes, and appended to the drive.

The worker appends to `<state_dir>/output/ID.log` as long as it lives. A full file is copied to `ID.log.1`, then it's
emptied. What the worker writes between the copy's last read and that moment is lost: some microseconds' worth.

`ID.json` holds how much of it the drive has. It isn't synced, since the output isn't either.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import UnreadableFileError, write_all
from supervisor_core.host.drive import Drive
from supervisor_core.host.files import read_json
from supervisor_core.processes.output.files import (
    drive_log,
    numbered,
    older_files,
    opened_output,
    read_at,
    size_of,
)

PIECE_BYTES = 256 * 1024

PIECES_IN_A_ROW = 16
"""The pieces of one worker before the next worker's turn."""

FULL_DISK = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}

log = logging.getLogger(__name__)


class WorkerOutput:
    """One worker's output, for the one program that looks after it. Its methods may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._note = path.with_suffix(".json")
        self._lock = threading.Lock()
        self._delivered = 0
        """The bytes of the file that the drive has; negative if it lacks the end of the older files, too."""
        with suppress(UnreadableFileError, OSError):
            delivered = (read_json(self._note) or {}).get("delivered")
            self._delivered = delivered if isinstance(delivered, int) else 0

    @property
    def size(self) -> int:
        return size_of(self.path)

    @property
    def waiting(self) -> int:
        """The number of bytes that the drive lacks."""
        size = self.size
        return size - self._delivered if self._delivered <= size else size  # else somebody emptied the file by hand

    def rotate(self, max_bytes: int, backups: int) -> None:
        """Move the content of a full file to the older ones. At least one is kept, since the drive may not have it yet.

        Of a file that grew far beyond its limit, only as much is kept as the older files may hold. A full disk costs
        the content and the older files; after any other error all files are as they were.
        """
        backups = max(backups, 1)
        with self._lock, suppress(FileNotFoundError), opened_output(self.path, os.O_RDWR) as descriptor:
            size = os.fstat(descriptor).st_size
            if size <= max_bytes:
                return
            end = max(size - backups * max_bytes, 0)
            os.lseek(descriptor, end, os.SEEK_SET)
            copies: list[Path] = []
            older = older_files(self.path)
            try:
                while end < size:
                    is_last = size - end < 2 * max_bytes  # it takes the rest, and what arrives meanwhile
                    copies.append(self.path.with_name(f".{self.path.name}.copy{len(copies) or ''}"))
                    end += _copy(descriptor, copies[-1], None if is_last else max_bytes)
            except OSError as error:
                for copy in copies:
                    copy.unlink(missing_ok=True)
                if error.errno not in FULL_DISK:
                    raise
                log.warning("older output of %s is dropped: %s", self.path.stem, error)
                for path in older:
                    path.unlink(missing_ok=True)
                end = os.fstat(descriptor).st_size
            else:
                for path in older[max(backups - len(copies), 0) :]:
                    path.unlink(missing_ok=True)
                for path in reversed(older[: max(backups - len(copies), 0)]):  # numbers may be missing
                    path.replace(numbered(self.path, int(path.suffix[1:]) + len(copies)))
                for number, copy in enumerate(reversed(copies), 1):
                    copy.replace(numbered(self.path, number))
            os.ftruncate(descriptor, 0)
            self._delivered -= end
            self._write_note()

    def deliver(self, config: SupervisorConfig, drive: Drive) -> bool:
        """Append the waiting output to the drive, if there is one. Returns whether more waits than one turn allows.

        A line there says what was dropped before. A crash between an append and its note repeats one piece.
        """
        if not self.waiting:
            return False
        if config.nas.root is None:
            self._mark_delivered(self.waiting)
            return False
        path, mode, limits = drive_log(config, self.path.stem), config.nas.file_mode, config.logging
        drive.make_folder(path.parent)
        append = partial(drive_files.append, mode=mode, max_bytes=limits.max_bytes, backups=limits.backups)
        for _ in range(PIECES_IN_A_ROW):
            dropped, data = self._read_undelivered(min(PIECE_BYTES, limits.max_bytes))
            data = data[: data.rfind(b"\n") + 1] or data
            if not data:
                return False
            notice = f"[supervisor] {dropped} bytes of output were dropped here.\n".encode() if dropped else b""
            drive.call(append, drive.root, path, notice + data)
            self._mark_delivered(dropped + len(data))
        return True

    def forget(self) -> None:
        """Remove everything of a worker that isn't there any more."""
        with self._lock:
            for path in (*older_files(self.path), self.path, self._note):
                path.unlink(missing_ok=True)

    def _read_undelivered(self, max_bytes: int) -> tuple[int, bytes]:
        """The number of bytes that were dropped before the drive had them, and the oldest bytes that it lacks."""
        with self._lock:
            if self._delivered > self.size:  # somebody emptied the file by hand
                self._delivered = 0
            path, position = self.path, self._delivered
            for older in older_files(self.path):
                if position >= 0:
                    break
                path, position = older, position + size_of(older)
            with opened_output(path, os.O_RDONLY) as descriptor:
                return max(-position, 0), read_at(descriptor, max(position, 0), max_bytes)

    def _mark_delivered(self, count: int) -> None:
        with self._lock:
            self._delivered += count
            self._write_note()

    def _write_note(self) -> None:
        """A full disk isn't this worker's problem: then a restart delivers some output again."""
        temporary = self._note.with_name(f".{self._note.name}.tmp")
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
            with opened_output(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                write_all(descriptor, json.dumps({"delivered": self._delivered}).encode())
            temporary.replace(self._note)


def _copy(source: int, path: Path, length: int | None) -> int:
    """Copy so many bytes, without a length all up to the end, into a new file."""
    path.unlink(missing_ok=True)
    count = 0
    with opened_output(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as target:
        while chunk := os.read(source, PIECE_BYTES if length is None else min(PIECE_BYTES, length - count)):
            write_all(target, chunk)
            count += len(chunk)
    return count
