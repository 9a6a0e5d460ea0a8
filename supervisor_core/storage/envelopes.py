"""Chat envelopes, stored before they are acknowledged: each once by its key, until it is handled.

The key makes two deliveries the same. It is kept longer than anybody delivers again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from supervisor_core.common.text import canonical_json
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message, Step
from supervisor_core.storage.tables import envelopes

RECEIVED, HANDLED, FAILED = "received", "handled", "failed"

DEALT_WITH = (HANDLED, FAILED)
"""They stay for a day: Slack delivers an event for the last time about five minutes after the first."""


@dataclass(frozen=True, slots=True)
class StoredEnvelope:
    """An envelope that isn't handled yet."""

    key: str
    kind: str
    payload: Mapping[str, Any]
    received_at: datetime


def store_envelopes(connection: Connection, arrived: Sequence[StoredEnvelope]) -> list[bool]:
    """Store envelopes that arrived together. Returns for each whether it is the first with its key and was stored."""
    keys = [each.key for each in arrived]
    known = set(connection.scalars(select(envelopes.c.key).where(envelopes.c.key.in_(keys))))
    firsts, rows = [], list[dict[str, Any]]()
    for each in arrived:
        firsts.append(each.key not in known)
        if firsts[-1]:
            known.add(each.key)
            content = {"kind": each.kind, "payload_json": canonical_json(each.payload), "received_at": each.received_at}
            rows.append({"key": each.key, "state": RECEIVED, **content})
    if rows:
        connection.execute(insert(envelopes), rows)
    return firsts


def pending_envelopes(connection: Connection) -> list[StoredEnvelope]:
    """The acknowledged envelopes that aren't handled, oldest first."""
    query = select(envelopes).where(envelopes.c.state == RECEIVED).order_by(envelopes.c.received_at, envelopes.c.key)
    return [
        StoredEnvelope(row["key"], row["kind"], json.loads(row["payload_json"]), row["received_at"])
        for row in connection.execute(query).mappings()
    ]


def mark_handled(
    envelope: StoredEnvelope, now: datetime, entry: AuditEntry | None = None, messages: Sequence[Message] = ()
) -> Step:
    """received → handled, with its audit entry and its messages."""
    return Step(envelopes, {"key": envelope.key}, (RECEIVED,), HANDLED, {"handled_at": now}, entry, messages)


def mark_failed(envelope: StoredEnvelope, error: str, now: datetime, messages: Sequence[Message] = ()) -> Step:
    """received → failed: it can't be handled, and a retry wouldn't help."""
    values = {"handled_at": now, "error": error}
    return Step(envelopes, {"key": envelope.key}, (RECEIVED,), FAILED, values, None, messages)
