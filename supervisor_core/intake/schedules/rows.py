"""The rows of schedules: added once for each command, moved by steps, removed by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, func, insert, or_, select, update

from supervisor_core.commands.command import Issuer
from supervisor_core.commands.labels import audit_label
from supervisor_core.common.text import canonical_json, one_line, storable
from supervisor_core.common.times import to_text
from supervisor_core.intake.schedules.rules import LastRun, RunState, Schedule, ScheduleState
from supervisor_core.jobs.rows import ISSUER_NAME
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message, Step, record
from supervisor_core.storage.tables import schedules

TOLD = "schedule"
"""The kind of outbox row that tells of a schedule: its card, with the schedule's id as its subject, edited when it is
removed; and one message for refusals that follow on one another, from the first on."""

ADDED, REMOVED, REFUSED = "SCHEDULE_ADDED", "SCHEDULE_REMOVED", "REFUSED"

REASON = 500
"""Characters of the result of a run."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    last: LastRun
    next_at: datetime
    task_id: str = ""
    """The id of the command that was handed over, if any."""


def add(connection: Connection, schedule: Schedule, place: Mapping[str, Any] | None) -> None:
    """Insert a schedule with its audit row and its message. Its name must be free."""
    row = {
        "schedule_id": schedule.schedule_id,
        "supervisor_id": schedule.supervisor_id,
        "name": schedule.name,
        "taken_name": _key(schedule.name),
        "cron": schedule.cron,
        "zone": schedule.zone,
        "command": schedule.command,
        "target": schedule.target,
        "owner_id": schedule.owner.id,
        "owner_name": schedule.owner.name[:ISSUER_NAME],
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
    entry = _entry(schedule, ADDED, schedule.owner, schedule.task_id)
    messages = () if place is None else (Message(TOLD, schedule.schedule_id, place),)
    record(connection, schedule.supervisor_id, entry, messages, schedule.added_at)


def waiting(connection: Connection) -> list[Schedule]:
    """All schedules, the next to run first."""
    query = select(schedules).where(schedules.c.state == ScheduleState.WAITING)
    query = query.order_by(schedules.c.next_at, schedules.c.schedule_id)
    return [_schedule(row) for row in connection.execute(query).mappings()]


def due(connection: Connection, now: datetime) -> list[Schedule]:
    """The schedules that are due, the earliest first."""
    query = select(schedules).where(schedules.c.state == ScheduleState.WAITING, schedules.c.due_at <= now)
    query = query.order_by(schedules.c.due_at, schedules.c.schedule_id)
    return [_schedule(row) for row in connection.execute(query).mappings()]


def ahead(connection: Connection, moment: datetime) -> list[Schedule]:
    """The schedules with a time that is later than this moment, because the clock was set back."""
    marks = (schedules.c.added_at, schedules.c.last_at, schedules.c.waiting_since)
    query = select(schedules).where(schedules.c.state == ScheduleState.WAITING, or_(*(at > moment for at in marks)))
    return [_schedule(row) for row in connection.execute(query).mappings()]


def first_due(connection: Connection) -> datetime | None:
    """The time of the next check of any schedule."""
    query = select(func.min(schedules.c.due_at)).where(schedules.c.state == ScheduleState.WAITING)
    moment: datetime | None = connection.execute(query).scalar()
    return moment


def find(connection: Connection, schedule_id: str) -> Schedule | None:
    """The schedule with this id, also if it was removed."""
    row = connection.execute(select(schedules).where(schedules.c.schedule_id == schedule_id)).mappings().first()
    return _schedule(row) if row else None


def named(connection: Connection, supervisor_id: str, name: str) -> Schedule | None:
    """The schedule with this name, in any case."""
    mine = (schedules.c.supervisor_id == supervisor_id, schedules.c.taken_name == _key(name))
    row = connection.execute(select(schedules).where(*mine)).mappings().first()
    return _schedule(row) if row else None


def added_by(connection: Connection, task_id: str) -> Schedule | None:
    """The schedule that a command added, also if it was removed."""
    row = connection.execute(select(schedules).where(schedules.c.task_id == task_id)).mappings().first()
    return _schedule(row) if row else None


def removed_by(connection: Connection, task_id: str) -> Schedule | None:
    """The schedule that a command removed."""
    row = connection.execute(select(schedules).where(schedules.c.removed_task_id == task_id)).mappings().first()
    return _schedule(row) if row else None


def remove(schedule: Schedule, by: Issuer, task_id: str, now: datetime) -> Step:
    """waiting → removed, which frees the name."""
    values = {
        "taken_name": None,
        "due_at": None,
        "removed_at": now,
        "removed_by": by.id,
        "removed_name": by.name[:ISSUER_NAME],
        "removed_task_id": task_id,
    }
    entry = _entry(schedule, REMOVED, by, task_id)
    key = {"schedule_id": schedule.schedule_id}
    return Step(
        schedules,
        key,
        (ScheduleState.WAITING,),
        ScheduleState.REMOVED,
        values,
        entry,
        (Message(TOLD, schedule.schedule_id, None),),
    )


def move_on(schedule: Schedule, taken: RunRecord, messages: Sequence[Message] = ()) -> Step:
    """waiting → waiting, for the next run. The second to take the step changes nothing."""
    values: dict[str, Any] = {
        "next_at": taken.next_at,
        "due_at": taken.next_at,
        "waiting_since": None,
        "waiting_for": None,
        "last_at": taken.last.at,
        "last_state": taken.last.state,
        "last_reason": _reason(taken.last.reason),
    }
    if taken.task_id:
        values["last_task_id"] = taken.task_id
    if taken.last.state in (RunState.FILED, RunState.ASKED, RunState.ANSWERED):
        values |= {"refused_since": None, "refusals": 0}
    key = {"schedule_id": schedule.schedule_id, "next_at": schedule.next_at}
    return Step(schedules, key, (ScheduleState.WAITING,), ScheduleState.WAITING, values, outbox=messages)


def correct_next(schedule: Schedule, next_at: datetime) -> Step:
    """waiting → waiting, for a recomputed next run."""
    values = {"next_at": next_at, "due_at": next_at, "waiting_since": None, "waiting_for": None}
    key = {"schedule_id": schedule.schedule_id, "next_at": schedule.next_at}
    return Step(schedules, key, (ScheduleState.WAITING,), ScheduleState.WAITING, values)


def refuse(schedule: Schedule, taken: RunRecord, place: str) -> Step:
    """waiting → waiting after a refused run. Each refusal has an audit row; one message at `place` covers refusals in a
    row."""
    at, why = taken.last.at, taken.last.reason
    step = move_on(schedule, taken, _messages(schedule, taken, place) if place else ())
    counted = {"refused_since": schedule.refused_since or at, "refusals": schedule.refusals + 1}
    entry = _entry(schedule, REFUSED, schedule.issuer, schedule.task_at(at), error=why)
    return Step(step.table, step.key, step.expected, step.to, {**step.values, **counted}, entry, step.outbox)


def postpone(connection: Connection, schedule: Schedule, until: datetime, since: datetime, reason: str) -> None:
    """Postpone a run that can't be decided now, with the reason and the time since when."""
    mine = (schedules.c.schedule_id == schedule.schedule_id) & (schedules.c.next_at == schedule.next_at)
    mine &= schedules.c.state == ScheduleState.WAITING
    values = {"due_at": until, "waiting_since": since, "waiting_for": _reason(reason)}
    connection.execute(update(schedules).where(mine).values(values))


def _messages(schedule: Schedule, taken: RunRecord, place: str) -> tuple[Message, ...]:
    since = schedule.refused_since or taken.last.at
    note = {
        "name": schedule.name,
        "command": schedule.command,
        "owner": {"id": schedule.owner.id, "name": schedule.owner.name},
        "why": taken.last.reason,
        "at": to_text(taken.last.at),
        "since": to_text(since),
        "count": schedule.refusals + 1,
        "next_at": to_text(taken.next_at),
    }
    user = str((schedule.card or {}).get("user") or "")
    payload = {"channel": place, "user": user, "note": note}
    return (Message(TOLD, f"{schedule.schedule_id} {to_text(since)}", payload),)


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


def _key(name: str) -> str:
    return name.lower()


def _reason(text: str) -> str | None:
    return one_line(storable(text), REASON) or None


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
