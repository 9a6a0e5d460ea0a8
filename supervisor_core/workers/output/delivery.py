"""Appends captured output to the workers' logs on the drive, best effort: a line there says what was dropped."""

from __future__ import annotations

import time
from functools import partial

from supervisor_core.host import drive_files
from supervisor_core.processes.output.capture import WorkerOutput
from supervisor_core.processes.output.files import drive_log, output_path
from supervisor_core.workers.context import HostContext

PIECE_BYTES = 256 * 1024

PIECES_IN_A_ROW = 16
"""The pieces of one worker before the next worker's turn."""

PASS_SECONDS = 5.0
"""The time for deliveries in a pass; the next pass continues."""


def deliver(host: HostContext, worker_id: str, output: WorkerOutput) -> bool:
    """Append the waiting output to the drive, if there is one. Returns whether more waits than one turn allows.

    A crash between an append and its record repeats one piece.
    """
    config, drive = host.config, host.drive
    if not output.waiting:
        return False
    if config.nas.root is None:
        output.mark_delivered(output.waiting)
        return False
    path, mode, limits = drive_log(config, worker_id), config.nas.file_mode, config.logging
    drive.make_folder(path.parent)
    append = partial(drive_files.append, mode=mode, max_bytes=limits.max_bytes, backups=limits.backups)
    for _ in range(PIECES_IN_A_ROW):
        dropped, data = output.read_undelivered(min(PIECE_BYTES, limits.max_bytes))
        data = data[: data.rfind(b"\n") + 1] or data
        if not data:
            return False
        notice = f"[supervisor] {dropped} bytes of output were dropped here.\n".encode() if dropped else b""
        drive.call(append, drive.root, path, notice + data)
        output.mark_delivered(dropped + len(data))
    return True


def maintain_output(host: HostContext, worker_id: str) -> None:
    """Rotate one worker's output and deliver what waits, once. For a pass, which has the worker to itself."""
    path, limits = output_path(host.config.state_dir, worker_id), host.config.logging
    if not path.exists():
        return
    output = WorkerOutput(path)
    output.rotate(limits.max_bytes, limits.backups)
    deadline = time.monotonic() + PASS_SECONDS
    while deliver(host, worker_id, output) and time.monotonic() < deadline:
        pass
