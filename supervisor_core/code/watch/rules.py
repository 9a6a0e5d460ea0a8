"""The watch after a code change, decided purely: the change, its workers, and the verdict on each of them.

    watching ─→ well         healthy at the end, as `status` has it
        ├─→ degraded         unhealthy, or it didn't keep running
        │      └─→ recovered    healthy again, with the same code
        ├─→ overtaken        another command has changed the code since
        └─→ ended            nothing more can be said: it was paused or removed, or no supervisor ran

Only `watching` and `degraded` can move, so each of the others happens once. Nothing here changes the code back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from supervisor_core.common.text import times
from supervisor_core.common.times import from_text
from supervisor_core.jobs.model import Job
from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.restarts.policy import WorkerRun, from_outside

LATE = timedelta(minutes=1)
"""A look so long after the end proves nothing: anything may have happened since."""

STEADY = timedelta(minutes=1)
"""A degraded worker has recovered once it has kept running for so long."""

FOLLOWED = timedelta(days=7)
"""A degraded worker's recovery is looked for this long."""

CHANGE_NAMES = {"update_code": "the update", "update_code_deps": "the update", "rollback_code": "the rollback"}


class BakeState(StrEnum):
    WATCHING = "watching"
    WELL = "well"
    DEGRADED = "degraded"
    RECOVERED = "recovered"
    OVERTAKEN = "overtaken"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Bake:
    """One row of `bakes_t`: one worker that is, or was, watched after one command."""

    task_id: str
    worker_id: str
    supervisor_id: str
    asked_for: str
    """The worker whose job of this command changed the code: itself, unless it only runs from the same checkout."""
    since: datetime
    until: datetime
    state: BakeState = BakeState.WATCHING
    decided_at: datetime | None = None
    reason: str = ""
    """Why it ended so, without a period; empty while it's watched, and if it's well."""


class WatchedWorker(NamedTuple):
    """The current state of a watched worker, as in `status`."""

    state: WorkerState
    health: Health
    fine: bool
    reason: str
    started_at: datetime | None = None
    paused: bool = False
    wanted: bool = True
    """False if the configuration keeps it from running: not enabled, or quarantined there."""
    given_up: bool = False
    """Quarantined because it didn't keep running."""
    started_again_at: datetime | None = None
    """The last automatic start, after it had exited or hung."""
    lives: tuple[WorkerRun, ...] = ()
    """Its last runs that ended on their own, newest last."""


def watched_elsewhere(document: Mapping[str, Any]) -> WatchedWorker:
    """A worker of another host, by the status that its host reported last. Unknown while the host is silent."""
    health = Health(document["health"])
    known = health is not Health.UNKNOWN or (bool(document["fine"]) and document["pid"] is not None)
    started = document.get("started_at")
    return WatchedWorker(
        WorkerState(document["state"]) if known else WorkerState.RUNNING,
        health,
        known and bool(document["fine"]),
        str(document["reason"]),
        started_at=from_text(started) if started else None,
        paused=bool(document["paused"]),
        wanted=bool(document.get("enabled", True)),
        given_up=document["state"] == WorkerState.QUARANTINED,
    )


class BakeVerdict(NamedTuple):
    state: BakeState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A finished command's change of the code, or of its packages, under its workers."""

    task_id: str
    worker_id: str
    handler: str
    at: datetime
    before: str
    after: str
    packages: tuple[Mapping[str, Any], ...]
    """The packages that it installed, by environment."""
    uncommitted: str
    """The backup ref of the uncommitted changes that it discarded."""
    touched: frozenset[str]
    """All workers of the checkout."""
    started: tuple[str, ...]
    """The workers that were started with it, if it succeeded."""

    @property
    def name(self) -> str:
        return CHANGE_NAMES.get(self.handler, "the undo")


def change_of(job: Job) -> CodeChange | None:
    """The change that this job made; None if the code and its packages are as before."""
    if job.outcome is None or job.finished_at is None:
        return None
    details = job.outcome.details
    before, after = str(details.get("before") or ""), str(details.get("after") or "")
    records = details.get("packages")
    records = records if isinstance(records, list) else []
    packages = tuple(record for record in records if isinstance(record, Mapping) and record.get("changed"))
    if before == after and not packages and not details.get("packages_said"):
        return None
    restarts = details.get("workers")
    restarts = restarts if isinstance(restarts, Mapping) else {}
    started = sorted(
        worker_id
        for worker_id, restart in restarts.items()
        if isinstance(restart, Mapping) and restart.get("new_pid") is not None
    )
    return CodeChange(
        job.task_id,
        job.worker_id,
        job.handler,
        job.finished_at,
        before,
        after,
        packages,
        str((details.get("kept_as") or {}).get("changes") or ""),
        frozenset({job.worker_id, *restarts}),
        tuple(started) if job.outcome.success else (),
    )


def overtakes(change: CodeChange, bake: Bake) -> bool:
    """True if the watched worker runs with other code since this change."""
    return change.task_id != bake.task_id and bake.worker_id in change.touched and change.at > bake.since


def recovered(bake: Bake, worker: WatchedWorker | None, now: datetime) -> bool:
    """True if a degraded worker runs again, and has been steady for long enough."""
    if worker is None or not worker.fine or worker.paused or worker.state is not WorkerState.RUNNING:
        return False
    steady_since = max(moment for moment in (bake.decided_at, worker.started_at, bake.since) if moment is not None)
    return now - steady_since >= STEADY


def judge(bake: Bake, worker: WatchedWorker | None, now: datetime, grace: timedelta) -> BakeVerdict | None:
    """The verdict on this worker; None while the watch continues. `worker` is None if it's no longer configured.

    Within the `grace` after its start a worker isn't judged by its health, even beyond the end of the watch; one that
    doesn't keep running is judged immediately. Only known facts count against it: the drive may be away, a signal from
    outside may stop or kill it.
    """
    over = now >= bake.until
    if now > bake.until + grace + LATE:
        return BakeVerdict(BakeState.ENDED, "no supervisor was running when the watch ended")
    if worker is None:
        return BakeVerdict(BakeState.ENDED, "it's no longer in the configuration")
    if worker.paused or not worker.wanted:
        return BakeVerdict(BakeState.ENDED, worker.reason)
    failures = [run for run in worker.lives if run.failed and run.ended_at > bake.since]
    killed = bool(failures) and all(run.exit_code is not None and from_outside(run) for run in failures)
    if killed and worker.state is not WorkerState.RUNNING:
        reason = f"it was killed from outside {times(len(failures))}, which doesn't point to its code"
        return BakeVerdict(BakeState.ENDED, reason) if over or worker.given_up else None
    if not killed:
        down = worker.given_up or worker.state in (WorkerState.BACKING_OFF, WorkerState.QUARANTINED, WorkerState.STUCK)
        if down or (worker.state is WorkerState.STOPPED and not worker.fine):
            return BakeVerdict(BakeState.DEGRADED, worker.reason)
        if worker.started_again_at is not None and worker.started_again_at > bake.since:
            return BakeVerdict(BakeState.DEGRADED, "it didn't keep running and was restarted automatically")
    if worker.state in (WorkerState.STARTING, WorkerState.STOPPING):
        return None
    if worker.state is WorkerState.STOPPED:
        return BakeVerdict(BakeState.ENDED, worker.reason)
    if worker.fine:
        return BakeVerdict(BakeState.WELL) if over else None
    if worker.health in (Health.UNKNOWN, Health.FROZEN):
        return BakeVerdict(BakeState.ENDED, worker.reason) if over else None
    if now - (worker.started_at or bake.since) < grace:
        return None
    return BakeVerdict(BakeState.DEGRADED, worker.reason)
