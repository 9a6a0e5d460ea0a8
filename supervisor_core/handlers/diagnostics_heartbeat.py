"""The part of a diagnostic report about a worker's last word: how old it is, what it says, and what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor_core.adapters.heartbeats import last_beat
from supervisor_core.adapters.observation import observe
from supervisor_core.adapters.pauses import Pause, read_flag
from supervisor_core.adapters.report_masking import Masking
from supervisor_core.config import Worker
from supervisor_core.domain.health import Health, Heartbeat, health
from supervisor_core.handlers.context import Host


def heartbeat(host: Host, worker: Worker, _: Masking) -> dict[str, Any]:
    """Fresh, healthy, paused; with the reason in words."""
    host.drive.check()
    beat, flag = host.drive.call(_on_drive, host.drive.root, host.config.folder("state"), worker.id)
    pause = host.pauses.look(worker.id, flag, flag_known=True)
    now = host.now()
    observation = observe(host.config, host.processes, host.drive, host.pauses, worker, beat, pause)[1]
    verdict = health(observation, now)
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


def _on_drive(root: Path, folder: Path, worker_id: str) -> tuple[Heartbeat | None, Pause | None]:
    return last_beat(root, folder, worker_id), read_flag(root, folder, worker_id)
