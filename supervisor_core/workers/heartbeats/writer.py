"""Heartbeats of a supervisor and its worker: written to the drive and the ledger, by a pass and by the daemon."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import partial

from supervisor_core.workers.context import HostContext
from supervisor_core.workers.heartbeats.files import SupervisorHeartbeat, write_supervisor_heartbeat_file
from supervisor_core.workers.heartbeats.rows import Execute, put, report_supervisor_heartbeat_to_database, row_of_worker
from supervisor_core.workers.status import WorkerStatus
from supervisor_core.workers.worker import host_name

log = logging.getLogger(__name__)


def write_heartbeat_files(host: HostContext, beats: Sequence[SupervisorHeartbeat]) -> None:
    """Replace the supervisor's heartbeat files of these workers; `DriveUnavailable` where it does not answer.

    An `OSError` about one file is raised once all the others are written.
    """
    folder = host.config.folder("state")
    write = partial(write_supervisor_heartbeat_file, mode=host.config.nas.file_mode, root=host.drive.root)
    host.drive.make_folder(folder)
    trouble: OSError | None = None
    for said in beats:
        try:
            host.drive.call(write, folder, said.worker_id, said.as_json())
        except OSError as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble


def write_heartbeat_rows(execute: Execute, said: SupervisorHeartbeat, seen: WorkerStatus | None) -> None:
    """The supervisor's row, and its worker's own with what that last said, in the caller's transaction."""
    report_supervisor_heartbeat_to_database(execute, said, pid=os.getpid(), hostname=host_name())
    beat = seen.observation.heartbeat if seen else None
    if seen is not None and beat is not None:
        put(execute, row_of_worker(said.worker_id, beat, f"{seen.in_words()}: {seen.verdict.reason}"))


def problem_text(seen: WorkerStatus) -> str:
    """The problem of a worker; empty for a healthy one."""
    return "" if seen.verdict.fine else f"{seen.worker.id} is {seen.verdict.health}: {seen.verdict.reason}"
