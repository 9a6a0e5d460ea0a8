"""Heartbeat files on the drive, of workers and supervisors.

Calls on the drive's files may hang with it; call them through `Drive`.
"""

from __future__ import annotations

import contextlib
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
from supervisor_core.workers.health import Health, Heartbeat, Verdict, WorkerState, read_heartbeat

if TYPE_CHECKING:
    from supervisor_core.config.load import SupervisorConfig
    from supervisor_core.config.worker_settings import WorkerSettings

FILE_MODE = 0o640

PREFIX = "watcher_heartbeat_"
"""The beginning of the name of a worker's heartbeat file."""


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


def last_beat(root: Path, state_folder: Path, worker_id: str) -> Heartbeat | None:
    """The worker's heartbeat as a value, with the file's time if it has none itself."""
    return last_beats(root, state_folder, [worker_id]).get(worker_id)


def last_beats(root: Path, state_folder: Path, worker_ids: Sequence[str]) -> dict[str, Heartbeat]:
    """The same for several workers; those without a heartbeat are missing. The folder is opened once."""
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


LONGEST_SUMMARY = 255
"""The characters of `status_summary`. MariaDB in strict mode refuses more."""


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


def row_name(worker_id: str) -> str:
    """The supervisor's own row in `workers_t`, which never overwrites the worker's."""
    return f"supervisor_{worker_id}"


def in_words(state: WorkerState, verdict: Verdict, *, paused: bool) -> str:
    """The state and health of a worker: `running, healthy` · `paused` · `stopped, missing`."""
    if paused and state is WorkerState.STOPPED:
        return "paused"
    life = f"{state} and paused" if paused else str(state)
    resting = verdict.fine and verdict.health is Health.UNKNOWN
    return life if resting else f"{life}, {verdict.health}"
