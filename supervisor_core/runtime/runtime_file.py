"""`runtime.json`: what the daemon last said of itself. Metadata; whether it lives, the lock says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.adapters.processes_stop import StopReport
from supervisor_core.domain.health import Health, WorkerState

FILE_NAME = "runtime.json"


def write(state_dir: Path, document: Mapping[str, Any]) -> None:
    """Say it; one writer, the daemon."""
    write_json(state_dir / FILE_NAME, dict(document), mode=0o600)


def read(state_dir: Path) -> Mapping[str, Any]:
    """What was last said; empty where nothing readable was."""
    return read_json(state_dir / FILE_NAME, tolerant=True) or {}


def with_the_ended(workers: Mapping[str, Any], ended: Mapping[str, StopReport]) -> dict[str, Any]:
    """The workers as they were pictured last, and those that were ended since as that left them."""
    told = dict(workers)
    for worker_id, report in ended.items():
        if worker_id not in told:
            continue
        gone = {"state": str(WorkerState.STOPPED), "pid": None, "started_at": None, "health": str(Health.UNKNOWN)}
        stuck = {"state": str(WorkerState.STUCK), "pid": next((each.pid for each in report.survivors), None)}
        now = {**gone, "reason": "ended with the daemon"} if report.stopped else stuck
        told[worker_id] = {**told[worker_id], "actual": {**told[worker_id]["actual"], **now, "pending": []}}
    return told
