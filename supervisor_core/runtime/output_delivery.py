"""Captured output of one worker on its way to the drive, as the daemon and passes deliver it."""

from __future__ import annotations

import time

from supervisor_core.adapters.output_delivery import DriveLog, deliver_piece
from supervisor_core.adapters.output_files import drive_log, output_path
from supervisor_core.adapters.worker_output import WorkerOutput
from supervisor_core.handlers import Host

PASS_SECONDS = 5.0
"""For what waits for the drive, in a pass; the next one goes on."""

PIECES_IN_A_ROW = 16
"""Of one worker, before the others have their turn."""


def deliver(host: Host, worker_id: str, output: WorkerOutput) -> bool:
    """Bring what waits to the drive; whether more waits than one worker may deliver in a row."""
    if not output.waiting:
        return False
    config = host.config
    path, limits = drive_log(config, worker_id), config.logging
    target = DriveLog(config.nas.root, path, config.nas.file_mode, limits.max_bytes, limits.backups)
    host.drive.make_folder(path.parent)
    for _ in range(PIECES_IN_A_ROW):
        if not host.drive.call(deliver_piece, output, target):
            output.keep_progress()
            return False
    return True


def tend_output(host: Host, worker_id: str) -> None:
    """Keep one worker's output small and deliver what waits, once. For a pass, which has the worker to itself."""
    path, limits = output_path(host.config.state_dir, worker_id), host.config.logging
    if not path.exists():
        return
    output = WorkerOutput(path)
    output.bound(limits.max_bytes, limits.backups)
    deadline = time.monotonic() + PASS_SECONDS
    while deliver(host, worker_id, output) and time.monotonic() < deadline:
        pass
