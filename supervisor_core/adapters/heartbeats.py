"""Heartbeat files on the drive: the worker's, which is read, and the supervisor's, which is written.

Every call here touches the drive, and may hang as long as it does: whoever must not wait calls through `Drive`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.domain.health import Heartbeat, read_heartbeat

FILE_MODE = 0o640


def heartbeat_path(state_folder: Path, worker_id: str) -> Path:
    """Where a worker writes its heartbeat."""
    return state_folder / f"watcher_heartbeat_{worker_id}.json"


def worker_of(name: str) -> str | None:
    """Whose heartbeat a file of this name is; None where it is none."""
    inner = name.removeprefix("watcher_heartbeat_").removesuffix(".json")
    return inner if inner and name == f"watcher_heartbeat_{inner}.json" else None


def supervisor_heartbeat_path(state_folder: Path, worker_id: str) -> Path:
    """Where a supervisor says how its last pass for this worker went."""
    return state_folder / f"supervisor_heartbeat_{worker_id}.json"


def read_heartbeat_file(path: Path) -> dict[str, Any] | None:
    """What a heartbeat file says; None where there is none, or none that can be understood."""
    return read_json(path, tolerant=True)


def read_watcher_heartbeat(state_folder: Path, worker_id: str) -> dict[str, Any] | None:
    """What this worker last said of itself; None where it said nothing that can be understood."""
    return read_heartbeat_file(heartbeat_path(state_folder, worker_id))


def get_heartbeat_age_seconds(path: Path, now: datetime | None = None) -> float | None:
    """How old the file is, whatever is in it; None where there is none. Below zero: it is from the future."""
    written = _written_at(path)
    return None if written is None else ((now or datetime.now(UTC)) - written).total_seconds()


def last_beat(state_folder: Path, worker_id: str) -> Heartbeat | None:
    """The worker's heartbeat as a value, with the time of its file where it says none itself."""
    path = heartbeat_path(state_folder, worker_id)
    document = read_heartbeat_file(path)
    return None if document is None else read_heartbeat(document, _written_at(path))


def write_supervisor_heartbeat_file(
    state_folder: Path, worker_id: str, heartbeat: Mapping[str, Any], *, mode: int = FILE_MODE
) -> Path:
    """Replace the supervisor's heartbeat; a reader sees the old one or the new one. Returns where it is."""
    path = supervisor_heartbeat_path(state_folder, worker_id)
    write_json(path, heartbeat, mode=mode)
    return path


def _written_at(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
    except (ValueError, OverflowError):  # a file's time may be anything, and no date has so large a number
        return None
