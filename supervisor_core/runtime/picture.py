"""From a look at a worker to what the plan needs of it, and to its place in the picture of all workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from supervisor_core.adapters.observation import state_of
from supervisor_core.config import SupervisorConfig, Worker
from supervisor_core.domain.health import WorkerState
from supervisor_core.domain.planning import Actual, Wanted
from supervisor_core.domain.snapshots import ActualState, DesiredState, Reconciliation, WorkerSnapshot
from supervisor_core.domain.standing import Standing
from supervisor_core.runtime.actor import WorkerActor
from supervisor_core.runtime.observing import Seen


@dataclass(frozen=True, slots=True)
class Reconciled:
    """How far the plan has come with a worker: the version that was brought about, its last round, and how many."""

    version: int = 0
    at: datetime | None = None
    count: int = 0

    def again(self, version: int, now: datetime, *, applied: bool) -> Reconciled:
        """After one more round; the version counts as applied once nothing is left to do for it."""
        return Reconciled(version if applied else self.version, now, self.count + 1)


def wanted_of(config: SupervisorConfig, worker: Worker, seen: Seen) -> Wanted:
    """What is wanted of this worker, by its configuration, by its pause, and by whether it was given up."""
    quarantined = worker.quarantined or seen.quarantine is not None
    return Wanted(worker.enabled, quarantined, seen.pause is not None, config.spec_hash(worker))


def actual_of(seen: Seen, standing: Standing) -> Actual:
    """What is there of this worker: its processes as they were seen, and what its actor knows besides."""
    state = state_of(seen.found)
    if state is WorkerState.STOPPED and standing.state is WorkerState.BACKING_OFF:
        state = WorkerState.BACKING_OFF
    record = seen.found.record
    spec_hash = record.spec_hash if record is not None and state is WorkerState.RUNNING else ""
    return Actual(state, spec_hash, ended=standing.rests, hung=seen.worker.restart.on_hang and bool(seen.hangs))


def picture_of(config: SupervisorConfig, actor: WorkerActor, seen: Seen, done: Reconciled) -> WorkerSnapshot:
    """This worker in the picture."""
    worker, found = seen.worker, seen.found
    state, given_up = actor.standing.state, worker.quarantined or actor.standing.quarantined
    configured = config.workers.get(worker.id)
    pid = actor.pid if actor.standing.seen is WorkerState.RUNNING else None
    same = found.identity is not None and found.identity.pid == pid
    return WorkerSnapshot(
        DesiredState(
            config.spec_hash(configured) if configured else "",
            enabled=configured.enabled if configured else False,
            quarantined=given_up,
            paused=seen.pause is not None,
        ),
        ActualState(
            WorkerState.QUARANTINED if given_up and state is WorkerState.STOPPED else state,
            pid,
            seen.observation.started_at if same else None,
            seen.verdict.health,
            seen.verdict.reason,
            seen.at,
            actor.pending,
        ),
        Reconciliation(done.version, done.at, done.count),
    )
