"""What stands in the thread of another message gets its place when it is told: where that message stands by then."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from supervisor_core.ledger import outbox
from supervisor_core.ledger.outbox import Waiting


def placed(connection: Connection, message: Waiting) -> Waiting:
    """The same message with its channel and thread; without them where the message above it stands nowhere."""
    above = message.payload.get("below")
    if not above:
        return message
    place = outbox.thread_of(connection, str(above["kind"]), str(above["subject"])) or {}
    return replace(message, payload={**message.payload, **place})


def is_lost(message: Waiting) -> bool:
    """Whether it should stand below a message that stands nowhere, and will not any more."""
    return bool(message.payload.get("below")) and not message.payload.get("channel")
