"""The documents about the messages of an alert, one for each receiver, and their rows in the outbox."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from supervisor_core.alerts.grouping.rules import STORM
from supervisor_core.alerts.outside.formats import acknowledges
from supervisor_core.alerts.rows import ALERT
from supervisor_core.alerts.rules import Alert, AlertState, Reason
from supervisor_core.common.text import capitalize, sentence
from supervisor_core.common.times import format_span, to_text
from supervisor_core.config.schema import Receiver
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.steps import DROPPED, PENDING, SENT, Message
from supervisor_core.storage.tables import outbox as rows
from supervisor_core.workers.conditions import shown_as

VERSION = 1
"""Goes up when a key changes its meaning or is removed, not for a new key."""

_ID_LETTERS = 32

_SAID: Mapping[Reason, str] = {
    Reason.WORSE: "now worse: {what}",
    Reason.BETTER: "improved: {what}",
    Reason.AGAIN: "{what} again",
    Reason.REMINDER_DUE: "still {what} after {lasted}",
    Reason.ESCALATED: "still {what} after {lasted}, not acknowledged",
    Reason.ACKNOWLEDGED: "acknowledged by {by}",
    Reason.RESOLVED: "recovered after {lasted} ({what})",
}


def document(alert: Alert, reason: Reason, now: datetime) -> dict[str, Any]:
    over = reason is Reason.RESOLVED
    until = (alert.closed_at or now) if over else now
    lasted = max((until - alert.opened_at).total_seconds(), 0.0)
    by = alert.acknowledged_by
    return {
        "version": VERSION,
        "event": str(reason),
        "at": to_text(now),
        "host": alert.supervisor_id,
        "alert": alert.alert_id,
        "parent": alert.parent_id,
        "target": {"type": alert.target.kind, "id": alert.target.id},
        "condition": str(alert.condition),
        "severity": str(alert.severity),
        "state": str(alert.state),
        "reason": alert.reason,
        "since": to_text(alert.opened_at),
        "until": to_text(until) if over else None,
        "lasted_seconds": round(lasted, 3),
        "occurrences": alert.occurrences,
        "acknowledged_by": (by.name or by.id) if by else None,
        "words": in_words(alert, reason, lasted),
    }


def in_words(alert: Alert, reason: Reason, lasted: float) -> str:
    """The same as a line for a person, for receivers that show nothing but text."""
    storm = alert.target.kind == STORM
    what = "unhealthy" if storm else shown_as(alert.condition, alert.reason).word
    by = alert.acknowledged_by
    names = {"what": what, "lasted": format_span(lasted), "by": (by.name or by.id) if by else "somebody"}
    said = _SAID.get(reason, "{what}").format(**names)
    whose = alert.target.worker or ("many workers" if storm else f"{alert.target.kind} {alert.target.id}")
    place = "" if alert.target.id == alert.supervisor_id else f" on {alert.supervisor_id}"
    told = alert.reason and reason not in (Reason.RESOLVED, Reason.ACKNOWLEDGED)
    why = f" {capitalize(sentence(alert.reason), alert.target.id)}" if told else ""
    return f"{whose}{place}: {said}.{why}"


def delivery_id(supervisor_id: str, subject: str) -> str:
    """Stable across the attempts to send one document, also after a restart; unique to that document."""
    return hashlib.sha256(f"{supervisor_id}/{subject}".encode()).hexdigest()[:_ID_LETTERS]


WEBHOOK = "webhook"
"""The kind of outbox row that is one document for one receiver; its subject begins with the receiver's name."""

AT_ONCE = 1000
"""The most documents that are read at once."""


def outside_messages(
    connection: Connection, alert: Alert, reason: Reason, receivers: Sequence[Receiver], now: datetime
) -> Iterator[Message]:
    """The documents of a decision, for each receiver: one that people are told about, and once for each
    acknowledgement one about that, where the receiver's format knows it. A recovery only if the alert was sent."""
    if not receivers:
        return
    if reason.tells and not (reason is Reason.RESOLVED and alert.told is None):
        told = document(alert, reason, now)
        which = f"{reason}/{alert.occurrences}.{alert.reminders}.{now.timestamp():.6f}"
        yield from (Message(WEBHOOK, _subject(each, alert, which), told) for each in receivers)
    if alert.state is AlertState.ACKNOWLEDGED and alert.acknowledged_at is not None and alert.told is not None:
        told = document(alert, Reason.ACKNOWLEDGED, now)
        which = f"{Reason.ACKNOWLEDGED}/{alert.acknowledged_at.timestamp():.6f}"
        for subject in (_subject(each, alert, which) for each in receivers if acknowledges(each)):
            if outbox.payload_of(connection, WEBHOOK, subject) is None:
                yield Message(WEBHOOK, subject, told)


def _subject(receiver: Receiver, alert: Alert, which: str) -> str:
    return f"{receiver.label}/{alert.alert_id}/{which}"


def _of(receiver: str) -> ColumnElement[bool]:
    return (rows.c.kind == WEBHOOK) & rows.c.subject.startswith(f"{receiver}/", autoescape=True)


def strays(connection: Connection, receivers: Collection[str]) -> list[PendingMessage]:
    """The waiting documents for receivers that were removed."""
    waiting = outbox.pending_of_kind(connection, WEBHOOK, AT_ONCE)
    return [message for message in waiting if message.subject.partition("/")[0] not in receivers]


def heads(connection: Connection, receiver: str, now: datetime) -> list[PendingMessage]:
    """Return the documents to send now to this receiver: the oldest of each alert, if it is due.

    Those with the fewest attempts come first, so a rejected document doesn't delay other alerts."""
    waiting = outbox.pending_of_kind(connection, WEBHOOK, AT_ONCE, f"{receiver}/")
    first: dict[str, PendingMessage] = {}
    for message in waiting:
        first.setdefault(str(message.payload["alert"]), message)
    due = [message for message in first.values() if message.due_at <= now]
    return sorted(due, key=lambda message: (message.attempts, message.outbox_id))


def next_due(connection: Connection, receiver: str) -> datetime | None:
    query = select(func.min(rows.c.due_at)).where(rows.c.state == PENDING, _of(receiver))
    moment: datetime | None = connection.execute(query).scalar()
    return moment


def last_loss(connection: Connection, receiver: str) -> str:
    """Return why the last finished document for this receiver was dropped; empty if it was delivered."""
    ended = _of(receiver) & rows.c.state.in_((SENT, DROPPED))
    query = (
        select(rows.c.state, rows.c.last_error).where(ended).order_by(rows.c.sent_at.desc(), rows.c.outbox_id.desc())
    )
    row = connection.execute(query.limit(1)).first()
    return (row.last_error or "") if row is not None and row.state == DROPPED else ""


def card_of(connection: Connection, alert_id: str) -> Mapping[str, Any] | None:
    """The place of this alert's message in the chat; None before it is posted."""
    query = select(rows.c.address_json).where(rows.c.kind == ALERT, rows.c.subject == alert_id)
    text = connection.execute(query).scalar()
    address = json.loads(text) if text else {}
    return {"channel": address["channel"], "ts": address["ts"]} if address.get("ts") else None
