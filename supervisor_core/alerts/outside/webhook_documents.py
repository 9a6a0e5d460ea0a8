"""The documents of the webhook: signed JSON about each message of an alert, and their rows in the outbox."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from http import HTTPStatus
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from supervisor_core.alerts.grouping.rules import STORM
from supervisor_core.alerts.rows import ALERT
from supervisor_core.alerts.rules import Alert, Reason
from supervisor_core.common.text import canonical_json, capitalize, sentence
from supervisor_core.common.times import format_span, to_text
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.steps import DROPPED, PENDING, SENT, Message
from supervisor_core.storage.tables import outbox as rows
from supervisor_core.workers.conditions.rules import shown_as

VERSION = 1
"""Rises when a key changes its meaning or is removed, not for a new key."""

SIGNATURE, TIMESTAMP, DELIVERY = "X-Supervisor-Signature", "X-Supervisor-Timestamp", "X-Supervisor-Delivery"

REPLAY_SECONDS = 300
"""The difference that a receiver allows between the timestamp and its clock; each try has its own timestamp."""

PATIENCE = timedelta(days=1)
"""An older document is outdated and is not sent."""

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 900.0
LONGEST_ASKED_SECONDS = 3600.0
"""The longest accepted Retry-After."""

_TRY_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_ID_LETTERS = 32

_SAID: Mapping[Reason, str] = {
    Reason.WORSE: "now worse: {what}",
    Reason.BETTER: "improved: {what}",
    Reason.AGAIN: "{what} again",
    Reason.REMINDER_DUE: "still {what} after {lasted}",
    Reason.ESCALATED: "still {what} after {lasted}, not acknowledged",
    Reason.RESOLVED: "recovered after {lasted} ({what})",
}


class WebhookVerdict(Enum):
    """The meaning of a response."""

    TAKEN = "taken"
    AGAIN = "again"
    """Trying again can help."""
    REFUSED = "refused"


class WebhookResult(NamedTuple):
    """A verdict, the reason in words, and how long the receiver asked us to wait, where it did."""

    verdict: WebhookVerdict
    words: str = ""
    seconds: float | None = None


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
    said = _SAID.get(reason, "{what}").format(what=what, lasted=format_span(lasted))
    whose = alert.target.worker or ("many workers" if storm else f"{alert.target.kind} {alert.target.id}")
    place = "" if alert.target.id == alert.supervisor_id else f" on {alert.supervisor_id}"
    told = alert.reason and reason is not Reason.RESOLVED
    why = f" {capitalize(sentence(alert.reason), alert.target.id)}" if told else ""
    return f"{whose}{place}: {said}.{why}"


def delivery_id(supervisor_id: str, subject: str) -> str:
    """The same for each try of one document, also across restarts; another for every other one."""
    return hashlib.sha256(f"{supervisor_id}/{subject}".encode()).hexdigest()[:_ID_LETTERS]


def body_of(told: Mapping[str, Any]) -> bytes:
    """The bytes that are sent, and signed."""
    return canonical_json(told).encode()


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Sign the body and the time with the secret."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def headers_of(body: bytes, delivery: str, secret: str, now: datetime) -> dict[str, str]:
    """The headers of one try. Without a secret nothing is signed."""
    timestamp = int(now.timestamp())
    headers = {"Content-Type": "application/json", DELIVERY: delivery, TIMESTAMP: str(timestamp)}
    return {**headers, SIGNATURE: signature(secret, timestamp, body)} if secret else headers


def judge_answer(status: int, retry_after: str, now: datetime) -> WebhookResult:
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return WebhookResult(WebhookVerdict.TAKEN)
    words = f"responded {status_words(status)}"
    if status in _TRY_AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return WebhookResult(WebhookVerdict.AGAIN, words, _asked(retry_after, now))
    return WebhookResult(WebhookVerdict.REFUSED, words)


def retry_seconds(tries: int) -> float:
    return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(tries, 20))


def status_words(status: int) -> str:
    """`404 Not Found`: in our words, for whatever the other side wrote beside it may be anything."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _asked(retry_after: str, now: datetime) -> float | None:
    """Seconds, or a date; None for nothing and for nonsense."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_ASKED_SECONDS)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST_ASKED_SECONDS)


WEBHOOK = "webhook"
"""The kind of outbox row that is one document for the receiver; its subject begins with the alert's id."""

AT_ONCE = 1000
"""Documents that are looked at together."""


def webhook_messages(alert: Alert, reason: Reason, now: datetime) -> list[Message]:
    """Return the document of a decision that people are told about; a recovery only if the alert was sent."""
    if not reason.tells or (reason is Reason.RESOLVED and alert.told is None):
        return []
    subject = f"{alert.alert_id}/{reason}/{alert.occurrences}.{alert.reminders}.{now.timestamp():.6f}"
    return [Message(WEBHOOK, subject, document(alert, reason, now))]


def heads(connection: Connection, now: datetime) -> list[PendingMessage]:
    """Return the documents to send now: the oldest of each alert, if it is due.

    Those with the fewest attempts come first, so a rejected document doesn't delay other alerts."""
    waiting = outbox.pending_of_kind(connection, WEBHOOK, AT_ONCE)
    first: dict[str, PendingMessage] = {}
    for message in waiting:
        first.setdefault(str(message.payload["alert"]), message)
    due = [message for message in first.values() if message.due_at <= now]
    return sorted(due, key=lambda message: (message.attempts, message.outbox_id))


def next_due(connection: Connection) -> datetime | None:
    """The time at which the first of them is to be tried."""
    query = select(func.min(rows.c.due_at)).where(rows.c.state == PENDING, rows.c.kind == WEBHOOK)
    moment: datetime | None = connection.execute(query).scalar()
    return moment


def last_loss(connection: Connection) -> str:
    """Return why the last finished document was dropped; empty if it was delivered."""
    ended = (rows.c.kind == WEBHOOK) & rows.c.state.in_((SENT, DROPPED))
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
