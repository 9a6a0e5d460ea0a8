"""The captured output of one worker: a file in the state folder that stays small while the worker writes into it.

The worker appends to `<state_dir>/output/ID.log` as long as it lives. The beginning of a full file is copied to
`ID.log.1` and cut off. On ext4 and XFS nothing is lost. Elsewhere the file is emptied, and what the worker writes
between the last read and that moment is lost: some microseconds' worth.

Each byte has a position, counted from the first byte that was ever captured. `ID.json` holds the position at which the
file begins, and how far it has been delivered to the drive.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from supervisor_core.processes.output.files import (
    DeliveryAttempt,
    OutputCut,
    OutputProgress,
    block_size,
    cut_beginning,
    numbered,
    opened_output,
    read_at,
    read_progress,
    size_of,
    write_progress,
)

CUTS_AT_ONCE = 16
"""Per look. A worker that writes faster than this is looked at again at once, after the others."""

COPY_BYTES = 256 * 1024
HEAD_BYTES = 64 * 1024
"""Of a file's beginning, by which a crash shows whether a cut happened. Where the bytes behind the cut are the same (a
worker that prints the same line again and again), such a cut may happen twice."""

log = logging.getLogger(__name__)


class OutputPiece(NamedTuple):
    """Output that waits for the drive."""

    data: bytes
    lost: int
    """The number of lost bytes before it."""

    @property
    def payload(self) -> bytes:
        """The bytes as they are written to the drive: where something is missing, that is said first."""
        if not self.lost:
            return self.data
        return f"[supervisor] {self.lost} bytes of output were lost here.\n".encode() + self.data


class WorkerOutput:
    """One worker's output, for the one program that looks after it. Its methods may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._at = path.with_suffix(".json")
        self._progress = read_progress(self._at)
        self._kept = self._progress
        self._told = ""
        self._recover()

    @property
    def size(self) -> int:
        return size_of(self.path)

    def end_at(self, size: int) -> int:
        """The position at which it ends where the file has this size."""
        return self._progress.base + size

    @property
    def waiting(self) -> int:
        """The number of bytes that the drive lacks, without a look at the older files."""
        size = self.size
        lacking = self._progress.base + size - self._progress.sent
        return lacking if lacking >= 0 else size  # somebody emptied the file by hand: all of it is new

    def bound(self, max_bytes: int, backups: int) -> bool:
        """Bring the file below its limit; False where it grows faster than that, and another look is due at once.

        At least one older file is kept, because the drive may not have it yet.
        """
        with self._lock, contextlib.suppress(FileNotFoundError), opened_output(self.path, os.O_RDWR) as descriptor:
            block = block_size(descriptor)
            limit = -(-max_bytes // block) * block
            for _ in range(CUTS_AT_ONCE):
                if os.fstat(descriptor).st_size <= limit:
                    return True
                self._shorten(descriptor, limit, max(backups, 1))
            return False
        return True

    def next_piece(self, most: int) -> OutputPiece | None:
        """The oldest output that the drive lacks: whole lines where possible; None where it has everything."""
        with self._lock:
            return self._piece(most)

    def attempt(self, piece: OutputPiece, drive_size: int, drive_file: int) -> None:
        """Note that a piece is about to be appended to this file, which has this size."""
        with self._lock:
            attempt = DeliveryAttempt(len(piece.data), piece.lost, drive_size, drive_file)
            self._keep(self._progress._replace(attempt=attempt))

    def delivered(self, piece: OutputPiece) -> None:
        """The drive has this piece."""
        with self._lock:
            sent = self._progress.sent + piece.lost + len(piece.data)
            self._progress = self._progress._replace(sent=sent, attempt=None)

    def skip(self) -> None:
        """Count everything as delivered, where there is no drive."""
        with self._lock:
            self._progress = self._progress._replace(sent=self._progress.base + self.size, attempt=None)

    def settle(self, drive_size: int, drive_file: int, drive_end: bytes) -> None:
        """Find out what became of an attempt whose end nobody saw, from the drive's file as it is now.

        Where somebody else altered that file, the piece is delivered a second time.
        """
        with self._lock:
            attempt = self._progress.attempt
            if attempt is None:
                return
            gone, data = self._from(self._progress.sent + attempt.lost, attempt.bytes)
            piece = OutputPiece(b"" if gone else data, attempt.lost)
            grown = drive_size - (attempt.drive_size if attempt.drive_file == drive_file else 0)
            written = _written(piece.payload, grown, drive_end)
            marker = len(piece.payload) - len(piece.data)
            told = attempt.lost if written >= marker else 0
            sent = self._progress.sent + told + max(written - marker, 0)
            self._keep(self._progress._replace(sent=sent, attempt=None))

    @property
    def attempted(self) -> int:
        """The size of an attempt whose end nobody saw; 0 where there is none."""
        attempt = self._progress.attempt
        return len(OutputPiece(b"", attempt.lost).payload) + attempt.bytes if attempt else 0

    def keep_progress(self) -> None:
        """Put on the disk how far the drive has it."""
        with self._lock:
            if self._progress != self._kept:
                self._keep(self._progress)

    def forget(self) -> None:
        """Remove everything of a worker that isn't there any more."""
        with self._lock:
            self._remove_older(0)
            for path in (self.path, self._at):
                path.unlink(missing_ok=True)

    # --- below: with the lock held

    def _shorten(self, descriptor: int, limit: int, backups: int) -> None:
        """Make the beginning of the file the newest of the older files."""
        block, size = block_size(descriptor), os.fstat(descriptor).st_size
        dropped = max((size - (backups + 1) * limit) // block * block, 0)
        if dropped:  # more than is kept at all
            self._remove_older(0)
        copied = self._copy(descriptor, dropped, limit)
        if not copied:
            dropped += limit
        head = read_at(descriptor, 0, min(dropped + limit, HEAD_BYTES))
        cut = OutputCut(dropped, copied, sha256(head).hexdigest(), len(head))
        self._keep(self._progress._replace(cut=cut))
        if copied:
            self._shift(backups)
            self._copied.replace(numbered(self.path, 1))
        self._finish(descriptor, cut)

    def _finish(self, descriptor: int, cut: OutputCut) -> None:
        """Cut off what lies in the newest of the older files by now."""
        newest = numbered(self.path, 1)
        done = cut.dropped + (size_of(newest) if cut.copied else 0)
        if not cut_beginning(descriptor, done):
            if cut.copied:
                with opened_output(newest, os.O_WRONLY | os.O_APPEND) as target:
                    done += _transfer(descriptor, done, None, target)
            else:
                done = os.fstat(descriptor).st_size
            os.ftruncate(descriptor, 0)
        self._keep(self._progress._replace(base=self._progress.base + done, cut=None))

    def _recover(self) -> None:
        """Finish a cut that a crash interrupted."""
        cut, half_made = self._progress.cut, self._copied.exists()
        self._copied.unlink(missing_ok=True)
        if cut is None:
            return
        if half_made:  # then nothing was cut off
            self._keep(self._progress._replace(cut=None))
            return
        with contextlib.suppress(FileNotFoundError), opened_output(self.path, os.O_RDWR) as descriptor:
            if sha256(read_at(descriptor, 0, cut.head_bytes)).hexdigest() == cut.head:
                self._finish(descriptor, cut)
                return
        copied = size_of(numbered(self.path, 1)) if cut.copied else 0
        self._keep(self._progress._replace(base=self._progress.base + cut.dropped + copied, cut=None))

    def _copy(self, descriptor: int, start: int, length: int) -> bool:
        """Copy so much of the file; False where the disk is full, even without the older files."""
        for _ in range(2):
            try:
                self._copied.unlink(missing_ok=True)
                with opened_output(self._copied, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as target:
                    _transfer(descriptor, start, start + length, target)
            except OSError as error:
                self._copied.unlink(missing_ok=True)
                self._remove_older(0)
                self._tell(f"older output of {self.path.stem} is dropped: {error}")
            else:
                return True
        return False

    @property
    def _copied(self) -> Path:
        return self.path.with_name(f".{self.path.name}.copy")

    def _shift(self, backups: int) -> None:
        """Make room for a newest one, and let go of those beyond the limit."""
        self._remove_older(backups)
        free = next((number for number in range(1, backups) if not numbered(self.path, number).exists()), backups)
        for number in range(free - 1, 0, -1):
            numbered(self.path, number).replace(numbered(self.path, number + 1))

    def _remove_older(self, kept: int) -> None:
        for number, path in self._older():
            if number > kept:
                path.unlink(missing_ok=True)

    def _older(self) -> list[tuple[int, Path]]:
        """The older files with their numbers, the newest first."""
        head = f"{self.path.name}."
        numbers = (name[len(head) :] for name in os.listdir(self.path.parent) if name.startswith(head))
        return [
            (number, numbered(self.path, number)) for number in sorted(int(each) for each in numbers if each.isdigit())
        ]

    def _piece(self, most: int) -> OutputPiece | None:
        if self._progress.base + self.size < self._progress.sent:  # somebody emptied the file by hand
            self._progress = self._progress._replace(base=self._progress.sent)
        lost, data = self._from(self._progress.sent, most)
        end = data.rfind(b"\n") + 1
        return OutputPiece(data[:end] if end else data, lost) if data else None

    def _from(self, position: int, most: int) -> tuple[int, bytes]:
        """The number of lost bytes from there on, and the bytes after them, at most so many."""
        older = [path for _, path in reversed(self._older())]
        sizes = [(path, size_of(path)) for path in (*older, self.path)]
        begins = self._progress.base - sum(size for _, size in sizes[:-1])
        skip, data = max(position - begins, 0), b""
        for path, size in sizes:
            if skip < size and len(data) < most:
                with opened_output(path, os.O_RDONLY) as descriptor:
                    data += read_at(descriptor, skip, min(size - skip, most - len(data)))
            skip = max(skip - size, 0)
        return max(begins - position, 0), data

    def _keep(self, progress: OutputProgress) -> None:
        """Record this. Where the disk takes nothing, it is known to this program all the same."""
        self._progress = progress
        try:
            write_progress(self._at, self._progress)
        except OSError as error:
            self._tell(f"how far the output of {self.path.stem} was delivered can't be recorded: {error}")
        else:
            self._kept = self._progress

    def _tell(self, problem: str) -> None:
        """Log a problem once."""
        if problem != self._told:
            self._told = problem
            log.warning("%s", problem)


def _written(payload: bytes, grown: int, end: bytes) -> int:
    """The length of a payload at the end of a file that has grown by so much since."""
    if 0 <= grown <= len(payload) and end[len(end) - grown :] == payload[:grown]:
        return grown
    return len(payload) if payload and end.endswith(payload) else 0


def _transfer(source: int, start: int, end: int | None, target: int) -> int:
    """Append this stretch of one file to another; without an end, until there is no more. How many bytes that were."""
    os.lseek(source, start, os.SEEK_SET)
    done = 0
    while chunk := os.read(source, COPY_BYTES if end is None else min(COPY_BYTES, end - start - done)):
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(target, rest) :]
        done += len(chunk)
    return done
