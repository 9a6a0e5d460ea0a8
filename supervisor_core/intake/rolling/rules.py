"""Rules of rolling changes: the batches of a command, and the decision about the next one. Pure.

running ─ release ─→ running ─ … ─ finish ─→ done
   │ ↑ continue
   ├─ pause ─→ paused       (by a person)
   ├─ halt ──→ halted       (by itself, after too many failures)
   └─ abort (running, paused or halted) ─→ aborted
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Any

from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.definitions import BATCH, HEALTHY, KEEP_GOING, MAX_FAILURES, ROLLING
from supervisor_core.common.times import format_span
from supervisor_core.jobs.model import Job, JobState, RollingState

HEALTHY_SECONDS = 60
"""The time for which a batch must be healthy, if none is given."""

PATIENCE = timedelta(minutes=1)
"""The least time that a worker has to become healthy, beside the time for which it must stay so; and that a host has to
answer before it's named."""

NAMED = 3  # failed workers in a reason


class RollingMove(StrEnum):
    """A person's decision about a rolling change."""

    PAUSE = "pause"
    CONTINUE = "continue"
    ABORT = "abort"


_S = RollingState
MOVES: Mapping[RollingMove, tuple[tuple[RollingState, ...], RollingState]] = {
    RollingMove.PAUSE: ((_S.RUNNING,), _S.PAUSED),
    RollingMove.CONTINUE: ((_S.PAUSED, _S.HALTED), _S.RUNNING),
    RollingMove.ABORT: ((_S.RUNNING, _S.PAUSED, _S.HALTED), _S.ABORTED),
}
"""From where a decision leads, and to where."""

OPEN = (_S.RUNNING, _S.PAUSED, _S.HALTED)


@dataclass(frozen=True, slots=True)
class RollingTerms:
    batch: str = "1"
    """A number of workers, or a share such as `10%`."""
    healthy: timedelta = timedelta(seconds=HEALTHY_SECONDS)
    max_failures: int = 0

    def size(self, workers: int) -> int:
        """The workers of a batch after the first one."""
        if self.batch.endswith("%"):
            return max(ceil(workers * int(self.batch[:-1]) / 100), 1)
        return int(self.batch)


def rolling_terms(params: Mapping[str, Any]) -> RollingTerms | None:
    """The terms among the parameters of a command; None for one that isn't rolling."""
    if not any(each.name in params for each in ROLLING):
        return None
    healthy = params.get(HEALTHY.name)
    return RollingTerms(
        str(params.get(BATCH.name) or "1"),
        timedelta(seconds=HEALTHY_SECONDS if healthy is None else healthy),
        int(params.get(MAX_FAILURES.name) or 0),
    )


def of_one_batch(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of one batch for a single host: the batches are the hub's, and failures don't stop the others."""
    if rolling_terms(params) is None:
        return dict(params)
    left = {name: value for name, value in params.items() if name not in {each.name for each in ROLLING}}
    return {**left, KEEP_GOING.name: True}


def plan_batches(
    workers: Sequence[str], terms: RollingTerms, place: Callable[[str], Hashable] = lambda worker_id: worker_id
) -> tuple[tuple[str, ...], ...]:
    """The workers in batches, in their order: first a single one, the canary, then so many at a time.

    Workers of the same place, such as a checkout, are in one batch, because one can't change without the others.
    """
    groups: dict[Hashable, list[str]] = {}
    for worker_id in workers:
        groups.setdefault(place(worker_id), []).append(worker_id)
    size = terms.size(len(workers))
    batches: list[list[str]] = []
    for number, group in enumerate(groups.values()):
        if number < 2 or len(batches[-1]) + len(group) > size:
            batches.append([])
        batches[-1] += group
    return tuple(map(tuple, batches))


def by_checkout(previews: Iterable[Mapping[str, Any]]) -> Callable[[str], Hashable]:
    """The place of each worker by the previews of its command: its checkout, else the worker alone."""
    places = {worker["id"]: each["checkout"] for each in previews if each.get("checkout") for worker in each["workers"]}
    return lambda worker_id: places.get(worker_id, worker_id)


@dataclass(frozen=True, slots=True)
class RollingChange:
    task_id: str
    supervisor_id: str
    target: str
    state: RollingState
    batches: int
    released: int
    released_at: datetime
    terms: RollingTerms
    decided_at: datetime
    """The last change of its row."""
    decided_by: Issuer
    failures: Mapping[str, str] = field(default_factory=dict)
    """The failed workers so far, each with the reason."""
    accepted: int = 0
    """The failures that somebody accepted by continuing."""
    reason: str = ""
    """Why it halted."""

    @property
    def mark(self) -> str:
        """Differs after each decision, so that a button tells which state its person saw."""
        return f"{self.released}.{self.decided_at.timestamp():.0f}"


@dataclass(frozen=True, slots=True)
class BatchWorker:
    worker_id: str
    ended_at: datetime | None = None
    """The end of its job; None before."""
    error: str = ""
    """Why its job failed."""
    fine: bool = False
    since: datetime | None = None
    """Since when it's in its present condition."""
    condition: str = "unknown"


class BatchVerdict(StrEnum):
    """A decision about the current batch."""

    WAIT = "wait"
    RELEASE = "release"
    HALT = "halt"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """The decision about the current batch, and its reasons."""

    verdict: BatchVerdict
    failures: Mapping[str, str]
    """All failed workers of the change so far."""
    due_at: datetime | None = None
    """When to decide again, if nothing happens before."""
    reason: str = ""


def decide(change: RollingChange, batch: Iterable[BatchWorker], now: datetime) -> BatchDecision:
    """Decide about the current batch of a running change.

    A worker is done when it has been fine for `healthy` since the end of its job. It fails with its job, or if it isn't
    done within that time and as long again, at least a minute.
    """
    failures = dict(change.failures)
    under_way, due = False, list[datetime]()
    for worker in batch:
        if worker.worker_id in failures:
            continue
        if worker.ended_at is None:
            under_way = True
        elif worker.error:
            failures[worker.worker_id] = worker.error
        else:
            ended_at, healthy = worker.ended_at, change.terms.healthy
            until = ended_at + healthy + max(healthy, PATIENCE)
            done_at = max(worker.since or ended_at, ended_at) + healthy if worker.fine else None
            if done_at is not None and done_at <= now:
                continue
            if now < until:
                due.append(min(done_at or until, until))
            else:
                span = format_span((now - ended_at).total_seconds())
                failures[worker.worker_id] = f"not healthy after {span}: {worker.condition}"
    if len(failures) - change.accepted > change.terms.max_failures:
        reason = "; ".join(f"{worker_id}: {why}" for worker_id, why in list(failures.items())[:NAMED])
        more = f" … and {len(failures) - NAMED} more" if len(failures) > NAMED else ""
        return BatchDecision(BatchVerdict.HALT, failures, reason=reason + more)
    if under_way or due:
        return BatchDecision(BatchVerdict.WAIT, failures, min(due, default=None))
    last = change.released >= change.batches
    return BatchDecision(BatchVerdict.FINISH if last else BatchVerdict.RELEASE, failures)


def unanswered(change: RollingChange, jobs: Iterable[Job], now: datetime) -> tuple[str, ...]:
    """The hosts that hold the current batch: they were sent its command, and haven't answered for a while."""
    if change.state is not RollingState.RUNNING or now < change.released_at + PATIENCE:
        return ()
    current = (job for job in jobs if job.batch == change.released and is_address(job.worker_id))
    unheard = (
        job.worker_id
        for job in current
        if job.state is JobState.CLAIMED or (job.state is JobState.QUEUED and job.progress)  # held for its host
    )
    return tuple(dict.fromkeys(address_of(each).host for each in unheard))
