"""Schedules: add, list and remove them. `runner.py` runs them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from supervisor_core.commands.command import Issuer
from supervisor_core.common import crashpoints
from supervisor_core.common.cron import cron_in_words
from supervisor_core.common.errors import CommandText, MarkedText, RefusedError, UsageError
from supervisor_core.common.text import nearest, random_id
from supervisor_core.common.time_zones import next_after
from supervisor_core.intake.approvals import rows as approvals
from supervisor_core.intake.approvals.rules import FINAL as DECIDED
from supervisor_core.intake.approvals.rules import Approval
from supervisor_core.intake.schedules import rows
from supervisor_core.intake.schedules.rules import RunState, Schedule
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, Job, not_begun
from supervisor_core.storage import outbox
from supervisor_core.storage.store import Ledger

MOST = 100
"""Schedules of one host."""


SECRET_BYTES = 32


class NameTaken(RefusedError):
    """The name of the schedule is taken."""


class NoSuchSchedule(UsageError):
    """There's no schedule of this name."""


class TooManySchedules(RefusedError):
    """There are too many schedules."""


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule, its times and the result of its last run."""

    schedule: Schedule
    words: str
    """The times of its runs in words, else its cron expression."""
    outcome: str = ""
    """The result of the last run; empty before the first."""


class Schedules:
    """The schedules of one host. Thread-safe, and safe for several processes. It blocks."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def add(
        self,
        params: Mapping[str, Any],
        target: str,
        owner: Issuer,
        zone: str,
        task_id: str,
        card: Mapping[str, Any] | None = None,
        now: datetime | None = None,
        place: Mapping[str, Any] | None = None,
    ) -> ScheduleStatus:
        """Add a schedule by the parameters of `schedule add`; durable when this returns. For a known command id, return
        the schedule that it added. `NameTaken`, `TooManySchedules`.

        `target` is the target of the scheduled command. `card` is the place of its results, `place` that of the message
        about the schedule.
        """
        moment = now or datetime.now(UTC)
        first = next_after(params["cron"], zone, moment)
        schedule = Schedule(
            schedule_id=random_id(),
            supervisor_id=self._ledger.supervisor_id,
            name=params["name"],
            cron=params["cron"],
            zone=zone,
            command=params["command"],
            target=target,
            owner=owner,
            card=card,
            task_id=task_id,
            added_at=moment,
            next_at=first,
            due_at=first,
            secret=secrets.token_hex(SECRET_BYTES),
        )
        crashpoints.reach("schedules_t.added:before")
        added = self._ledger.write(partial(_add_once, schedule=schedule, place=place))
        crashpoints.reach("schedules_t.added:after")
        return schedule_status(added)

    def remove(self, name: str, by: Issuer, task_id: str, now: datetime | None = None) -> Schedule:
        """Remove the schedule of this name; for a known task id, return the one that it removed. `NoSuchSchedule`."""
        moment = now or datetime.now(UTC)
        done = self._ledger.read(lambda connection: rows.removed_by(connection, task_id))
        if done is not None:
            return done
        found = self._ledger.read(lambda connection: rows.named(connection, self._ledger.supervisor_id, name))
        if found is None or not self._ledger.step(rows.remove(found, by, task_id, moment), moment):
            raise self._unknown(name)
        return found

    def list(self) -> list[ScheduleStatus]:
        """All schedules with the result of their last runs, the next to run first."""

        def look(connection: Connection) -> list[ScheduleStatus]:
            return [schedule_status(each, _outcome(connection, each)) for each in rows.waiting(connection)]

        return self._ledger.read(look)

    def told_in(self, schedule: Schedule) -> str:
        """The channel of the schedule's message; empty if it has none any more."""
        place = self._ledger.read(lambda connection: outbox.message_place(connection, rows.TOLD, schedule.schedule_id))
        return str((place or {}).get("channel") or "")

    def _unknown(self, name: str) -> NoSuchSchedule:
        names = [each.name for each in self._ledger.read(rows.waiting)]
        found = nearest(name, names)
        hint: MarkedText = (f"Did you mean {found}?",) if found else ("This host has none.",)
        if names and not found:
            hint = (CommandText("schedule list"), " lists them.")
        return NoSuchSchedule(f"There's no schedule {name[:64]!a}.", remedy=hint)


def _add_once(connection: Connection, schedule: Schedule, place: Mapping[str, Any] | None) -> Schedule:
    """Insert the schedule, unless its command already added it; the schedule of that command."""
    known = rows.added_by(connection, schedule.task_id)
    if known is not None:
        return known
    taken = rows.named(connection, schedule.supervisor_id, schedule.name)
    if taken is not None:
        raise NameTaken(
            f"A schedule named {taken.name} already exists. It runs {taken.command} {when(taken)}.",
            remedy=("Use another name, or remove it first: ", CommandText(f"schedule remove {taken.name}")),
        )
    if len(rows.waiting(connection)) >= MOST:
        raise TooManySchedules(
            f"There are already {MOST} schedules.",
            remedy=("Remove one first. ", CommandText("schedule list"), " lists them."),
        )
    rows.add(connection, schedule, place)
    return schedule


def when(schedule: Schedule) -> str:
    """The times of its runs in words, and the time zone."""
    return f"{cron_in_words(schedule.cron)} ({schedule.zone})"


def schedule_status(schedule: Schedule, outcome: str = "") -> ScheduleStatus:
    return ScheduleStatus(schedule, when(schedule), outcome)


def unfinished(connection: Connection, task_id: str) -> bool:
    """True while the command waits for its approval or runs."""
    asked = approvals.of_task(connection, task_id)
    if asked is not None and asked.state not in DECIDED:
        return True
    return any(job.state not in FINAL for job in jobs.of_task(connection, task_id))


def _outcome(connection: Connection, schedule: Schedule) -> str:
    last = schedule.last
    if last is None:
        return ""
    if last.state in (RunState.FILED, RunState.ASKED):
        found = jobs.of_task(connection, schedule.last_task_id)
        asked = approvals.of_task(connection, schedule.last_task_id)
        return _of_jobs(found) if found else _of_approval(asked)
    return f"{last.state}: {last.reason}" if last.reason else str(last.state)


def _of_jobs(found: list[Job]) -> str:
    if any(job.state not in FINAL for job in found):
        return "running"
    failed = [job.worker_id for job in found if not (job.outcome and job.outcome.success) and not not_begun(job)]
    return f"failed on {', '.join(failed)}" if failed else "succeeded"


def _of_approval(asked: Approval | None) -> str:
    if asked is None:
        return "queued"
    return f"approval {asked.state}" + (f": {asked.reason}" if asked.reason else "")
