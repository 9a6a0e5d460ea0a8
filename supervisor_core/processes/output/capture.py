"""The captured output of one worker: a file in the state folder that stays small while the worker writes into it.

The worker appends to `<state_dir>/output/ID.log` as long as it lives. A full file is copied to `ID.log.1`, then it's
emptied. What the worker writes between the copy's last read and that moment is lost: some microseconds' worth.

`ID.json` tells how much of it the drive has. It isn't synced, since the output isn't either.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from pathlib import Path

from supervisor_core.host.descriptors import UnreadableFileError, write_all
from supervisor_core.host.files import read_json
from supervisor_core.processes.output.files import numbered, older_files, opened_output, read_at, size_of

COPY_BYTES = 256 * 1024

log = logging.getLogger(__name__)


class WorkerOutput:
    """One worker's output, for the one program that looks after it. Its methods may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._note = path.with_suffix(".json")
        self._lock = threading.Lock()
        self._delivered = 0
        """The bytes of the file that the drive has; negative if it lacks the end of the older files, too."""
        with contextlib.suppress(UnreadableFileError, OSError):
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

        Of a file that grew far beyond its limit, only as much is kept as the older files may hold.
        """
        backups = max(backups, 1)
        with self._lock, contextlib.suppress(FileNotFoundError), opened_output(self.path, os.O_RDWR) as descriptor:
            size = os.fstat(descriptor).st_size
            if size <= max_bytes:
                return
            end = max(size - backups * max_bytes, 0)
            try:
                while end < size:
                    is_last = size - end < 2 * max_bytes  # it takes the rest, and what arrives meanwhile
                    end += self._add_older_file(descriptor, end, None if is_last else max_bytes, backups)
            except OSError as error:
                log.warning("older output of %s is dropped: %s", self.path.stem, error)
                self._remove_older(0)
                end = os.fstat(descriptor).st_size
            os.ftruncate(descriptor, 0)
            self._delivered -= end
            self._write_note()

    def read_undelivered(self, most: int) -> tuple[int, bytes]:
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
                return max(-position, 0), read_at(descriptor, max(position, 0), most)

    def mark_delivered(self, count: int) -> None:
        """The drive has so many more bytes, or is told that they were dropped."""
        with self._lock:
            self._delivered += count
            self._write_note()

    def forget(self) -> None:
        """Remove everything of a worker that isn't there any more."""
        with self._lock:
            self._remove_older(0)
            for path in (self.path, self._note):
                path.unlink(missing_ok=True)

    def _add_older_file(self, descriptor: int, start: int, length: int | None, backups: int) -> int:
        """Copy a part of the file, without a length up to its end, and make it the newest older file."""
        copy, count = self.path.with_name(f".{self.path.name}.copy"), 0
        copy.unlink(missing_ok=True)
        try:
            with opened_output(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as target:
                os.lseek(descriptor, start, os.SEEK_SET)
                while chunk := os.read(descriptor, COPY_BYTES if length is None else min(COPY_BYTES, length - count)):
                    write_all(target, chunk)
                    count += len(chunk)
        except OSError:
            copy.unlink(missing_ok=True)
            raise
        self._remove_older(backups - 1)
        for number in range(len(older_files(self.path)), 0, -1):
            with contextlib.suppress(FileNotFoundError):
                numbered(self.path, number).replace(numbered(self.path, number + 1))
        copy.replace(numbered(self.path, 1))
        return count

    def _remove_older(self, kept: int) -> None:
        for path in older_files(self.path)[kept:]:
            path.unlink(missing_ok=True)

    def _write_note(self) -> None:
        """A full disk isn't this worker's problem: then a restart delivers some output again."""
        temporary = self._note.with_name(f".{self._note.name}.tmp")
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
            with opened_output(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                write_all(descriptor, json.dumps({"delivered": self._delivered}).encode())
            temporary.replace(self._note)
