"""Rolling changes: their rows, the scheduler's chore that releases one batch after the other, and people's decisions.

The ledger holds all that counts: a crash at any point loses no decision, and none is taken twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select

from supervisor_core.code.watch.rules import change_of
from supervisor_core.commands.addresses import address_of, is_address, name_of
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.commands.definitions import BATCH, CODE_HANDLERS, HEALTHY, MAX_FAILURES
from supervisor_core.common.errors import CommandText, RefusedError, UsageError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import canonical_json, one_line, sentence, storable
from supervisor_core.common.times import clock_time
from supervisor_core.host.logging.log import command_context
from supervisor_core.intake.rolling.rules import (
    MOVES,
    OPEN,
    PATIENCE,
    BatchDecision,
    BatchVerdict,
    BatchWorker,
    RollingChange,
    RollingMove,
    RollingTerms,
    decide,
    unanswered,
)
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, NOT_BEGUN, Job, JobState, RollingState, not_begun
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Step, record, take
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import conditions, rolling_changes
from supervisor_core.storage.tables import jobs as jobs_table
from supervisor_core.workers.conditions import FLAPPING, SUPERVISOR, WORKER, Condition
from supervisor_core.workers.status import brief

US = Issuer("supervisor", "supervisor")

PREFIX = "rolling "
UNDO = "rolling undo"

LISTED = 20  # failed workers in a text


class Part(StrEnum):
    DONE = "done"
    FAILED = "failed"
    WATCHED = "watched"
    """Its job is done, and its batch must be healthy for a while."""
    AT_WORK = "at work"
    WAITING = "waiting"
    NOT_STARTED = "not started"


log = logging.getLogger(__name__)


class NoSuchChange(UsageError):
    """There's no such rolling change."""


class MoveRefused(RefusedError):
    """The rolling change isn't in a state for this."""


@dataclass(frozen=True, slots=True)
class RollingStatus:
    change: RollingChange
    jobs: tuple[Job, ...]

    def parts(self) -> dict[Part, tuple[str, ...]]:
        """The workers by their progress; parts without a worker are left out."""
        parts = [(_part(job, self.change), job.worker_id) for job in self.jobs]
        workers = {part: tuple(worker_id for each, worker_id in parts if each is part) for part in Part}
        return {part: worker_ids for part, worker_ids in workers.items() if worker_ids}

    def lines(self, now: datetime | None = None) -> list[str]:
        change, moment = self.change, now or datetime.now(UTC)
        counts = [f"{len(workers):,} {part}" for part, workers in self.parts().items()]
        lines = [f"{change.state.capitalize()}: batch {change.released} of {change.batches}. {', '.join(counts)}."]
        if hosts := unanswered(change, self.jobs, moment):
            since = clock_time(change.released_at, moment)
            lines.append(f"No answer from {', '.join(hosts[:LISTED])} since {since}. Abort it, or wait.")
        return lines + [f"- {worker_id}: {why}" for worker_id, why in list(change.failures.items())[:LISTED]]


class RollingChanges:
    """The rolling changes of one host, or of a hub's fleet. Thread-safe, and safe for several processes. It blocks."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def status(self, task_id: str) -> RollingStatus:
        """The rolling change with this command id, and its jobs; `NoSuchChange`."""

        def look(connection: Connection) -> RollingStatus | None:
            found = find(connection, task_id)
            return RollingStatus(found, tuple(jobs.of_task(connection, task_id))) if found else None

        status = self._ledger.read(look)
        if status is None:
            raise NoSuchChange(
                f"There's no rolling change {task_id[:128]!a}.",
                remedy="A command becomes one with --batch, and its message ends with the command id.",
            )
        return status

    def move(
        self, task_id: str, move: RollingMove, by: Issuer, door: str, now: datetime | None = None, *, shown: str = ""
    ) -> RollingChange:
        """Pause, continue or abort a rolling change; durable when this returns. `MoveRefused` if its state forbids it.
        Repeated, it changes nothing. `shown` is the mark of the state that the person saw: only that is continued, so
        that nobody accepts failures unseen."""
        moment = now or datetime.now(UTC)
        origins, to = MOVES[move]
        while True:
            change = self.status(task_id).change
            if change.state is to:
                return change
            if change.state not in origins:
                raise MoveRefused(f"The rolling change is already {change.state}. Nothing was changed.")
            if move is RollingMove.CONTINUE and shown and shown != change.mark:
                raise MoveRefused("It has gone on and stopped again since. Look at its message, then decide.")
            if self._ledger.step(_moved(change, move, by, door, moment), moment):
                who = by.name or by.id
                with command_context(task_id, None):
                    about = LogEvent.ROLLING_DECIDED.extra(state=str(to), requested_by=who)
                    log.info("rolling change %s is %s, by %s", task_id, to, who, extra=about)
                return self.status(task_id).change

    def undo_command(self, task_id: str) -> Command:
        """The command that undoes a rolling change on the workers that it has changed; `MoveRefused` without any.

        A host that is unresponsive doesn't keep the others from being undone. It takes one worker first and then all
        others, and no failure stops it: a rollback is urgent.
        """
        status = self.status(task_id)
        at_work = [job.worker_id for job in status.jobs if job.state in (JobState.CLAIMED, JobState.STARTED)]
        lost = self._ledger.read(lambda connection: _unresponsive(connection, status.change, at_work))
        if set(at_work) - lost:
            raise MoveRefused(
                "The rolling change is still at work on a worker.", remedy="Try again once that has ended."
            )
        if status.change.state in (RollingState.RUNNING, RollingState.PAUSED):
            raise MoveRefused(
                f"The rolling change is still {status.change.state}.",
                remedy=("Abort it first: ", CommandText(f"rolling abort {task_id}")),
            )
        undone = self._ledger.read(lambda connection: jobs.undoing(connection, task_id, len(status.jobs) * 2))
        gone = {job.worker_id for job in undone if job.state not in FINAL or (job.outcome and job.outcome.success)}
        changed = [job for job in status.jobs if job.handler in CODE_HANDLERS and not not_begun(job) and change_of(job)]
        left = tuple(job.worker_id for job in changed if job.worker_id not in gone)
        if not left:
            raise MoveRefused("There's nothing to undo: no worker runs with the change.")
        hurry = {BATCH.name: "100%", HEALTHY.name: 0, MAX_FAILURES.name: len(left)} if len(left) > 1 else {}
        return Command("undo", ",".join(left), left, {"task_id": task_id, **hurry})


def _part(job: Job, change: RollingChange) -> Part:
    if job.state not in FINAL:
        return Part.WAITING if job.state is JobState.QUEUED else Part.AT_WORK
    if not_begun(job):
        return Part.NOT_STARTED
    if job.worker_id in change.failures or job.outcome is None or not job.outcome.success:
        return Part.FAILED
    watched = change.state in OPEN and job.batch == change.released
    return Part.WATCHED if watched else Part.DONE


class RollingChore:
    """A chore of the scheduler: decides about the current batch of each running change. The next time to look is kept
    in memory alone; after a restart the first round looks at all."""

    name = "rolling"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._due_at: datetime | None = None
        self._named: set[tuple[str, int, int]] = set()
        """The batches whose card names the hosts that don't answer."""

    def due_at(self) -> datetime | None:
        """When a worker may have been healthy for long enough."""
        return self._due_at

    def work(self, now: datetime) -> bool:
        """Decide about all running changes; True if a batch was released, so that its jobs start."""
        released, due = False, list[datetime]()
        running = self._ledger.read(_running)
        self._named &= set(map(_batch_of, running))
        for change in running:
            decision = self._decide(change, now)
            if decision.verdict is BatchVerdict.WAIT:
                due += [each for each in (decision.due_at, self._name_hosts(change, now)) if each]
            released |= decision.verdict is BatchVerdict.RELEASE
        self._due_at = min(due, default=None)
        return released

    def _name_hosts(self, change: RollingChange, now: datetime) -> datetime | None:
        """Have the card name the hosts that don't answer, once for a batch; when to look, if it's too early."""
        if _batch_of(change) in self._named:
            return None
        if now < change.released_at + PATIENCE:
            return change.released_at + PATIENCE
        self._named.add(_batch_of(change))
        found = self._ledger.read(lambda connection: jobs.of_task(connection, change.task_id))
        if unanswered(change, found, now):
            card = (jobs.refresh_card(change.task_id),)
            self._ledger.write(lambda connection: record(connection, change.supervisor_id, None, card, now))
        return None

    def _decide(self, change: RollingChange, now: datetime) -> BatchDecision:
        decision = decide(change, self._ledger.read(lambda connection: _current_batch(connection, change)), now)
        step = _decided(change, decision, now)
        if step is None or not self._ledger.step(step, now):
            return decision
        with command_context(change.task_id, None):
            if decision.verdict is BatchVerdict.RELEASE:
                batch = change.released + 1
                about = LogEvent.ROLLING_RELEASED.extra(batch=batch)
                log.info("batch %d of %d of %s may start", batch, change.batches, change.task_id, extra=about)
            elif decision.verdict is BatchVerdict.HALT:
                about = LogEvent.ROLLING_HALTED.extra(reason=decision.reason)
                log.warning("rolling change %s halted: %s", change.task_id, decision.reason, extra=about)
            else:
                log.info("rolling change %s is done", change.task_id, extra=LogEvent.ROLLING_DONE.extra())
        return decision


def _batch_of(change: RollingChange) -> tuple[str, int, int]:
    return change.task_id, change.released, change.accepted


REASON = 200  # characters of a worker's failure


def file(connection: Connection, supervisor_id: str, command: Command, terms: RollingTerms, now: datetime) -> None:
    """Begin a rolling change, in the transaction that files its jobs. Its first batch may start."""
    issuer = command.issuer or US
    row: dict[Any, Any] = {
        "task_id": command.task_id,
        "supervisor_id": supervisor_id,
        "target": command.target,
        "state": RollingState.RUNNING,
        "batches": len(command.batches),
        "released": 1,
        "released_at": now,
        "healthy_seconds": int(terms.healthy.total_seconds()),
        "max_failures": terms.max_failures,
        "failures_json": "{}",
        "accepted": 0,
        "requested_at": now,
        "decided_at": now,
        "decided_by": issuer.id,
        "decided_name": issuer.name[: jobs.ISSUER_NAME],
        "reason": None,
    }
    connection.execute(insert(rolling_changes), row)
    facts = {"batches": [len(each) for each in command.batches], "first": list(command.batches[0])}
    entry = _entry(_change(row), "ROLLING_STARTED", issuer, facts)
    record(connection, supervisor_id, entry, (), now)


def find(connection: Connection, task_id: str) -> RollingChange | None:
    row = connection.execute(select(rolling_changes).where(rolling_changes.c.task_id == task_id)).mappings().first()
    return _change(row) if row else None


def _running(connection: Connection) -> list[RollingChange]:
    """The changes that go on, oldest first. One index lookup where there are none."""
    query = select(rolling_changes).where(rolling_changes.c.state == RollingState.RUNNING)
    found = connection.execute(query.order_by(rolling_changes.c.requested_at, rolling_changes.c.task_id)).mappings()
    return [_change(row) for row in found]


def _current_batch(connection: Connection, change: RollingChange) -> list[BatchWorker]:
    mine = (jobs_table.c.task_id == change.task_id, jobs_table.c.batch == change.released)
    found = connection.execute(select(jobs_table).where(*mine).order_by(jobs_table.c.job_id)).mappings()
    some = [jobs.of_row(row) for row in found]
    seen = _conditions(connection, change.supervisor_id, [job.worker_id for job in some])
    return [_worker(job, seen) for job in some]


def _decided(change: RollingChange, decision: BatchDecision, now: datetime) -> Step | None:
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
    entry = _entry(change, action, US, facts, outcome)
    return _step(change, (RollingState.RUNNING,), to, values, entry, US, now)


def _moved(change: RollingChange, move: RollingMove, by: Issuer, door: str, now: datetime) -> Step:
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
    waiting = connection.execute(select(jobs_table).where(*mine).order_by(jobs_table.c.job_id)).mappings().all()
    words = f"Not started: {by.name or by.id} aborted the rolling change. Nothing was done."
    outcome = Outcome.failed(words, **{NOT_BEGUN: True})
    steps = [jobs.refuse(jobs.of_row(row), outcome, now) for row in waiting]
    for step in steps[:-1]:
        take(connection, supervisor_id, replace(step, follow=None), now)
    for step in steps[-1:]:  # what follows from the end of a command follows once
        take(connection, supervisor_id, step, now)


_ACTIONS = {
    RollingMove.PAUSE: "ROLLING_PAUSED",
    RollingMove.CONTINUE: "ROLLING_CONTINUED",
    RollingMove.ABORT: "ROLLING_ABORTED",
}
_VERDICTS = {
    BatchVerdict.RELEASE: (RollingState.RUNNING, "ROLLING_BATCH"),
    BatchVerdict.HALT: (RollingState.HALTED, "ROLLING_HALTED"),
    BatchVerdict.FINISH: (RollingState.DONE, "ROLLING_DONE"),
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
        target_id=one_line(storable(change.target), 64),
        outcome=outcome,
        task_id=change.task_id,
        details={"of": change.batches, **facts},
    )


class _Observed(NamedTuple):
    fine: bool
    since: datetime
    words: str


def _conditions(connection: Connection, supervisor_id: str, workers: Sequence[str]) -> dict[tuple[str, str], _Observed]:
    """The newest conditions of these workers and of their hosts, by kind and id."""
    c = conditions.c
    targets = {*workers, *(host for each in workers if (host := _host_of(each)))}
    query = select(c.target_type, c.target_id, c.condition, c.reason, c.since)
    kinds = c.target_type.in_((WORKER, FLAPPING, SUPERVISOR))
    observed = {}
    for row in connection.execute(query.where(c.supervisor_id == supervisor_id, kinds, c.target_id.in_(targets))):
        condition = Condition(row.condition)
        words = f"{condition.word} ({row.reason})" if row.reason else condition.word
        observed[(row.target_type, row.target_id)] = _Observed(condition.fine, row.since, words)
    return observed


def _unresponsive(connection: Connection, change: RollingChange, workers: Sequence[str]) -> set[str]:
    observed = _conditions(connection, change.supervisor_id, workers)
    hosts = {each: observed.get((SUPERVISOR, _host_of(each))) for each in workers}
    return {each for each, host in hosts.items() if host is not None and not host.fine}


def _host_of(worker_id: str) -> str:
    """The host of a worker of another host; empty for a worker of this one."""
    return address_of(worker_id).host if is_address(worker_id) else ""


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
    groups = (outcome.details.get(name) for name in ("failed", "workers"))
    own, turn = (group.get(worker_id) if isinstance(group, Mapping) else None for group in groups)
    error = str(own or outcome.error or "failed")
    first, *output = [line.strip() for line in error.splitlines() if line.strip()] or ["failed"]
    words = brief(first).removeprefix(f"{name_of(worker_id)} ") + (f": {output[-1]}" if output else "")
    if own and isinstance(turn, Mapping):
        now = "It runs the previous version again." if turn.get("new_pid") else "It's down."
        return f"{sentence(one_line(storable(words), REASON - len(now) - 2))} {now}"
    return one_line(storable(words), REASON)


def _change(row: Mapping[Any, Any]) -> RollingChange:
    return RollingChange(
        task_id=row["task_id"],
        supervisor_id=row["supervisor_id"],
        target=row["target"],
        state=RollingState(row["state"]),
        batches=row["batches"],
        released=row["released"],
        released_at=row["released_at"],
        terms=RollingTerms(healthy=timedelta(seconds=row["healthy_seconds"]), max_failures=row["max_failures"]),
        decided_at=row["decided_at"],
        decided_by=Issuer(row["decided_by"], row["decided_name"]),
        reason=row["reason"] or "",
        failures=json.loads(row["failures_json"]),
        accepted=row["accepted"],
    )
