"""What waits for a program beyond Slack: rows of the outbox, ordered with the decision that they tell of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from supervisor_core.domain.alerts import Alert, Reason
from supervisor_core.domain.webhooks import document
from supervisor_core.ledger import outbox
from supervisor_core.ledger.alerts import ALERT
from supervisor_core.ledger.outbox import Waiting
from supervisor_core.ledger.steps import DROPPED, PENDING, SENT, Message
from supervisor_core.ledger.tables import outbox as rows

WEBHOOK = "webhook"
"""The kind of outbox row that is one document for the receiver; its subject begins with the alert's id."""

AT_ONCE = 1000
"""Documents that are looked at together."""


def told(alert: Alert, reason: Reason, now: datetime) -> list[Message]:
    """The document of a decision that tells people something; that it is over, only where somebody has heard of it."""
    if not reason.tells or (reason is Reason.RESOLVED and alert.told is None):
        return []
    subject = f"{alert.alert_id}/{reason}/{alert.occurrences}.{alert.reminders}.{now.timestamp():.6f}"
    return [Message(WEBHOOK, subject, document(alert, reason, now))]


def heads(connection: Connection, now: datetime) -> list[Waiting]:
    """What may be sent now: of each alert the oldest, if it is due. Those that were tried least come first, so that one
    which the receiver never takes keeps none of another alert."""
    waiting = outbox.waiting_of(connection, WEBHOOK, AT_ONCE)
    first: dict[str, Waiting] = {}
    for message in waiting:
        first.setdefault(str(message.payload["alert"]), message)
    due = [message for message in first.values() if message.due_at <= now]
    return sorted(due, key=lambda message: (message.attempts, message.outbox_id))


def next_due(connection: Connection) -> datetime | None:
    """When the first of them is to be tried."""
    query = select(func.min(rows.c.due_at)).where(rows.c.state == PENDING, rows.c.kind == WEBHOOK)
    moment: datetime | None = connection.execute(query).scalar()
    return moment


def last_loss(connection: Connection) -> str:
    """Why the last one that came to an end was dropped; empty where it was taken."""
    ended = (rows.c.kind == WEBHOOK) & rows.c.state.in_((SENT, DROPPED))
    query = (
        select(rows.c.state, rows.c.last_error).where(ended).order_by(rows.c.sent_at.desc(), rows.c.outbox_id.desc())
    )
    row = connection.execute(query.limit(1)).first()
    return (row.last_error or "") if row is not None and row.state == DROPPED else ""


def card_of(connection: Connection, alert_id: str) -> Mapping[str, Any] | None:
    """Where the message of this alert stands in the chat by now; None where it does not."""
    query = select(rows.c.address_json).where(rows.c.kind == ALERT, rows.c.subject == alert_id)
    text = connection.execute(query).scalar()
    address = json.loads(text) if text else {}
    return {"channel": address["channel"], "ts": address["ts"]} if address.get("ts") else None
