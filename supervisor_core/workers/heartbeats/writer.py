"""Writes the heartbeats of supervisors and workers: one file on the drive and one row of `workers_t` each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from supervisor_core.common.text import one_line
from supervisor_core.common.times import to_text
from supervisor_core.host import drive_files
from supervisor_core.host.files import json_text
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.health import Heartbeat
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


class HeartbeatRow(NamedTuple):
    """One row of `workers_t`."""

    worker_id: str
    last_heartbeat_at: datetime | None
    pid: int | None
    hostname: str
    status: str
    poll_seconds: float | None
    status_summary: str


def row_of_worker(worker_id: str, beat: Heartbeat, summary: str) -> HeartbeatRow:
    """The worker's own row, from its heartbeat file. The summary is our verdict."""
    return HeartbeatRow(worker_id, beat.at, beat.pid, beat.hostname, beat.status, beat.poll_seconds, summary)


def put(connection: Connection, row: HeartbeatRow) -> None:
    """Insert this row or update it, in the caller's transaction on the ledger."""
    connection.exec_driver_sql(_UPSERT, _values(row))


def report_supervisor_heartbeat_to_database(
    connection: Connection, heartbeat: SupervisorHeartbeat, *, pid: int, hostname: str
) -> None:
    """Insert or update the row of a worker's supervisor, in the caller's transaction on the ledger."""
    status = "ok" if heartbeat.success else "error"
    name = row_name(heartbeat.worker_id)
    put(connection, HeartbeatRow(name, heartbeat.at, pid, hostname, status, None, heartbeat.summary()))


def _values(row: HeartbeatRow) -> dict[str, Any]:
    values: Mapping[str, Any] = row._asdict()
    return {
        **values,
        "last_heartbeat_at": to_text(row.last_heartbeat_at) if row.last_heartbeat_at else None,
        "hostname": one_line(row.hostname, HOSTNAME),
        "status": one_line(row.status, STATUS),
        "status_summary": one_line(row.status_summary, LONGEST_SUMMARY),
    }


def write_heartbeat_files(host: HostContext, beats: Sequence[SupervisorHeartbeat]) -> None:
    """Replace the supervisor's heartbeat files of these workers; `DriveUnavailable` if the drive doesn't respond.

    An `OSError` about one file is raised after the others are written. If a slow drive leaves no time for the last
    ones, they are written the next time.
    """
    folder, mode = host.config.folder("state"), host.config.nas.file_mode
    files = [(supervisor_heartbeat_path(folder, each.worker_id).name, _content(each)) for each in beats]
    host.drive.make_folder(folder)
    errors = host.drive.call(drive_files.write_all, host.drive.root, folder, files, mode, WRITING_SECONDS)
    if trouble := next((error for error in errors if error is not None), None):
        raise trouble


def _content(said: SupervisorHeartbeat) -> bytes:
    return json_text(said.as_json()).encode()


def write_heartbeat_rows(
    connection: Connection, said: SupervisorHeartbeat, seen: WorkerStatus | None, *, shares: bool
) -> None:
    """Write the supervisor's row and the worker's row with its last heartbeat, in the caller's transaction. `shares`:
    they also go to the shared database, where only the newest of each worker matters."""
    report_supervisor_heartbeat_to_database(connection, said, pid=os.getpid(), hostname=host_name())
    names = [row_name(said.worker_id)]
    beat = seen.observation.heartbeat if seen else None
    if seen is not None and beat is not None:
        put(connection, row_of_worker(said.worker_id, beat, f"{seen.in_words()}: {seen.verdict.reason}"))
        names.append(said.worker_id)
    for name in names if shares else ():
        connection.exec_driver_sql(_ORDER_SENDING, {"subject": f"workers_t/{name}", "now": to_text(said.at)})
