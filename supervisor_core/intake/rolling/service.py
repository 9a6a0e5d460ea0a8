"""Rolling changes at work: the scheduler's chore releases one batch after the other, and people pause, continue, abort.

The ledger holds all that counts: a crash at any point loses no decision, and none is taken twice.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from sqlalchemy import Connection

from supervisor_core.code.watch.rules import change_of
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import BATCH, CODE_HANDLERS, HEALTHY, MAX_FAILURES
from supervisor_core.common.errors import CommandText, RefusedError, UsageError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.times import clock_time
from supervisor_core.host.logging.log import command_context
from supervisor_core.intake.rolling import rows
from supervisor_core.intake.rolling.rules import (
    MOVES,
    OPEN,
    PATIENCE,
    BatchDecision,
    BatchVerdict,
    RollingChange,
    RollingMove,
    decide,
    unanswered,
)
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, Job, JobState, RollingState, not_begun
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger

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
        found: dict[Part, list[str]] = {part: [] for part in Part}
        for job in self.jobs:
            found[_part(job, self.change)].append(job.worker_id)
        return {part: tuple(workers) for part, workers in found.items() if workers}

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
            found = rows.find(connection, task_id)
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
            if self._ledger.step(rows.moved(change, move, by, door, moment), moment):
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
        lost = self._ledger.read(lambda connection: rows.unresponsive(connection, status.change, at_work))
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
        left = tuple(job.worker_id for job in status.jobs if is_changed(job) and job.worker_id not in gone)
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


def is_changed(job: Job) -> bool:
    """True if this job changed the code of its worker."""
    return job.handler in CODE_HANDLERS and not not_begun(job) and change_of(job) is not None


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
        running = self._ledger.read(rows.running)
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
        decision = decide(change, self._ledger.read(lambda connection: rows.current_batch(connection, change)), now)
        step = rows.decided(change, decision, now)
        if step is not None and self._ledger.step(step, now):
            _log(change, decision)
        return decision


def _batch_of(change: RollingChange) -> tuple[str, int, int]:
    return change.task_id, change.released, change.accepted


def _log(change: RollingChange, decision: BatchDecision) -> None:
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
