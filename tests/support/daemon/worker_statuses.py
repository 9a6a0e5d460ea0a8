"""Builds the status of a worker as the daemon publishes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.records import RUNNING, WorkerRecord
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.restarts.history import Quarantine
from supervisor_core.workers.status import ProcessEnd, WorkerStatus


def worker_status(
    worker_id: str,
    at: datetime,
    state: WorkerState = WorkerState.RUNNING,
    *,
    died: bool = False,
    ended_at: datetime | None = None,
    end_words: str = "",
    **known: Any,
) -> WorkerStatus:
    """A status; the settings, the process, the pause and the quarantine come from what is known of them."""
    names = {
        "max_age_seconds": "heartbeat_max_age_seconds",
        "enabled": "enabled",
        "quarantined": "quarantined",
        "restart": "restart",
    }
    settings = {names[name]: known.pop(name) for name in tuple(known) if name in names}
    worker = WorkerSettings(command=("true",), id=worker_id, **settings)
    pid, others = known.pop("pid", 4711), known.pop("others", ())
    record = WorkerRecord(
        worker_id, "g1", RUNNING, identity=ProcessIdentity(pid, 1, "boot"), spec_hash=known.pop("spec_hash", "")
    )
    runs = state is WorkerState.RUNNING and pid is not None
    found = FoundWorker(worker_id, Presence.STOPPED, record if died else None)
    if reason := known.pop("unverifiable", ""):
        found = FoundWorker(worker_id, Presence.UNVERIFIABLE, reason=reason)
    elif runs:
        found = FoundWorker(worker_id, Presence.RUNNING, record, others=others)
    quarantine, paused = known.pop("quarantine", ""), known.pop("paused", False)
    return WorkerStatus(
        worker,
        at,
        state,
        found,
        pause=Pause("") if paused else None,
        quarantine=Quarantine("", quarantine) if quarantine else None,
        end=ProcessEnd(ended_at, end_words) if ended_at else None,
        **known,
    )
