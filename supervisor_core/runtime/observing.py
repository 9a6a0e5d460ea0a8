"""Looking at workers as they are now: their processes, their pause, their last heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.files import read_json
from supervisor_core.adapters.pauses import Pause, read_flag
from supervisor_core.adapters.processes import FoundWorker, Presence
from supervisor_core.adapters.processes_values import Life
from supervisor_core.adapters.worker import check_watcher_process
from supervisor_core.config import Worker
from supervisor_core.domain.health import (
    Heartbeat,
    Observation,
    Verdict,
    WorkerState,
    health,
    read_heartbeat,
)
from supervisor_core.domain.times import to_text
from supervisor_core.handlers.context import Host

DRIVE_SECONDS = 1.0
"""How long a look waits for the drive: `status` must answer within two seconds, whatever the drive does."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One worker, as it was found."""

    worker: Worker
    found: FoundWorker
    pause: Pause | None
    observation: Observation
    verdict: Verdict
    at: datetime

    def as_json(self) -> dict[str, Any]:
        """For `status --json`."""
        return {
            "id": self.worker.id,
            "state": str(self.observation.state),
            "health": str(self.verdict.health),
            "reason": self._reason(),
            "fine": self.verdict.fine,
            "pid": self.found.identity.pid if self.found.identity else None,
            "paused": self.pause is not None,
            "quarantined": self.worker.quarantined,
            "muted_until": None,
            "team": self.worker.team,
            "last_health_at": to_text(self.at),
            "last_error": None,
        }

    def _reason(self) -> str:
        return str(self.pause) if self.pause and self.verdict.reason == "paused" else self.verdict.reason


def look(host: Host, workers: Sequence[Worker]) -> list[Seen]:
    """Look at these workers; the drive is asked once for all of them, and not waited for if it hangs."""
    now = datetime.now(UTC)
    ids = [worker.id for worker in workers]
    try:
        root, folder = host.drive.root, host.config.folder("state")
        beats, flags = host.drive.call(_on_drive, root, folder, ids, timeout=DRIVE_SECONDS)
        known = True
    except (DriveUnavailable, OSError):
        beats, flags, known = {}, {}, False
    seen = []
    for worker in workers:
        pause = host.pauses.look(worker.id, flags.get(worker.id), flag_known=known)
        found = check_watcher_process(host.processes, worker)
        observation = _observation(worker, found, pause, beats.get(worker.id), known=known)
        seen.append(Seen(worker, found, pause, observation, health(observation, now), now))
    return seen


def state_of(found: FoundWorker) -> WorkerState:
    """Where a worker's life stands, by its processes alone."""
    if found.presence is Presence.RUNNING and not found.stuck:
        return WorkerState.RUNNING
    if found.presence is Presence.RUNNING:
        return WorkerState.STUCK
    return WorkerState.STUCK if found.leftovers or found.presence is Presence.UNVERIFIABLE else WorkerState.STOPPED


def _observation(
    worker: Worker, found: FoundWorker, pause: Pause | None, beat: Heartbeat | None, *, known: bool
) -> Observation:
    record = found.record
    return Observation(
        state=state_of(found),
        paused=pause is not None,
        enabled=worker.enabled,
        frozen=found.life is Life.FROZEN,
        started_at=datetime.fromisoformat(record.started_at) if record and record.started_at else None,
        heartbeat=beat,
        heartbeat_known=known,
        max_age_seconds=worker.heartbeat_max_age_seconds,
    )


def heartbeat_path(folder: Path, worker_id: str) -> Path:
    """Where a worker writes its heartbeat."""
    return folder / f"watcher_heartbeat_{worker_id}.json"


def _on_drive(
    root: Path, folder: Path, worker_ids: Sequence[str]
) -> tuple[dict[str, Heartbeat], dict[str, Pause | None]]:
    """The heartbeats and pause flags of these workers, in one call."""
    if not root.is_dir():
        raise DriveUnavailable(f"The drive is not there: {root} is no folder.")
    beats = {}
    for worker_id in worker_ids:
        document = read_json(heartbeat_path(folder, worker_id), tolerant=True)
        if document is not None:
            beats[worker_id] = read_heartbeat(document)
    return beats, {worker_id: read_flag(folder, worker_id) for worker_id in worker_ids}
