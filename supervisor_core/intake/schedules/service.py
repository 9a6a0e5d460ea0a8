"""Schedules: their rows, and adding, listing and removing them. `runner.py` runs them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, func, insert, or_, select, update

from supervisor_core.commands.command import Issuer
from supervisor_core.commands.labels import audit_label
from supervisor_core.common import crashpoints
from supervisor_core.common.cron import cron_in_words
from supervisor_core.common.errors import CommandText, MarkedText, RefusedError, UsageError
from supervisor_core.common.text import canonical_json, nearest, one_line, random_id, storable
from supervisor_core.common.time_zones import next_after
from supervisor_core.common.times import to_text
from supervisor_core.intake.approvals import rows as approvals
from supervisor_core.intake.approvals.rules import FINAL as DECIDED
from supervisor_core.intake.schedules.rules import LastRun, RunState, Schedule, ScheduleState
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, not_begun
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message, Step, record
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import schedules

TOLD = "schedule"
"""The kind of outbox row that tells of a schedule: its card, with the schedule's id as its subject, edited when it is
removed; and one message for refusals that follow on one another, from the first on."""

MOST = 100
"""Schedules of one host."""


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
            secret=secrets.token_hex(32),
        )
        crashpoints.reach("schedules_t.added:before")
        added = self._ledger.write(partial(_add_once, schedule=schedule, place=place))
        crashpoints.reach("schedules_t.added:after")
        return schedule_status(added)

    def remove(self, name: str, by: Issuer, task_id: str, now: datetime | None = None) -> Schedule:
        """Remove the schedule of this name; for a known task id, return the one that it removed. `NoSuchSchedule`."""
        moment = now or datetime.now(UTC)
        if removed := self._ledger.read(partial(_first, where=schedules.c.removed_task_id == task_id)):
            return removed
        schedule = self._ledger.read(partial(_named, supervisor_id=self._ledger.supervisor_id, name=name))
        if schedule is not None and self._ledger.step(_remove(schedule, by, task_id, moment), moment):
            return schedule
        names = [each.name for each in self._ledger.read(waiting)]
        meant = nearest(name, names)
        hint: MarkedText = (f"Did you mean {meant}?",) if meant else ("This host has none.",)
        if names and not meant:
            hint = (CommandText("schedule list"), " lists them.")
        raise NoSuchSchedule(f"There's no schedule {name[:64]!a}.", remedy=hint)

    def list(self) -> list[ScheduleStatus]:
        """All schedules with the result of their last runs, the next to run first."""

        def look(connection: Connection) -> list[ScheduleStatus]:
            return [schedule_status(each, _outcome(connection, each)) for each in waiting(connection)]

        return self._ledger.read(look)

    def told_in(self, schedule: Schedule) -> str:
        """The channel of the schedule's message; empty if it has none any more."""
        place = self._ledger.read(lambda connection: outbox.message_place(connection, TOLD, schedule.schedule_id))
        return str((place or {}).get("channel") or "")


def _add_once(connection: Connection, schedule: Schedule, place: Mapping[str, Any] | None) -> Schedule:
    """Insert the schedule, unless its command already added it; the schedule of that command."""
    known = _first(connection, schedules.c.task_id == schedule.task_id)
    if known is not None:
        return known
    taken = _named(connection, schedule.supervisor_id, schedule.name)
    if taken is not None:
        raise NameTaken(
            f"A schedule named {taken.name} already exists. It runs {taken.command} {when(taken)}.",
            remedy=("Use another name, or remove it first: ", CommandText(f"schedule remove {taken.name}")),
        )
    if len(waiting(connection)) >= MOST:
        raise TooManySchedules(
            f"There are already {MOST} schedules.",
            remedy=("Remove one first. ", CommandText("schedule list"), " lists them."),
        )
    row = {
        "schedule_id": schedule.schedule_id,
        "supervisor_id": schedule.supervisor_id,
        "name": schedule.name,
        "taken_name": schedule.name.lower(),
        "cron": schedule.cron,
        "zone": schedule.zone,
        "command": schedule.command,
        "target": schedule.target,
        "owner_id": schedule.owner.id,
        "owner_name": schedule.owner.name[: jobs.ISSUER_NAME],
        "card_json": canonical_json(schedule.card) if schedule.card is not None else None,
        "task_id": schedule.task_id,
        "secret": schedule.secret,
        "state": schedule.state,
        "added_at": schedule.added_at,
        "next_at": schedule.next_at,
        "due_at": schedule.due_at,
        "refusals": 0,
    }
    connection.execute(insert(schedules), row)
    entry = _entry(schedule, "SCHEDULE_ADDED", schedule.owner, schedule.task_id)
    messages = () if place is None else (Message(TOLD, schedule.schedule_id, place),)
    record(connection, schedule.supervisor_id, entry, messages, schedule.added_at)
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
    if last.state not in (RunState.FILED, RunState.ASKED):
        return f"{last.state}: {last.reason}" if last.reason else str(last.state)
    if filed := jobs.of_task(connection, schedule.last_task_id):
        if any(job.state not in FINAL for job in filed):
            return "running"
        failed = [job.worker_id for job in filed if not (job.outcome and job.outcome.success) and not not_begun(job)]
        return f"failed on {', '.join(failed)}" if failed else "succeeded"
    approval = approvals.of_task(connection, schedule.last_task_id)
    if approval is None:
        return "queued"
    return f"approval {approval.state}" + (f": {approval.reason}" if approval.reason else "")


def _select(connection: Connection, *where: ColumnElement[bool]) -> list[Schedule]:
    """The schedules for which this holds, the next to run first."""
    query = select(schedules).where(*where).order_by(schedules.c.next_at, schedules.c.schedule_id)
    return [_schedule(row) for row in connection.execute(query).mappings()]


def _first(connection: Connection, where: ColumnElement[bool]) -> Schedule | None:
    return next(iter(_select(connection, where)), None)


def _named(connection: Connection, supervisor_id: str, name: str) -> Schedule | None:
    where = (schedules.c.supervisor_id == supervisor_id) & (schedules.c.taken_name == name.lower())
    return _first(connection, where)


def find(connection: Connection, schedule_id: str) -> Schedule | None:
    """The schedule with this id, also if it was removed."""
    return _first(connection, schedules.c.schedule_id == schedule_id)


_WAITING = schedules.c.state == ScheduleState.WAITING


def waiting(connection: Connection) -> list[Schedule]:
    return _select(connection, _WAITING)


def due(connection: Connection, now: datetime) -> list[Schedule]:
    return _select(connection, _WAITING, schedules.c.due_at <= now)


def ahead(connection: Connection, moment: datetime) -> list[Schedule]:
    """The schedules with a time that is later than this moment, because the clock was set back."""
    marks = (schedules.c.added_at, schedules.c.last_at, schedules.c.waiting_since)
    return _select(connection, _WAITING, or_(*(at > moment for at in marks)))


def first_due(connection: Connection) -> datetime | None:
    """The time of the next check of any schedule."""
    moment: datetime | None = connection.execute(select(func.min(schedules.c.due_at)).where(_WAITING)).scalar()
    return moment


def _remove(schedule: Schedule, by: Issuer, task_id: str, now: datetime) -> Step:
    """waiting → removed, which frees the name."""
    values = {
        "taken_name": None,
        "due_at": None,
        "removed_at": now,
        "removed_by": by.id,
        "removed_name": by.name[: jobs.ISSUER_NAME],
        "removed_task_id": task_id,
    }
    entry = _entry(schedule, "SCHEDULE_REMOVED", by, task_id)
    key, messages = {"schedule_id": schedule.schedule_id}, (Message(TOLD, schedule.schedule_id, None),)
    return Step(schedules, key, (ScheduleState.WAITING,), ScheduleState.REMOVED, values, entry, messages)


def correct_next(schedule: Schedule, next_at: datetime, values: Mapping[str, Any] | None = None) -> Step:
    """waiting → waiting, for another next run. The second to take the step changes nothing."""
    values = {"next_at": next_at, "due_at": next_at, "waiting_since": None, "waiting_for": None, **(values or {})}
    key = {"schedule_id": schedule.schedule_id, "next_at": schedule.next_at}
    return Step(schedules, key, (ScheduleState.WAITING,), ScheduleState.WAITING, values)


def move_on(schedule: Schedule, last: LastRun, next_at: datetime, task_id: str = "") -> Step:
    """waiting → waiting after a run; `task_id` is the id of the command that was handed over, if any."""
    values: dict[str, Any] = {"last_at": last.at, "last_state": last.state, "last_reason": _reason(last.reason)}
    if task_id:
        values["last_task_id"] = task_id
    if last.state in (RunState.FILED, RunState.ASKED, RunState.ANSWERED):
        values |= {"refused_since": None, "refusals": 0}
    return correct_next(schedule, next_at, values)


def refuse(schedule: Schedule, at: datetime, reason: str, next_at: datetime, channel: str) -> Step:
    """waiting → waiting after a refused run. Each refusal has an audit row; one message covers refusals in a row."""
    step = move_on(schedule, LastRun(at, RunState.REFUSED, reason), next_at)
    since = schedule.refused_since or at
    note = {
        "name": schedule.name,
        "command": schedule.command,
        "owner": {"id": schedule.owner.id, "name": schedule.owner.name},
        "why": reason,
        "at": to_text(at),
        "since": to_text(since),
        "count": schedule.refusals + 1,
        "next_at": to_text(next_at),
    }
    payload = {"channel": channel, "user": str((schedule.card or {}).get("user") or ""), "note": note}
    messages = [Message(TOLD, f"{schedule.schedule_id} {to_text(since)}", payload)] if channel else []
    entry = _entry(schedule, "REFUSED", schedule.issuer, schedule.task_at(at), error=reason)
    counted = {"refused_since": since, "refusals": schedule.refusals + 1}
    return replace(step, values={**step.values, **counted}, audit=entry, outbox=messages)


def postpone(connection: Connection, schedule: Schedule, until: datetime, since: datetime, reason: str) -> None:
    """Postpone a run that can't be decided now, with the reason and the time since when."""
    where = (schedules.c.schedule_id == schedule.schedule_id, schedules.c.next_at == schedule.next_at, _WAITING)
    values = {"due_at": until, "waiting_since": since, "waiting_for": _reason(reason)}
    connection.execute(update(schedules).where(*where).values(values))


def _entry(schedule: Schedule, action: str, who: Issuer, task_id: str, *, error: str = "") -> AuditEntry:
    return AuditEntry(
        actor=who.id,
        action=action,
        target_type="schedule",
        target_id=schedule.name,
        outcome="failure" if error else "success",
        label=audit_label(who.name, who.id, None),
        task_id=task_id,
        details={
            "schedule": schedule.name,
            "cron": schedule.cron,
            "zone": schedule.zone,
            "command": schedule.command,
            "owner": schedule.owner.id,
            "label": None,
            **({"error": error, "door": "schedule"} if error else {}),
        },
    )


def _reason(text: str) -> str | None:
    return one_line(storable(text), 500) or None


def _schedule(row: RowMapping) -> Schedule:
    last = None
    if row["last_at"] is not None:
        last = LastRun(row["last_at"], RunState(row["last_state"]), row["last_reason"] or "")
    return Schedule(
        schedule_id=row["schedule_id"],
        supervisor_id=row["supervisor_id"],
        name=row["name"],
        cron=row["cron"],
        zone=row["zone"],
        command=row["command"],
        target=row["target"],
        owner=Issuer(row["owner_id"], row["owner_name"]),
        card=json.loads(row["card_json"]) if row["card_json"] is not None else None,
        task_id=row["task_id"],
        added_at=row["added_at"],
        next_at=row["next_at"],
        due_at=row["due_at"] or row["next_at"],
        state=ScheduleState(row["state"]),
        waiting_since=row["waiting_since"],
        waiting_for=row["waiting_for"] or "",
        last=last,
        last_task_id=row["last_task_id"] or "",
        refused_since=row["refused_since"],
        refusals=row["refusals"],
        removed_at=row["removed_at"],
        removed_by=Issuer(row["removed_by"], row["removed_name"] or "") if row["removed_by"] else None,
        secret=row["secret"],
    )
