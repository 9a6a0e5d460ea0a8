"""Alerts as rows: opened with the flip that begins them, moved by steps, posted by the outbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from supervisor_core.alerts import flips
from supervisor_core.alerts.flips import REASON, ConditionChange, CurrentCondition
from supervisor_core.alerts.rules import LIVE, Alert, AlertState, Decision, Reason
from supervisor_core.commands.command import Issuer
from supervisor_core.common.text import canonical_json, flatten, one_line, random_id, storable
from supervisor_core.jobs.rows import ISSUER_NAME
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.outbox import reply_place
from supervisor_core.storage.steps import Message, Step, record
from supervisor_core.storage.tables import alerts
from supervisor_core.storage.tables import flips as flips_t
from supervisor_core.workers.conditions import WORKER, Condition, Severity, Target

ALERT = "alert"
"""The kind of outbox row that is the one message of an alert; its subject is the alert's id."""

REPLY = "alert_reply"
"""A reply in the thread of an alert: it is worse, is back, or still holds."""

LINE = "alert_line"
"""A worker that crashed and was restarted automatically: one line for each worker and day, edited."""

MOST = 10_000
"""Alerts of one answer."""

Place = Mapping[str, Any]
Follow = Callable[[Connection, str, datetime], object]


def find(connection: Connection, alert_id: str) -> Alert | None:
    row = connection.execute(select(alerts).where(alerts.c.alert_id == alert_id)).mappings().first()
    return from_row(row) if row else None


def live_of(connection: Connection, supervisor_id: str, target: Target) -> Alert | None:
    """Find the open alert of this target; there is at most one."""
    mine = (alerts.c.target_type == target.kind, alerts.c.target_id == target.id, alerts.c.state.in_(LIVE))
    query = select(alerts).where(*mine, alerts.c.supervisor_id == supervisor_id)
    row = connection.execute(query).mappings().first()
    return from_row(row) if row else None


def live_of_all(connection: Connection, supervisor_id: str, targets: Collection[Target]) -> dict[Target, Alert]:
    found: dict[Target, Alert] = {}
    for kind in {target.kind for target in targets}:
        ids = [target.id for target in targets if target.kind == kind]
        mine = (alerts.c.target_type == kind, alerts.c.target_id.in_(ids), alerts.c.state.in_(LIVE))
        query = select(alerts).where(*mine, alerts.c.supervisor_id == supervisor_id)
        found |= {alert.target: alert for alert in map(from_row, connection.execute(query).mappings())}
    return found


def in_states(connection: Connection, states: Collection[AlertState], supervisor_id: str | None = None) -> list[Alert]:
    """Those that stand so: the critical ones first, then the oldest."""
    query = select(alerts).where(alerts.c.state.in_(tuple(states)))
    if supervisor_id is not None:
        query = query.where(alerts.c.supervisor_id == supervisor_id)
    query = query.order_by(alerts.c.severity, alerts.c.opened_at, alerts.c.alert_id)
    return [from_row(row) for row in connection.execute(query).mappings()]


def due(connection: Connection, supervisor_id: str, now: datetime, limit: int) -> list[Alert]:
    """Those about which something must be decided by now, the one that waits longest first."""
    query = select(alerts).where(alerts.c.state.in_(LIVE), alerts.c.due_at <= now)
    query = query.where(alerts.c.supervisor_id == supervisor_id).order_by(alerts.c.due_at).limit(limit)
    return [from_row(row) for row in connection.execute(query).mappings()]


def first_due(connection: Connection, supervisor_id: str) -> datetime | None:
    """The time at which the first of them must be decided about."""
    query = select(func.min(alerts.c.due_at)).where(alerts.c.state.in_(LIVE), alerts.c.due_at.is_not(None))
    moment: datetime | None = connection.execute(query.where(alerts.c.supervisor_id == supervisor_id)).scalar()
    return moment


def poke(connection: Connection, targets: Collection[Target], now: datetime) -> None:
    """Mark these alerts for a new decision: something besides their condition changed."""
    for target in targets:
        mine = (alerts.c.target_type == target.kind, alerts.c.target_id == target.id, alerts.c.state.in_(LIVE))
        connection.execute(update(alerts).where(*mine).values(due_at=now))


def poke_all(connection: Connection, supervisor_id: str, now: datetime) -> None:
    """Mark all open alerts for a new decision."""
    mine = (alerts.c.state.in_(LIVE), alerts.c.supervisor_id == supervisor_id)
    connection.execute(update(alerts).where(*mine).values(due_at=now))


def unfold(connection: Connection, alert_id: str, now: datetime) -> None:
    """Mark the members of a closed alert for a new decision."""
    mine = (alerts.c.parent_id == alert_id, alerts.c.state.in_(LIVE))
    connection.execute(update(alerts).where(*mine).values(parent_id=None, due_at=now))


def begin(connection: Connection, begun: Sequence[Alert]) -> None:
    """Keep new ones."""
    if begun:
        connection.execute(insert(alerts), [{**_values(alert), "alert_id": alert.alert_id} for alert in begun])


def move(before: Alert, after: Alert, messages: Sequence[Message]) -> Step:
    """From how it was seen to stand, to what was observed and decided since."""
    return Step(alerts, {"alert_id": before.alert_id}, (before.state,), after.state, _values(after), outbox=messages)


def messages_of(
    before: Alert | None, after: Alert, reason: Reason, place: Place | None, now: datetime, *, broadcast: bool = False
) -> list[Message]:
    """Return the messages of a decision. `before` is None for a new alert; `place` is the channel of its first message.

    An alert that notifies people has its own message, even if a digest covered it before.
    """
    if before is None or reason is Reason.FIRST:
        told = [Message(ALERT, after.alert_id, place)] if reason is Reason.FIRST and place is not None else []
    else:
        other = _shown_of(before) != _shown_of(after)
        calls = reason.replies or reason is Reason.ESCALATED
        told = [Message(ALERT, after.alert_id, place if calls else None)] if reason.tells or other else []
    if reason.replies and place is not None:
        told.append(_reply(after, reason, now, broadcast=broadcast))
    return told


def _shown_of(alert: Alert) -> tuple[object, ...]:
    return alert.state, alert.reason, alert.parent_id


def acknowledge_step(alert: Alert, by: Issuer, entry: AuditEntry, now: datetime, follow: Follow | None = None) -> Step:
    """The step to acknowledged; `follow` acknowledges the members."""
    values = {
        "acknowledged_by": by.id,
        "acknowledged_name": by.name[:ISSUER_NAME],
        "acknowledged_at": now,
        "decided": Reason.ACKNOWLEDGED,
        "due_at": now,
    }
    key = {"alert_id": alert.alert_id}
    messages = (refresh_message(alert.alert_id),)
    return Step(alerts, key, (alert.state,), AlertState.ACKNOWLEDGED, values, entry, messages, follow=follow)


def snooze_step(alert: Alert, until: datetime, entry: AuditEntry, follow: Follow) -> Step:
    """The step to snoozed; `follow` stores the suppression."""
    values = {"decided": Reason.SNOOZED, "due_at": until, "quieted": Reason.SNOOZED}
    messages = (refresh_message(alert.alert_id),)
    key = {"alert_id": alert.alert_id}
    return Step(alerts, key, (alert.state,), AlertState.SNOOZED, values, entry, messages, follow=follow)


def write_evidence(
    connection: Connection, supervisor_id: str, alert_id: str, lines: Sequence[str], now: datetime
) -> None:
    values = {"evidence_json": canonical_json({"lines": list(lines)})}
    connection.execute(update(alerts).where(alerts.c.alert_id == alert_id).values(values))
    record(connection, supervisor_id, None, (refresh_message(alert_id),), now)


def recovery_messages(alert: Alert, place: Place | None, now: datetime) -> tuple[Message, ...]:
    """It recovered on its own: a line without a notification, if a worker was down."""
    brought_back = alert.held_why is Reason.WAITING_FOR_RESTART and alert.condition is Condition.DOWN
    if place is None or not brought_back or alert.target.kind != WORKER:
        return ()
    about = {"worker_id": alert.target.id, "day": f"{now:%Y-%m-%d}", "alert_id": alert.alert_id}
    return (Message(LINE, f"{alert.target.id}/{now:%Y-%m-%d}", {**place, **about}),)


def record_past_alert(
    connection: Connection,
    supervisor_id: str,
    target: Target,
    condition: Condition,
    words: str,
    since: datetime,
    until: datetime,
) -> None:
    """Record a problem that had ended before it was noticed: its flips and a closed alert. A repeat changes nothing."""
    before = flips.current_condition(connection, supervisor_id, target)
    if before is not None and before.since >= until:
        return
    begun, *_ = flips.record_flips(
        connection, supervisor_id, [ConditionChange(target, before, condition, words, since)], until
    )
    if begun is None:  # pragma: no cover (just read)
        return
    there = CurrentCondition(target, condition, begun.reason, begun.at, begun.flip_id)
    ended, *_ = flips.record_flips(
        connection, supervisor_id, [ConditionChange(target, there, Condition.WELL, "", until)], until
    )
    alert = Alert(
        random_id(),
        target,
        condition,
        words,
        opened_at=begun.at,
        opened_flip=begun.flip_id,
        state=AlertState.CLOSED,
        severity=condition.severity,
        cleared_at=until,
        closed_at=until,
        closed_flip=ended.flip_id if ended else None,
        told=condition,
        told_occurrence=1,
        told_at=until,
        decided=Reason.RESOLVED,
        supervisor_id=supervisor_id,
    )
    begin(connection, [alert])


def count_healed(connection: Connection, target: Target, since: datetime, until: datetime) -> int:
    """The number of this target's alerts in this time that ended with a running worker before anybody was called."""
    mine = (alerts.c.target_type == target.kind, alerts.c.target_id == target.id, alerts.c.decided == Reason.HEALED)
    closing = (flips_t.c.supervisor_id == alerts.c.supervisor_id) & (flips_t.c.flip_id == alerts.c.closed_flip)
    query = (
        select(func.count()).select_from(alerts.join(flips_t, closing)).where(*mine, flips_t.c.new == Condition.WELL)
    )
    return connection.execute(query.where(alerts.c.closed_at >= since, alerts.c.closed_at < until)).scalar_one()


def begun_within(connection: Connection, supervisor_id: str, since: datetime, until: datetime) -> list[Alert]:
    """Return the alerts that began between these moments and were posted, oldest first."""
    mine = (alerts.c.supervisor_id == supervisor_id, alerts.c.opened_at >= since, alerts.c.opened_at < until)
    told = alerts.c.told.is_not(None) | (alerts.c.quieted == Reason.QUIET_HOURS)
    query = select(alerts).where(*mine, told).order_by(alerts.c.opened_at, alerts.c.alert_id).limit(MOST)
    return [from_row(row) for row in connection.execute(query).mappings()]


def recovered_since(connection: Connection, supervisor_id: str, since: datetime, most: int) -> list[Alert]:
    """The alerts that closed since then and were part of no other, newest first."""
    mine = (alerts.c.supervisor_id == supervisor_id, alerts.c.parent_id.is_(None), alerts.c.state == AlertState.CLOSED)
    query = select(alerts).where(*mine, alerts.c.closed_at >= since)
    found = connection.execute(query.order_by(alerts.c.closed_at.desc(), alerts.c.alert_id).limit(most)).mappings()
    return [from_row(row) for row in found]


def kept_for(connection: Connection, supervisor_id: str, since: datetime, now: datetime) -> list[Alert]:
    """Return the alerts that quiet hours suppressed since then, open and closed."""
    mine = (alerts.c.supervisor_id == supervisor_id, alerts.c.quieted == Reason.QUIET_HOURS, alerts.c.told.is_(None))
    went = (alerts.c.state == AlertState.CLOSED) & (alerts.c.closed_at >= since) & (alerts.c.closed_at <= now)
    query = select(alerts).where(*mine, alerts.c.state.in_(LIVE) | went).order_by(alerts.c.opened_at, alerts.c.alert_id)
    return [from_row(row) for row in connection.execute(query).mappings()]


def refresh_message(alert_id: str) -> Message:
    """Its message as it is now, where it was ordered before."""
    return Message(ALERT, alert_id, None)


def _reply(alert: Alert, reason: Reason, now: datetime, *, broadcast: bool) -> Message:
    subject = f"{alert.alert_id}/{reason}/{alert.occurrences}.{alert.reminders}.{now.timestamp():.3f}"
    said = {"alert_id": alert.alert_id, "reason": str(reason), "condition": str(alert.condition), "words": alert.reason}
    return Message(REPLY, subject, {**reply_place(ALERT, alert.alert_id), **said, "broadcast": broadcast})


def _values(alert: Alert) -> dict[str, Any]:
    by = alert.acknowledged_by
    return {
        "supervisor_id": alert.supervisor_id,
        "target_type": alert.target.kind,
        "target_id": alert.target.id,
        "condition": alert.condition,
        "severity": alert.severity,
        "state": alert.state,
        "reason": one_line(storable(flatten(alert.reason)), REASON),
        "opened_at": alert.opened_at,
        "opened_flip": alert.opened_flip,
        "occurrences": alert.occurrences,
        "held_until": alert.held_until,
        "held_why": alert.held_why,
        "cleared_at": alert.cleared_at,
        "closed_at": alert.closed_at,
        "closed_flip": alert.closed_flip,
        "acknowledged_by": by.id if by else None,
        "acknowledged_name": by.name[:ISSUER_NAME] if by else None,
        "acknowledged_at": alert.acknowledged_at,
        "told": alert.told,
        "told_occurrence": alert.told_occurrence,
        "told_at": alert.told_at,
        "reminders": alert.reminders,
        "decided": alert.decided,
        "due_at": alert.due_at,
        "parent_id": alert.parent_id,
        "quieted": alert.quieted,
        "calling_since": alert.calling_since,
        "escalated": alert.escalated,
    }


def from_row(row: RowMapping) -> Alert:
    by = row["acknowledged_by"]
    return Alert(
        alert_id=row["alert_id"],
        target=Target(row["target_type"], row["target_id"]),
        condition=Condition(row["condition"]),
        reason=row["reason"],
        opened_at=row["opened_at"],
        opened_flip=row["opened_flip"],
        state=AlertState(row["state"]),
        severity=Severity(row["severity"]),
        occurrences=row["occurrences"],
        held_until=row["held_until"],
        held_why=Reason(row["held_why"]) if row["held_why"] else None,
        cleared_at=row["cleared_at"],
        closed_at=row["closed_at"],
        closed_flip=row["closed_flip"],
        acknowledged_by=Issuer(by, row["acknowledged_name"] or "") if by else None,
        acknowledged_at=row["acknowledged_at"],
        told=Condition(row["told"]) if row["told"] else None,
        told_occurrence=row["told_occurrence"],
        told_at=row["told_at"],
        reminders=row["reminders"],
        decided=row["decided"],
        due_at=row["due_at"],
        evidence=tuple(json.loads(row["evidence_json"])["lines"]) if row["evidence_json"] else (),
        parent_id=row["parent_id"],
        quieted=Reason(row["quieted"]) if row["quieted"] else None,
        calling_since=row["calling_since"],
        escalated=row["escalated"],
        supervisor_id=row["supervisor_id"],
    )


class AlertChange(NamedTuple):
    """An alert before and after an observation; None before for a new one."""

    before: Alert | None
    after: Alert


class AlertDecision(NamedTuple):
    before: Alert | None
    after: Alert
    decision: Decision
    quiet: bool = False
    """It is suppressed, or monitoring is paused."""
