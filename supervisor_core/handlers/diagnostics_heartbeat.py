"""The part of a diagnostic report about a worker's last word: how old it is, what it says, and what follows from it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from supervisor_core.adapters.files import read_json
from supervisor_core.adapters.pauses import Pause, read_flag
from supervisor_core.adapters.processes import FoundWorker, Presence
from supervisor_core.adapters.processes_values import Life
from supervisor_core.adapters.report_masking import Masking
from supervisor_core.adapters.worker import check_watcher_process
from supervisor_core.config import Worker
from supervisor_core.domain.health import Health, Heartbeat, Observation, WorkerState, health, read_heartbeat
from supervisor_core.handlers.context import Host


def heartbeat(host: Host, worker: Worker, _: Masking) -> dict[str, Any]:
    """Fresh, healthy, paused; with the reason in words."""
    host.drive.check()
    beat, flag = host.drive.call(_on_drive, host.config.folder("state"), worker.id)
    pause = host.pauses.look(worker.id, flag, flag_known=True)
    now = host.now()
    verdict = health(_observation(worker, check_watcher_process(host.processes, worker), pause, beat), now)
    age = (now - beat.at).total_seconds() if beat and beat.at else None
    limit = worker.heartbeat_max_age_seconds
    return {
        "fresh": age is not None and (limit == 0 or age < limit),
        "healthy": verdict.health is Health.HEALTHY,
        "paused": pause is not None,
        "health": str(verdict.health),
        "reason": verdict.reason,
        "pause": str(pause) if pause else None,
        "found": beat is not None,
        "at": beat.at if beat else None,
        "age_seconds": None if age is None else round(age, 1),
        "limit_seconds": limit,
        "status": beat.status if beat else None,
        "error": beat.error if beat else None,
    }


def _on_drive(folder: Path, worker_id: str) -> tuple[Heartbeat | None, Pause | None]:
    document = read_json(folder / f"watcher_heartbeat_{worker_id}.json", tolerant=True)
    return read_heartbeat(document) if document is not None else None, read_flag(folder, worker_id)


def _observation(worker: Worker, found: FoundWorker, pause: Pause | None, beat: Heartbeat | None) -> Observation:
    record = found.record
    return Observation(
        state=_state(found),
        paused=pause is not None,
        enabled=worker.enabled,
        frozen=found.life is Life.FROZEN,
        started_at=datetime.fromisoformat(record.started_at) if record and record.started_at else None,
        heartbeat=beat,
        max_age_seconds=worker.heartbeat_max_age_seconds,
    )


def _state(found: FoundWorker) -> WorkerState:
    if found.presence is Presence.RUNNING and not found.stuck:
        return WorkerState.RUNNING
    return WorkerState.STOPPED if found.presence is Presence.STOPPED and not found.leftovers else WorkerState.STUCK
