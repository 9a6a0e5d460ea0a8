"""Writes the heartbeats of supervisors and workers: one file on the drive and one row of `workers_t` each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from supervisor_core.common.text import one_line
from supervisor_core.common.times import to_text
from supervisor_core.host import drive_files
from supervisor_core.host.files import json_text
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.heartbeats.files import (
    LONGEST_SUMMARY,
    SupervisorHeartbeat,
    row_name,
    supervisor_heartbeat_path,
)
from supervisor_core.workers.status import WorkerStatus
from supervisor_core.workers.worker import host_name

WRITING_SECONDS = 5.0
"""Shorter than the patience with a call to the drive."""

HOSTNAME, STATUS = 255, 64
"""The characters of the columns; a worker may write anything."""

_UPSERT = """
INSERT INTO workers_t (worker_id, last_heartbeat_at, pid, hostname, status, poll_seconds, status_summary)
VALUES (:worker_id, :last_heartbeat_at, :pid, :hostname, :status, :poll_seconds, :status_summary)
ON CONFLICT (worker_id) DO UPDATE SET
  last_heartbeat_at = excluded.last_heartbeat_at, pid = excluded.pid, hostname = excluded.hostname,
  status = excluded.status, poll_seconds = excluded.poll_seconds, status_summary = excluded.status_summary
"""


_ORDER_SENDING = f"""
INSERT INTO outbox_t (kind, subject, state, version, payload_json, attempts, created_at, due_at)
VALUES ('{SHARED_DATABASE}', :subject, 'pending', 1, '{{}}', 0, :now, :now)
ON CONFLICT (kind, subject) DO UPDATE SET
  state = 'pending', version = outbox_t.version + 1, attempts = 0, due_at = excluded.due_at
"""  # noqa: S608 (the kind is ours)


def put_row(
    connection: Connection,
    name: str,
    at: datetime | None,
    *,
    pid: int | None,
    hostname: str,
    status: str,
    summary: str,
    poll_seconds: float | None = None,
) -> None:
    """Insert or update one row of `workers_t`, in the caller's transaction on the ledger. Long texts are cut."""
    values = {
        "worker_id": name,
        "last_heartbeat_at": to_text(at) if at else None,
        "pid": pid,
        "hostname": one_line(hostname, HOSTNAME),
        "status": one_line(status, STATUS),
        "poll_seconds": poll_seconds,
        "status_summary": one_line(summary, LONGEST_SUMMARY),
    }
    connection.exec_driver_sql(_UPSERT, values)


def report_supervisor_heartbeat_to_database(
    connection: Connection, heartbeat: SupervisorHeartbeat, *, pid: int, hostname: str
) -> None:
    """Insert or update the row of a worker's supervisor, in the caller's transaction on the ledger."""
    name, status = row_name(heartbeat.worker_id), "ok" if heartbeat.success else "error"
    put_row(connection, name, heartbeat.at, pid=pid, hostname=hostname, status=status, summary=heartbeat.summary())


def write_heartbeat_files(host: HostContext, heartbeats: Sequence[SupervisorHeartbeat]) -> None:
    """Replace the supervisor's heartbeat files of these workers; `DriveUnavailable` if the drive doesn't respond.

    An `OSError` about one file is raised after the others are written. If a slow drive leaves no time for the last
    ones, they are written the next time.
    """
    folder, mode = host.config.folder("state"), host.config.nas.file_mode
    files = [
        (supervisor_heartbeat_path(folder, heartbeat.worker_id).name, json_text(heartbeat.as_json()).encode())
        for heartbeat in heartbeats
    ]
    host.drive.make_folder(folder)
    errors = host.drive.call(drive_files.write_all, host.drive.root, folder, files, mode, WRITING_SECONDS)
    if error := next(filter(None, errors), None):
        raise error


def write_heartbeat_rows(
    connection: Connection, heartbeat: SupervisorHeartbeat, status: WorkerStatus | None, *, shares: bool
) -> None:
    """Write the supervisor's row and the worker's row with its last heartbeat, in the caller's transaction. `shares`:
    they also go to the shared database, where only the newest of each worker matters."""
    report_supervisor_heartbeat_to_database(connection, heartbeat, pid=os.getpid(), hostname=host_name())
    names = [row_name(heartbeat.worker_id)]
    if status is not None and (beat := status.heartbeat) is not None:
        put_row(
            connection,
            heartbeat.worker_id,
            beat.at,
            pid=beat.pid,
            hostname=beat.hostname,
            status=beat.status,
            summary=f"{status.in_words()}: {status.verdict.reason}",
            poll_seconds=beat.poll_seconds,
        )
        names.append(heartbeat.worker_id)
    for name in names if shares else ():
        connection.exec_driver_sql(_ORDER_SENDING, {"subject": f"workers_t/{name}", "now": to_text(heartbeat.at)})
