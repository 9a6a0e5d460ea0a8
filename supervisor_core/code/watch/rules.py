"""Watching a worker after its code was changed, decided purely: what was changed, for whom, and what came of it.

    watching ─→ well         until the end, as `status` says it
        ├─→ degraded         it is not well, or did not keep running
        │      └─→ recovered    it is well again, and with the same code
        ├─→ overtaken        another command has changed the code since
        └─→ ended            nothing can be said any more: somebody paused it, it was removed, nobody watched

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
"""Who looks so long after the end has not watched: what is so then may have come of anything."""

STEADY = timedelta(minutes=1)
"""A worker that had degraded is well again once it has kept running for so long."""

FOLLOWED = timedelta(days=7)
"""So long a worker that has degraded is looked at for its recovery."""


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
    """When it came to its end."""
    reason: str = ""
    """Why it ended so, as words without a stop; empty while it is watched, and where it is well."""


class WatchedWorker(NamedTuple):
    """How a watched worker is at the moment, as `status` judges it."""

    state: WorkerState
    health: Health
    fine: bool
    reason: str
    started_at: datetime | None = None
    """Since when its process lives."""
    paused: bool = False
    wanted: bool = True
    """False where a person has it at rest by the configuration: not enabled, or quarantined there."""
    given_up: bool = False
    """Quarantined because it could not live."""
    started_again_at: datetime | None = None
    """When it was last started by itself, after it had ended or hung."""
    lives: tuple[WorkerRun, ...] = ()
    """Its last lives that ended by themselves, the newest last."""


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
    """Where a bake goes from watching, and why."""

    state: BakeState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BakedChange:
    """What a command that has ended did to the code under its workers."""

    task_id: str
    worker_id: str
    at: datetime
    touched: frozenset[str]
    """Who runs from there."""
    run_with_it: tuple[str, ...]
    """Who was started with it, by a command that succeeded; not who rests."""


def change_of(job: Job) -> BakedChange | None:
    """The change that this job made; None if the code and its packages are as before."""
    if job.outcome is None or job.finished_at is None:
        return None
    details = job.outcome.details
    packages = details.get("packages")
    installed = isinstance(packages, list) and any(isinstance(one, Mapping) and one.get("changed") for one in packages)
    if details.get("before") == details.get("after") and not details.get("packages_said") and not installed:
        return None
    turns = details.get("workers")
    turns = turns if isinstance(turns, Mapping) else {}
    started = [name for name, turn in turns.items() if isinstance(turn, Mapping) and turn.get("new_pid") is not None]
    return BakedChange(
        job.task_id,
        job.worker_id,
        job.finished_at,
        frozenset({job.worker_id, *turns}),
        tuple(sorted(started)) if job.outcome.success else (),
    )


def overtakes(change: BakedChange, bake: Bake) -> bool:
    """Whether this worker runs with something else since."""
    return change.task_id != bake.task_id and bake.worker_id in change.touched and change.at > bake.since


def recovered(bake: Bake, worker: WatchedWorker | None, now: datetime) -> bool:
    """Whether a worker that had degraded is well again: it runs and has been steady for long enough."""
    if worker is None or not worker.fine or worker.paused or worker.state is not WorkerState.RUNNING:
        return False
    begun = max(each for each in (bake.decided_at, worker.started_at, bake.since) if each is not None)
    return now - begun >= STEADY


def judge(bake: Bake, worker: WatchedWorker | None, now: datetime, grace: timedelta) -> BakeVerdict | None:
    """Where this bake goes; None while it goes on. `worker` is None if it's no longer configured.

    Within the `grace` after its start a worker isn't judged by its health, even beyond the end of the bake; one that
    doesn't keep running is judged at once. Only what is known counts against it: the drive may be away, a signal from
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
        words = f"it was killed from outside {times(len(failures))}, which doesn't point to its code"
        return BakeVerdict(BakeState.ENDED, words) if over or worker.given_up else None
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
