"""How quick plans, health and the snapshot of 10,000 workers are, next to a bare loop over the same values."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.workers.health import Heartbeat, Observation, WorkerState, health
from supervisor_core.workers.planning import plan
from supervisor_core.workers.status import ActualState, DesiredState, Snapshot, WorkerSnapshot, WorkerStatus
from tests.benchmarks.rows import Row, rows_of

WORKERS, ROUNDS = 10_000, 30
NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
STARTED = NOW - timedelta(hours=1)
EVERY = 10
"""One of so many workers is down, one paused, and one stale."""

FLOOR = f"a bare loop over {WORKERS:,} workers"


def measure() -> list[Row]:
    """Each in turns with the floor."""
    names = [f"Worker{number:05}" for number in range(WORKERS)]
    desired = {name: DesiredState("h", paused=number % EVERY == 1) for number, name in enumerate(names)}
    seen = {name: _observation(number) for number, name in enumerate(names)}
    actual = {name: ActualState(each.state, each.pid, STARTED, spec_hash="h") for name, each in seen.items()}
    statuses = [_status(name, each) for name, each in seen.items()]
    snapshot = Snapshot(1, NOW, {name: WorkerSnapshot(desired[name], actual[name]) for name in names})
    works: Mapping[str, Callable[[], object]] = {
        FLOOR: lambda: _loop(actual, desired),
        "their plan": lambda: plan(desired, actual, NOW),
        "their health": lambda: [health(each, NOW) for each in seen.values()],
        "a read of each in the snapshot": lambda: _loop(snapshot.workers, snapshot.workers),
        "the next snapshot, nothing changed": lambda: snapshot.changed(snapshot.workers, NOW),
        "their part of the status document": lambda: [each.as_json() for each in statuses],
        "the same as JSON text": lambda: json.dumps([each.as_json() for each in statuses]),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    gc.freeze()  # else a collection that walks all of these values falls into any of the figures
    for turn in range(ROUNDS + 1):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            if turn:
                times[name].append((time.perf_counter() - begun) * 1000)
    return rows_of(times, FLOOR)


def _loop(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    """The least that any function of both does: it takes each pair, and keeps one value."""
    return {name: (value, other.get(name)) for name, value in one.items()}


def _observation(number: int) -> Observation:
    if number % EVERY == 0:
        return Observation(WorkerState.STOPPED)
    beat = Heartbeat("running", NOW - timedelta(hours=1 if number % EVERY == 2 else 0), pid=number)
    return Observation(WorkerState.RUNNING, started_at=STARTED, heartbeat=beat, pid=number, paused=number % EVERY == 1)


def _status(name: str, seen: Observation) -> WorkerStatus:
    settings = WorkerSettings(command=("/bin/true",))
    found = FoundWorker(name, Presence.RUNNING if seen.pid else Presence.STOPPED)
    return WorkerStatus(settings, NOW, seen, found)
