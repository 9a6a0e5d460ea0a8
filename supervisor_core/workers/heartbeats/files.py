"""The heartbeats of workers and supervisors: files on the drive, and rows of `workers_t` in the ledger.

Calls on the files of the drive may hang with it; call them through `Drive`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from supervisor_core.common.text import one_line
from supervisor_core.common.times import to_text
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.files import MAX_JSON_BYTES, json_text, parse_json, read_json
from supervisor_core.host.open_folder import OpenFolder
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.workers.health import Heartbeat, read_heartbeat

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from supervisor_core.config.load import SupervisorConfig
    from supervisor_core.config.worker_settings import WorkerSettings
    from supervisor_core.workers.context import HostContext
    from supervisor_core.workers.status import WorkerStatus


FILE_MODE = 0o640

PREFIX = "watcher_heartbeat_"
"""The beginning of the name of a worker's heartbeat file."""

LONGEST_SUMMARY = 255
"""The characters of `status_summary`. MariaDB in strict mode refuses more."""

WRITING_SECONDS = 5.0
"""Shorter than the patience with a call to the drive."""

HOSTNAME, STATUS = 255, 64
"""The characters of the columns; a worker may write anything."""


def heartbeat_path(state_folder: Path, worker_id: str) -> Path:
    return state_folder / f"{PREFIX}{worker_id}.json"


def heartbeat_file(config: SupervisorConfig, worker: WorkerSettings) -> str | None:
    """The file that the worker must replace regularly; None if no heartbeat is expected from it."""
    return str(heartbeat_path(config.folder("state"), worker.id)) if worker.heartbeat_max_age_seconds else None


def worker_of(name: str) -> str | None:
    """The worker whose heartbeat has this file name; None for another file."""
    inner = name.removeprefix(PREFIX).removesuffix(".json")
    return inner if inner and name == f"{PREFIX}{inner}.json" else None


def known_workers(root: Path, state_folder: Path) -> set[str]:
    """The workers of any host with a heartbeat file on the drive, their own or their supervisor's."""
    try:
        names = [entry.name for entry in drive_files.list_folder(root, state_folder, ".json")]
    except FileNotFoundError:
        return set()
    prefixes = (PREFIX, "supervisor_heartbeat_")
    return {name.removeprefix(prefix)[:-5] for name in names for prefix in prefixes if name.startswith(prefix)}


def supervisor_heartbeat_path(state_folder: Path, worker_id: str) -> Path:
    return state_folder / f"supervisor_heartbeat_{worker_id}.json"


def read_heartbeat_file(path: Path) -> dict[str, Any] | None:
    """The content of a heartbeat file; None if it's missing or invalid."""
    return read_json(path, tolerant=True, root=path.parent)


def read_watcher_heartbeat(state_folder: Path, worker_id: str) -> dict[str, Any] | None:
    """The worker's newest heartbeat; None if it's missing or invalid."""
    return read_heartbeat_file(heartbeat_path(state_folder, worker_id))


def get_heartbeat_age_seconds(path: Path, now: datetime | None = None) -> float | None:
    """The age of the file; None if it's missing, negative if it's from the future."""
    try:
        with drive_files.open_folder(path.parent, path.parent) as folder:
            written = _written_at(folder, path.name)
    except FileNotFoundError:
        return None
    return None if written is None else ((now or datetime.now(UTC)) - written).total_seconds()


def last_beats(root: Path, state_folder: Path, worker_ids: Sequence[str]) -> dict[str, Heartbeat]:
    """The heartbeats of these workers, with the file's time if one has none itself; some may be missing."""
    beats: dict[str, Heartbeat] = {}
    with contextlib.suppress(FileNotFoundError), drive_files.open_folder(root, state_folder) as folder:
        for worker_id in worker_ids:
            with contextlib.suppress(FileNotFoundError, UnreadableFileError):
                name = f"{PREFIX}{worker_id}.json"
                document = parse_json(folder.path / name, folder.read(name, MAX_JSON_BYTES))
                beats[worker_id] = read_heartbeat(document, _written_at(folder, name))
    return beats


def write_supervisor_heartbeat_file(
    state_folder: Path,
    worker_id: str,
    heartbeat: Mapping[str, Any],
    *,
    mode: int = FILE_MODE,
    root: Path | None = None,
) -> Path:
    """Replace the supervisor's heartbeat; a reader sees the old one or the new one. Returns its path.

    Links below `root` aren't followed. Without a root, the path of the folder is trusted.
    """
    path = supervisor_heartbeat_path(state_folder, worker_id)
    drive_files.write(root or state_folder, path, json_text(heartbeat).encode(), mode)
    return path


def _written_at(folder: OpenFolder, name: str) -> datetime | None:
    try:
        return datetime.fromtimestamp(folder.look(name).st_mtime, UTC)
    except (
        FileNotFoundError,
        ValueError,
        OverflowError,
    ):  # no date has so large a number
        return None


class SupervisorHeartbeat(NamedTuple):
    """The result of a pass. `state` is the worker's state at its end, in a word or two."""

    supervisor_id: str
    worker_id: str
    at: datetime
    success: bool
    error: str | None
    actions: tuple[str, ...]
    state: str

    def as_json(self) -> dict[str, Any]:
        return {
            "supervisor_id": self.supervisor_id,
            "worker_id": self.worker_id,
            "timestamp": to_text(self.at),
            "success": self.success,
            "error": self.error,
            "actions": list(self.actions),
        }

    def summary(self) -> str:
        """The result in one line, cut to its column. The middle of an error is cut, and the state stays."""
        if self.success:
            actions = ", ".join(self.actions) or "none"
            return one_line(f"Supervisor OK - {self.state}. Actions: {actions}", LONGEST_SUMMARY)
        begin, end = "Supervisor ERROR - ", f". State: {one_line(self.state, LONGEST_SUMMARY // 2)}"
        error = one_line((self.error or "unknown").rstrip("."), LONGEST_SUMMARY - len(begin) - len(end))
        return f"{begin}{error}{end}"


def host_name() -> str:
    """The name of this host, as `socket.gethostname` has it."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket

    return socket.gethostname()


def row_name(worker_id: str) -> str:
    """The supervisor's own row in `workers_t`, which never overwrites the worker's."""
    return f"supervisor_{worker_id}"


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
