"""Heartbeat files on the drive: the worker's, which is read, and the supervisor's, which is written.

Every call here touches the drive, and may hang as long as it does: whoever must not wait calls through `Drive`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.adapters import drive_files
from supervisor_core.domain.health import Heartbeat, read_heartbeat

FILE_MODE = 0o640


def heartbeat_path(state_folder: Path, worker_id: str) -> Path:
    """Where a worker writes its heartbeat."""
    return state_folder / f"watcher_heartbeat_{worker_id}.json"


def worker_of(name: str) -> str | None:
    """Whose heartbeat a file of this name is; None where it is none."""
    inner = name.removeprefix("watcher_heartbeat_").removesuffix(".json")
    return inner if inner and name == f"watcher_heartbeat_{inner}.json" else None


def known_workers(root: Path, state_folder: Path) -> set[str]:
    """The workers, of any host, that have a heartbeat file on the drive, their own or their supervisor's."""
    found: set[str] = set()
    try:
        entries = drive_files.list_folder(root, state_folder, ".json")
    except FileNotFoundError:
        return found
    for entry in entries:
        for prefix in ("watcher_heartbeat_", "supervisor_heartbeat_"):
            if entry.name.startswith(prefix):
                found.add(entry.name.removeprefix(prefix).removesuffix(".json"))
    return found


def supervisor_heartbeat_path(state_folder: Path, worker_id: str) -> Path:
    """Where a supervisor says how its last pass for this worker went."""
    return state_folder / f"supervisor_heartbeat_{worker_id}.json"


def read_heartbeat_file(path: Path) -> dict[str, Any] | None:
    """What a heartbeat file says; None where there is none, or none that can be understood."""
    return drive_files.read_json(path.parent, path.name, tolerant=True)


def read_watcher_heartbeat(state_folder: Path, worker_id: str) -> dict[str, Any] | None:
    """What this worker last said of itself; None where it said nothing that can be understood."""
    return read_heartbeat_file(heartbeat_path(state_folder, worker_id))


def get_heartbeat_age_seconds(path: Path, now: datetime | None = None) -> float | None:
    """How old the file is, whatever is in it; None where there is none. Below zero: it is from the future."""
    written = _written_at(path.parent, path)
    return None if written is None else ((now or datetime.now(UTC)) - written).total_seconds()


def last_beat(root: Path, state_folder: Path, worker_id: str) -> Heartbeat | None:
    """The worker's heartbeat as a value, with the time of its file where it says none itself."""
    path = heartbeat_path(state_folder, worker_id)
    document = drive_files.read_json(root, path, tolerant=True)
    return None if document is None else read_heartbeat(document, _written_at(root, path))


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
    drive_files.write_json(root or state_folder, path, heartbeat, mode)
    return path


def _written_at(root: Path, path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(drive_files.stat(root, path).st_mtime, UTC)
    except FileNotFoundError:
        return None
    except (ValueError, OverflowError):  # a file's time may be anything, and no date has so large a number
        return None
