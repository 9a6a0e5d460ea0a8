"""The outbox: what must still happen outside, each as a row that waits until it did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, select, update

from supervisor_core.domain.canonical import canonical_json
from supervisor_core.ledger.steps import PENDING, SENT, Step
from supervisor_core.ledger.tables import outbox

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0
"""A drive that comes back finds its results within a minute."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One row that has not been sent."""

    outbox_id: int
    version: int
    kind: str
    subject: str
    payload: Mapping[str, Any]
    address: Mapping[str, Any]
    """Where it was put when it was sent for the first time: what an edit needs. Empty before that."""
    attempts: int
    created_at: datetime


def due(connection: Connection, kind: str, now: datetime, limit: int = 100) -> list[Waiting]:
    """What of this kind is due, oldest first."""
    query = (
        select(outbox)
        .where(outbox.c.state == PENDING, outbox.c.kind == kind, outbox.c.due_at <= now)
        .order_by(outbox.c.due_at, outbox.c.outbox_id)
        .limit(limit)
    )
    return [
        Waiting(
            outbox_id=row["outbox_id"],
            version=row["version"],
            kind=row["kind"],
            subject=row["subject"],
            payload=json.loads(row["payload_json"]),
            address=json.loads(row["address_json"] or "{}"),
            attempts=row["attempts"],
            created_at=row["created_at"],
        )
        for row in connection.execute(query).mappings()
    ]


def count_pending(connection: Connection, kind: str) -> int:
    """How many of this kind wait."""
    query = select(func.count()).select_from(outbox).where(outbox.c.state == PENDING, outbox.c.kind == kind)
    return connection.execute(query).scalar_one()


def sent(message: Waiting, now: datetime) -> Step:
    """pending → sent, unless it was ordered anew meanwhile: then it stays pending."""
    key = {"outbox_id": message.outbox_id, "version": message.version}
    return Step(outbox, key, (PENDING,), SENT, {"sent_at": now})


def addressed(connection: Connection, message: Waiting, address: Mapping[str, Any]) -> None:
    """Note where it was put; an order that came meanwhile changes nothing about that."""
    connection.execute(
        update(outbox).where(outbox.c.outbox_id == message.outbox_id).values(address_json=canonical_json(address))
    )


def postpone_until(connection: Connection, message: Waiting, moment: datetime) -> None:
    """It is not its time yet; nothing went wrong."""
    pending = (outbox.c.outbox_id == message.outbox_id) & (outbox.c.state == PENDING)
    connection.execute(update(outbox).where(pending).values(due_at=moment))


def postpone(connection: Connection, message: Waiting, error: str, now: datetime, seconds: float | None = None) -> None:
    """It could not be sent: try again, later each time, or when the other side said."""
    delay = (
        seconds
        if seconds is not None
        else min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(message.attempts, 10))
    )
    connection.execute(
        update(outbox)
        .where(outbox.c.outbox_id == message.outbox_id, outbox.c.state == PENDING)
        .values(attempts=message.attempts + 1, last_error=error, due_at=now + timedelta(seconds=delay))
    )
