"""Delivers the captured output of one worker to the drive, in pieces. Call it through `Drive`: it may hang."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from supervisor_core.host import drive_files
from supervisor_core.processes.output.capture import WorkerOutput
from supervisor_core.processes.output.files import drive_log, output_path
from supervisor_core.workers.context import HostContext

PIECE_BYTES = 256 * 1024


class DriveLog(NamedTuple):
    """A log file on the drive, and its limits."""

    root: Path
    path: Path
    mode: int
    max_bytes: int
    backups: int


def deliver_piece(output: WorkerOutput, target: DriveLog) -> bool:
    """Append the oldest piece that the drive lacks; False if it has everything.

    Each piece is recorded before it's appended, so that a crash repeats nothing and loses nothing.
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
    """The size and the inode number of the file; zeros without one."""
    try:
        facts = drive_files.stat(target.root, target.path)
    except FileNotFoundError:
        return 0, 0
    return facts.st_size, facts.st_ino


PASS_SECONDS = 5.0
"""The time for deliveries in a pass; the next pass continues."""

PIECES_IN_A_ROW = 16
"""The pieces of one worker before the next worker's turn."""


def deliver(host: HostContext, worker_id: str, output: WorkerOutput) -> bool:
    """Deliver the waiting output to the drive, if there is one. Returns whether more waits than one turn allows."""
    if not output.waiting:
        return False
    config = host.config
    if config.nas.root is None:
        output.skip()
        output.keep_progress()
        return False
    path, limits = drive_log(config, worker_id), config.logging
    target = DriveLog(config.drive_root, path, config.nas.file_mode, limits.max_bytes, limits.backups)
    host.drive.make_folder(path.parent)
    for _ in range(PIECES_IN_A_ROW):
        if not host.drive.call(deliver_piece, output, target):
            output.keep_progress()
            return False
    return True


def maintain_output(host: HostContext, worker_id: str) -> None:
    """Bound one worker's output and deliver what waits, once. For a pass, which has the worker to itself."""
    path, limits = output_path(host.config.state_dir, worker_id), host.config.logging
    if not path.exists():
        return
    output = WorkerOutput(path)
    output.bound(limits.max_bytes, limits.backups)
    deadline = time.monotonic() + PASS_SECONDS
    while deliver(host, worker_id, output) and time.monotonic() < deadline:
        pass
