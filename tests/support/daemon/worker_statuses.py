"""Builds the status of a worker as the daemon publishes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.records import RUNNING, WorkerRecord
from supervisor_core.workers.health import Observation, WorkerState
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
    """A status; what `WorkerStatus` does not know is for its observation."""
    own = {name: known.pop(name) for name in ("rests", "stage", "decision", "start_error") if name in known}
    worker = WorkerSettings(command=("true",), id=worker_id)
    record = WorkerRecord(worker_id, "g1", RUNNING, identity=ProcessIdentity(4711, 1, "boot")) if died else None
    end = ProcessEnd(ended_at, end_words) if ended_at else None
    found = FoundWorker(worker_id, Presence.STOPPED, record)
    return WorkerStatus(worker, at, Observation(state, **known), found, end=end, **own)
