"""Runs the schedules that are due, as if the owner sent each command at that moment.

The row's move to its next run and the jobs (or the approval, or the answer) are one transaction, so a crash never makes
a run happen twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.targets import resolve
from supervisor_core.commands.words import excerpt
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import RefusedError, SupervisorError, TemporaryError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.time_zones import next_after
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.intake.approvals.rights import Rights, right_to_give
from supervisor_core.intake.approvals.service import Approvals, NothingToDo
from supervisor_core.intake.filing import file_jobs
from supervisor_core.intake.scheduler import SlowWork, looked_at
from supervisor_core.intake.schedules import service as rows
from supervisor_core.intake.schedules.rules import (
    LATE,
    PATIENCE,
    DueRun,
    LastRun,
    RunState,
    Schedule,
    due_run,
)
from supervisor_core.intake.submission import with_batches
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message, record, take
from supervisor_core.storage.store import Ledger

RETRY = timedelta(seconds=5)
"""After it could not be found out whether a run may be."""

SLOWLY = timedelta(minutes=1)
"""After what is not about this run: a zone that this host does not know any more, a mistake of ours."""

MINUTES = PATIENCE / timedelta(minutes=1)
DOOR = "schedule"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScheduledAnswer:
    """The answer of a command that only shows something, stored with the move of its schedule."""

    messages: Sequence[Message] = ()
    entry: AuditEntry | None = None


AnswerCommand = Callable[[Schedule, Command], ScheduledAnswer]
"""Answers a command that only shows something. It blocks, and raises a retryable error if that isn't possible now."""


def no_chat(schedule: Schedule, command: Command) -> ScheduledAnswer:
    """Refuse, because there is no Slack."""
    raise RefusedError(
        f"{command.name} only shows something, and there's no channel to post it in: Slack isn't set up on this host. "
        f"Remove {schedule.name}, or set up Slack."
    )


class SchedulesChore:
    """While nothing is due it costs two looks at a small table."""

    name = "schedules"

    def __init__(
        self,
        ledger: Ledger,
        config: Callable[[], SupervisorConfig],
        approvals: Approvals,
        rights: Rights,
        answering: AnswerCommand = no_chat,
        facts: FactSource | None = None,
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._approvals = approvals
        self._rights = rights
        self._answering = answering
        self._facts = facts
        self._runs: SlowWork[bool] = SlowWork("schedule")

    def due_at(self) -> datetime | None:
        """The time of the next check of any schedule."""
        return looked_at(self._ledger.read(rows.first_due), self._runs)

    def work(self, now: datetime) -> bool:
        """Run what is due; whether commands were filed. One that can't be run keeps no other from it."""
        for schedule in self._ledger.read(lambda connection: rows.ahead(connection, now + LATE)):
            # The clock of this host was ahead, and isn't any more: nobody waits for a time that was counted by it.
            try:
                first = next_after(schedule.cron, schedule.zone, now)
            except SupervisorError as error:
                log.warning("schedule %s: the next run can't be computed: %s", schedule.name, error)
                continue
            if max(schedule.next_at, schedule.due_at) > first:
                at = min(schedule.next_at, first)
                log.warning("schedule %s runs at %s: the clock was ahead before", schedule.name, to_text(at))
                self._ledger.step(rows.correct_next(schedule, at), now)
        due = self._ledger.read(lambda connection: rows.due(connection, now))
        return any(self._runs.run({schedule.schedule_id: partial(self._look, schedule, now) for schedule in due}))

    def _look(self, schedule: Schedule, now: datetime) -> bool:
        try:
            here = due_run(schedule.next_at, now, partial(next_after, schedule.cron, schedule.zone))
            if here.missed_at is not None and schedule.waiting_since is None:
                at = to_text(here.missed_at)
                about = LogEvent.SCHEDULE_MISSED.extra(schedule=schedule.name, missed_at=at)
                log.warning("schedule %s missed %s: no supervisor was running", schedule.name, at, extra=about)
            if here.run_at is None:
                why = f"No supervisor was running from {to_text(schedule.next_at)[:16].replace('T', ' ')} UTC on."
                last = LastRun(here.missed_at or schedule.next_at, RunState.MISSED, why)
            elif schedule.last_task_id and self._ledger.read(
                lambda found: rows.unfinished(found, schedule.last_task_id)
            ):
                words = "schedule %s skips %s: the previous run hasn't finished"
                about = LogEvent.SCHEDULE_SKIPPED.extra(schedule=schedule.name)
                log.warning(words, schedule.name, to_text(here.run_at), extra=about)
                last = LastRun(here.run_at, RunState.SKIPPED, "The previous run hadn't finished.")
            else:
                return self._run(schedule, here, here.run_at, now)
            self._ledger.step(rows.move_on(schedule, last, here.next_at), now)
        except SupervisorError as error:
            self._later(schedule, str(error), now, SLOWLY)
        except Exception as error:  # the edge: one schedule that can't be run keeps no other from it
            log.exception("schedule %s can't be run", schedule.name)
            self._later(schedule, _unexpected(error), now, SLOWLY)
        return False

    def _run(self, schedule: Schedule, here: DueRun, run_at: datetime, now: datetime) -> bool:
        """Hand its command over, unless its owner has lost the right or its target has changed.

        What may pass is tried again for a while, and then refused.
        """
        try:
            command = self._parse(schedule).issued(schedule.issuer, schedule.task_at(run_at))
            if why := self._rights(schedule.owner, command, right_to_give(command)):
                whose = schedule.owner.name or schedule.owner.id
                raise RefusedError(f"{whose}, who owns the schedule, no longer has the right: {why}")
            return self._hand_over(schedule, command, here, run_at, now)
        except SupervisorError as error:
            failure = error
        except Exception as error:
            log.exception("schedule %s can't be run", schedule.name)
            failure = TemporaryError(_unexpected(error))
        waited = schedule.waiting_since is not None and now >= schedule.waiting_since + PATIENCE
        if failure.retryable and not waited:
            self._later(schedule, str(failure), now)
            return False
        late = f"It couldn't run within {MINUTES:g} minutes. " if failure.retryable else ""
        why = f"{late}{failure}"
        about = LogEvent.SCHEDULE_REFUSED.extra(schedule=schedule.name, reason=why)
        log.warning("schedule %s: %s is refused: %s", schedule.name, schedule.command, why, extra=about)
        place = str((schedule.card or self._config().announcement() or {}).get("channel") or "")
        self._ledger.step(rows.refuse(schedule, run_at, why, here.next_at, place), now)
        return False

    def _parse(self, schedule: Schedule) -> Command:
        """The command, for the workers that its target means now."""
        context = grammar_context(self._config(), self._facts)
        if not schedule.target or resolve(schedule.target, context) is not None:
            command = parse(schedule.command, context)
            if command.target == schedule.target:
                return command
        raise RefusedError(
            f"{excerpt(schedule.target or schedule.command)} no longer means what it did when {schedule.name} was "
            f"added, because workers were added or removed. Remove the schedule and add it again."
        )

    def _hand_over(self, schedule: Schedule, command: Command, here: DueRun, run_at: datetime, now: datetime) -> bool:
        config, definition = self._config(), CATALOG[command.name]
        place = schedule.card if schedule.card is not None else config.announcement()
        moved = partial(_move_on, schedule=schedule, run_at=run_at, next_at=here.next_at, now=now)
        if definition.handler is None:
            self._answer(schedule, self._answering(schedule, command), moved, now)
            return False
        if config.needs_approval(command.name, DOOR):
            along = partial(moved, state=RunState.ASKED, task_id=command.task_id)
            try:
                self._approvals.request(command, DOOR, place, now, along)
            except NothingToDo as nothing:
                self._answer(schedule, ScheduledAnswer(), partial(moved, reason=str(nothing)), now)
                return False
            log.info("schedule %s: %s needs an approval", schedule.name, schedule.command)
            return False

        def work(connection: Connection) -> bool:
            if not moved(connection, state=RunState.FILED, task_id=command.task_id):
                return False
            file_jobs(connection, schedule.supervisor_id, with_batches(command, config), DOOR, now, place)
            return True

        crashpoints.reach("schedules_t.filed:before")
        filed = self._ledger.write(work)
        crashpoints.reach("schedules_t.filed:after")
        if filed:
            run, task_id = schedule.command, command.task_id
            about = LogEvent.SCHEDULE_STARTED.extra(schedule=schedule.name, command=run, task_id=task_id)
            log.info("schedule %s: %s runs as %s", schedule.name, run, task_id, extra=about)
        return filed

    def _answer(self, schedule: Schedule, answered: ScheduledAnswer, moved: Callable[..., bool], now: datetime) -> None:
        def work(connection: Connection) -> None:
            if moved(connection, state=RunState.ANSWERED):
                record(connection, schedule.supervisor_id, answered.entry, answered.messages, now)

        crashpoints.reach("schedules_t.answered:before")
        self._ledger.write(work)
        crashpoints.reach("schedules_t.answered:after")

    def _later(self, schedule: Schedule, why: str, now: datetime, wait: timedelta = RETRY) -> None:
        since = schedule.waiting_since or now
        if schedule.waiting_since is None:
            log.warning("schedule %s waits: %s", schedule.name, why)
        self._ledger.write(lambda connection: rows.postpone(connection, schedule, now + wait, since, why))


def _unexpected(error: Exception) -> str:
    return f"Unexpected error: {describe(error)}."


def _move_on(
    connection: Connection,
    *,
    schedule: Schedule,
    run_at: datetime,
    next_at: datetime,
    now: datetime,
    state: RunState,
    reason: str = "",
    task_id: str = "",
) -> bool:
    """Move the row to its next run; False if somebody else was first."""
    step = rows.move_on(schedule, LastRun(run_at, state, reason), next_at, task_id)
    return take(connection, schedule.supervisor_id, step, now)
