"""Captured output on its way to the drive, piece by piece. Call this through `Drive`: it may hang."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from supervisor_core.adapters import drive_files
from supervisor_core.adapters.worker_output import WorkerOutput

PIECE_BYTES = 256 * 1024


class DriveLog(NamedTuple):
    """A file on the drive that output is brought to, and its limits."""

    root: Path
    path: Path
    mode: int
    max_bytes: int
    backups: int


def deliver_piece(output: WorkerOutput, target: DriveLog) -> bool:
    """Append the oldest piece that the drive lacks; False where it has everything.

    What is about to be appended is on record before, so that a crash repeats nothing and loses nothing.
    """
    size, number = _facts(target)
    if output.attempted:
        end = drive_files.read_end(target.root, target.path, output.attempted).data if size else b""
        output.settle(size, number, end)
    room = target.max_bytes - size
    piece = output.next_piece(min(PIECE_BYTES, room if room > 0 else target.max_bytes))
    if piece is None:
        return False
    output.attempt(piece, size, number)
    drive_files.append(target.root, target.path, piece.payload, target.mode, target.max_bytes, target.backups)
    output.delivered(piece)
    return True


def _facts(target: DriveLog) -> tuple[int, int]:
    """The size and the number of the file; zeros where there is none."""
    try:
        facts = drive_files.stat(target.root, target.path)
    except FileNotFoundError:
        return 0, 0
    return facts.st_size, facts.st_ino
