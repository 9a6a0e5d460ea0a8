"""The rows of rolling changes: filed with the jobs, moved by steps, each with an audit row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select

from supervisor_core.commands.addresses import name_of
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.common.text import canonical_json, one_line, sentence, storable
from supervisor_core.intake.rolling.rules import (
    MOVES,
    BatchDecision,
    BatchVerdict,
    BatchWorker,
    LastDecision,
    RollingChange,
    RollingMove,
    RollingTerms,
)
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, NOT_BEGUN, Job, JobState, RollingState
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Step, record, take
from supervisor_core.storage.tables import conditions, rolling_changes
from supervisor_core.storage.tables import jobs as jobs_table
from supervisor_core.workers.conditions.rules import FLAPPING, SUPERVISOR, WORKER, Condition
from supervisor_core.workers.status import brief

US = Issuer("supervisor", "supervisor")

STARTED, BATCH, HALTED, DONE = "ROLLING_STARTED", "ROLLING_BATCH", "ROLLING_HALTED", "ROLLING_DONE"
PAUSED, CONTINUED, ABORTED = "ROLLING_PAUSED", "ROLLING_CONTINUED", "ROLLING_ABORTED"
"""The audit actions."""

_ACTIONS = {RollingMove.PAUSE: PAUSED, RollingMove.CONTINUE: CONTINUED, RollingMove.ABORT: ABORTED}

REASON = 200  # characters of a worker's failure
TARGET = 64  # characters of a target in the audit trail


def file(connection: Connection, supervisor_id: str, command: Command, terms: RollingTerms, now: datetime) -> None:
    """Begin a rolling change, in the transaction that files its jobs. Its first batch may start."""
    issuer = command.issuer or US
    change = RollingChange(
        task_id=command.task_id,
        supervisor_id=supervisor_id,
        target=command.target,
        state=RollingState.RUNNING,
        batches=len(command.batches),
        released=1,
        released_at=now,
        terms=terms,
        last=LastDecision(now, issuer),
    )
    row = {
        "task_id": change.task_id,
        "supervisor_id": supervisor_id,
        "target": change.target,
        "state": change.state,
        "batches": change.batches,
        "released": change.released,
        "released_at": now,
        "healthy_seconds": int(terms.healthy.total_seconds()),
        "max_failures": terms.max_failures,
        "failures_json": "{}",
        "accepted": 0,
        "requested_at": now,
        "decided_at": now,
        "decided_by": issuer.id,
        "decided_name": issuer.name[: jobs.ISSUER_NAME],
    }
    connection.execute(insert(rolling_changes), row)
    facts = {"batches": [len(each) for each in command.batches], "first": list(command.batches[0])}
    record(connection, supervisor_id, _entry(change, STARTED, issuer, facts), (), now)


def find(connection: Connection, task_id: str) -> RollingChange | None:
    row = connection.execute(select(rolling_changes).where(rolling_changes.c.task_id == task_id)).mappings().first()
    return _change(row) if row else None


def running(connection: Connection) -> list[RollingChange]:
    """The changes that go on, oldest first. One index lookup where there are none."""
    query = select(rolling_changes).where(rolling_changes.c.state == RollingState.RUNNING)
    found = connection.execute(query.order_by(rolling_changes.c.requested_at, rolling_changes.c.task_id)).mappings()
    return [_change(row) for row in found]


def current_batch(connection: Connection, change: RollingChange) -> list[BatchWorker]:
    mine = (jobs_table.c.task_id == change.task_id, jobs_table.c.batch == change.released)
    found = connection.execute(select(jobs_table).where(*mine).order_by(jobs_table.c.job_id)).mappings()
    some = [jobs.of_row(row) for row in found]
    seen = _conditions(connection, change.supervisor_id, [job.worker_id for job in some])
    return [_worker(job, seen) for job in some]


def decided(change: RollingChange, decision: BatchDecision, now: datetime) -> Step | None:
    """The step that a decision about the current batch takes; None for a wait."""
    to, action = _VERDICTS.get(decision.verdict, (None, ""))
    if to is None:
        return None
    following = decision.verdict is BatchVerdict.RELEASE
    values: dict[str, Any] = {"failures_json": canonical_json(dict(decision.failures)), "reason": None}
    facts: dict[str, Any] = {"batch": change.released + following, "failures": dict(decision.failures)}
    if following:
        values |= {"released": change.released + 1, "released_at": now}
    if decision.reason:
        values["reason"] = facts["error"] = decision.reason
    outcome = "failure" if decision.verdict is BatchVerdict.HALT else "success"
    return _step(change, (RollingState.RUNNING,), to, values, _entry(change, action, US, facts, outcome), US, now)


def moved(change: RollingChange, move: RollingMove, by: Issuer, door: str, now: datetime) -> Step:
    """The step that a person takes."""
    origins, to = MOVES[move]
    values: dict[str, Any] = {}
    if move is RollingMove.CONTINUE:
        values = {"released_at": now, "accepted": len(change.failures), "reason": None}
    entry = _entry(change, _ACTIONS[move], by, {"door": door, "batch": change.released})
    step = _step(change, origins, to, values, entry, by, now)
    if move is not RollingMove.ABORT:
        return step
    return replace(step, follow=partial(_pass_over_rest, task_id=change.task_id, by=by))


def _pass_over_rest(connection: Connection, supervisor_id: str, now: datetime, *, task_id: str, by: Issuer) -> None:
    """End the jobs that haven't started, so that each of their workers is reported."""
    mine = (jobs_table.c.task_id == task_id, jobs_table.c.state == JobState.QUEUED)
    rows = connection.execute(select(jobs_table).where(*mine).order_by(jobs_table.c.job_id)).mappings().all()
    words = f"Not started: {by.name or by.id} aborted the rolling change. Nothing was done."
    outcome = Outcome.failed(words, **{NOT_BEGUN: True})
    steps = [jobs.refuse(jobs.of_row(row), outcome, now) for row in rows]
    for step in steps[:-1]:
        take(connection, supervisor_id, replace(step, follow=None), now)
    for step in steps[-1:]:  # what follows from the end of a command follows once
        take(connection, supervisor_id, step, now)


_VERDICTS = {
    BatchVerdict.RELEASE: (RollingState.RUNNING, BATCH),
    BatchVerdict.HALT: (RollingState.HALTED, HALTED),
    BatchVerdict.FINISH: (RollingState.DONE, DONE),
}


def _step(
    change: RollingChange,
    origins: Sequence[RollingState],
    to: RollingState,
    values: Mapping[str, Any],
    entry: AuditEntry,
    by: Issuer,
    now: datetime,
) -> Step:
    """Compare the batch as well as the state: the second of two writers changes nothing."""
    made = {"decided_at": now, "decided_by": by.id, "decided_name": by.name[: jobs.ISSUER_NAME], **values}
    key = {"task_id": change.task_id, "released": change.released, "accepted": change.accepted}
    return Step(rolling_changes, key, origins, to, made, entry, (jobs.refresh_card(change.task_id),))


def _entry(
    change: RollingChange, action: str, by: Issuer, facts: Mapping[str, Any], outcome: str = "success"
) -> AuditEntry:
    return AuditEntry(
        actor=by.id,
        action=action,
        target_type="workers",
        target_id=one_line(storable(change.target), TARGET),
        outcome=outcome,
        task_id=change.task_id,
        details={"of": change.batches, **facts},
    )


@dataclass(frozen=True, slots=True)
class _Observed:
    fine: bool
    since: datetime
    words: str


def _conditions(connection: Connection, supervisor_id: str, workers: Sequence[str]) -> dict[tuple[str, str], _Observed]:
    hosts = {host for each in workers if (host := _host_of(each))}
    c = conditions.c
    mine = (c.supervisor_id == supervisor_id, c.target_type.in_((WORKER, FLAPPING, SUPERVISOR)))
    query = select(c.target_type, c.target_id, c.condition, c.reason, c.since)
    query = query.where(*mine, c.target_id.in_((*workers, *hosts)))
    found = {}
    for row in connection.execute(query):
        condition = Condition(row.condition)
        words = f"{condition.word} ({row.reason})" if row.reason else condition.word
        found[(row.target_type, row.target_id)] = _Observed(condition.fine, row.since, words)
    return found


def unresponsive(connection: Connection, change: RollingChange, workers: Sequence[str]) -> set[str]:
    seen = _conditions(connection, change.supervisor_id, workers)
    hosts = {each: seen.get((SUPERVISOR, _host_of(each))) for each in workers}
    return {each for each, host in hosts.items() if host is not None and not host.fine}


def _host_of(worker_id: str) -> str:
    """The host of a worker of another host; empty for a worker of this one."""
    host, separator, _ = worker_id.partition("/")
    return host if separator else ""


def _worker(job: Job, seen: Mapping[tuple[str, str], _Observed]) -> BatchWorker:
    """A worker is fine if it is, doesn't flap, and its host says so."""
    if job.state not in FINAL:
        return BatchWorker(job.worker_id)
    outcome = job.outcome or Outcome.done()
    if not outcome.success:
        return BatchWorker(job.worker_id, job.finished_at, error=_reason(job.worker_id, outcome))
    own = seen.get((WORKER, job.worker_id))
    others = (seen.get((FLAPPING, job.worker_id)), seen.get((SUPERVISOR, _host_of(job.worker_id))))
    all_of_it = [each for each in (own, *others) if each is not None]
    worst = next((each for each in all_of_it if not each.fine), own)
    return BatchWorker(
        job.worker_id,
        job.finished_at,
        fine=own is not None and all(each.fine for each in all_of_it),
        since=max((each.since for each in all_of_it), default=None),
        condition=worst.words if worst else "not seen yet",
    )


def _reason(worker_id: str, outcome: Outcome) -> str:
    """Why a job failed, in one line: the first sentence of its error, and the last line of the output below it.

    An update that was put back has the worker's own error in its details, and says which version runs now.
    """
    own, turn = (_entry_of(outcome.details, name, worker_id) for name in ("failed", "workers"))
    error = str(own or outcome.error or "failed")
    first, *output = [line.strip() for line in error.splitlines() if line.strip()] or ["failed"]
    words = brief(first).removeprefix(f"{name_of(worker_id)} ") + (f": {output[-1]}" if output else "")
    if own and isinstance(turn, Mapping):
        now = "It runs the previous version again." if turn.get("new_pid") else "It's down."
        return f"{sentence(one_line(storable(words), REASON - len(now) - 2))} {now}"
    return one_line(storable(words), REASON)


def _entry_of(details: Mapping[str, Any], name: str, worker_id: str) -> object:
    entries = details.get(name)
    return entries.get(worker_id) if isinstance(entries, Mapping) else None


def _change(row: RowMapping) -> RollingChange:
    return RollingChange(
        task_id=row["task_id"],
        supervisor_id=row["supervisor_id"],
        target=row["target"],
        state=RollingState(row["state"]),
        batches=row["batches"],
        released=row["released"],
        released_at=row["released_at"],
        terms=RollingTerms(healthy=timedelta(seconds=row["healthy_seconds"]), max_failures=row["max_failures"]),
        last=LastDecision(row["decided_at"], Issuer(row["decided_by"], row["decided_name"]), row["reason"] or ""),
        failures=json.loads(row["failures_json"]),
        accepted=row["accepted"],
    )
