"""The outbox: messages, files and replies as rows that wait for delivery.

A reply is ordered in the transaction of the change that it describes, and only if there is a message to reply to. It is
delivered after that message, never before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, case, exists, select, update

from supervisor_core.common.text import canonical_json
from supervisor_core.storage.engine import JsonText
from supervisor_core.storage.steps import DROPPED, PENDING, SENT, Message, Step, record
from supervisor_core.storage.tables import outbox

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0
"""A drive that comes back finds its results within a minute."""


REPORTED_BY = "reported_by"
"""The key of the host that reported the command of a card. Messages about people's commands are sent first."""


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """One row that has not been sent."""

    outbox_id: int
    version: int
    kind: str
    subject: str
    payload: Mapping[str, Any]
    address: Mapping[str, Any]
    """The place of the sent message, which an edit needs. Empty before it is sent."""
    attempts: int
    created_at: datetime
    due_at: datetime
    last_error: str
    """The last error; empty if there was none."""


def due_messages(connection: Connection, kind: str, now: datetime, limit: int = 100) -> list[PendingMessage]:
    """The due messages of this kind, oldest first."""
    query = (
        select(outbox)
        .where(outbox.c.state == PENDING, outbox.c.kind == kind, outbox.c.due_at <= now)
        .order_by(outbox.c.due_at, outbox.c.outbox_id)
        .limit(limit)
    )
    return [_message(row) for row in connection.execute(query).mappings()]


def pending_messages(
    connection: Connection,
    kinds: Collection[str],
    now: datetime,
    closed: Collection[str] = (),
    limit: int = 1000,
    *,
    has_fallback: bool = False,
) -> list[PendingMessage]:
    """The pending messages of these kinds that are due or new, in the order in which they were first requested. Those
    about commands that hosts report of themselves come after all others.

    Left out are messages that wait for their retry, replies to a message that is itself pending, and messages to a
    channel in `closed` that can go nowhere else (they may be more than `limit`): those that aren't for one person, and
    with a fallback channel only those that belong in their channel alone.
    """
    channel, person, alone = (JsonText(outbox.c.payload_json, name) for name in ("channel", "user", "alone"))
    mine = (outbox.c.state == PENDING) & outbox.c.kind.in_(tuple(kinds))
    mine &= (outbox.c.due_at <= now) | (outbox.c.attempts == 0)
    if closed:
        deliverable = channel.is_(None) | channel.not_in(tuple(closed)) | person.is_not(None)
        mine &= deliverable | alone.is_(None) if has_fallback else deliverable
    above = outbox.alias("above")
    kind, subject = (JsonText(outbox.c.payload_json, "below", name) for name in ("kind", "subject"))
    mine &= ~exists().where(above.c.kind == kind, above.c.subject == subject, above.c.state == PENDING)
    reported = case((JsonText(outbox.c.payload_json, REPORTED_BY).is_(None), 0), else_=1)
    query = select(outbox).where(mine).order_by(reported, outbox.c.outbox_id).limit(limit)
    return [_message(row) for row in connection.execute(query).mappings()]


def pending_of_kind(
    connection: Connection, kind: str, limit: int, beginning: str = "", now: datetime | None = None
) -> list[PendingMessage]:
    """The pending messages of this kind whose subject begins so, in the order in which they were first ordered. With
    `now`, without those that wait for their retry."""
    query = select(outbox).where(outbox.c.state == PENDING, outbox.c.kind == kind)
    if beginning:
        query = query.where(outbox.c.subject.startswith(beginning, autoescape=True))
    if now is not None:
        query = query.where((outbox.c.due_at <= now) | (outbox.c.attempts == 0))
    rows = connection.execute(query.order_by(outbox.c.outbox_id).limit(limit)).mappings()
    return [_message(row) for row in rows]


def newest(connection: Connection, kind: str, beginning: str) -> tuple[str, Mapping[str, Any]] | None:
    """The subject and payload of the newest message whose subject begins with this, sent or not."""
    query = (
        select(outbox.c.subject, outbox.c.payload_json)
        .where(outbox.c.kind == kind, outbox.c.subject.startswith(beginning, autoescape=True))
        .order_by(outbox.c.outbox_id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return (row.subject, json.loads(row.payload_json)) if row else None


def message_place(connection: Connection, kind: str, subject: str) -> Mapping[str, Any] | None:
    """The place of this message, or its channel before it is sent; None where none was ordered."""
    query = select(outbox.c.payload_json, outbox.c.address_json).where(
        outbox.c.kind == kind, outbox.c.subject == subject
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    address: Mapping[str, Any] = json.loads(row.address_json or "{}")
    belongs: Mapping[str, Any] = json.loads(row.payload_json)
    return address if address.get("ts") else {"channel": belongs.get("channel")}


def reply_thread(connection: Connection, kind: str, subject: str) -> Mapping[str, Any] | None:
    """Return the thread for replies to this message, and the person to fall back to; None if it was never posted.

    A message that is itself a reply has no thread of its own."""
    query = select(outbox.c.payload_json, outbox.c.address_json).where(
        outbox.c.kind == kind, outbox.c.subject == subject
    )
    row = connection.execute(query).first()
    address: Mapping[str, Any] = json.loads(row.address_json or "{}") if row else {}
    if row is None or not address.get("ts"):
        return None
    belongs: Mapping[str, Any] = json.loads(row.payload_json)
    home = str(belongs.get("channel") or "")
    at_home = address["channel"] == home or home.startswith(("U", "W"))  # a person: their direct messages
    thread = (belongs.get("thread_ts") if at_home else None) or address["ts"]
    return {"channel": address["channel"], "thread_ts": thread, "user": belongs.get("user")}


def payload_of(connection: Connection, kind: str, subject: str) -> Mapping[str, Any] | None:
    """Return the newest payload for this subject; None without one."""
    query = select(outbox.c.payload_json).where(outbox.c.kind == kind, outbox.c.subject == subject)
    text = connection.execute(query).scalar()
    return json.loads(text) if text else None


def _message(row: RowMapping) -> PendingMessage:
    return PendingMessage(
        outbox_id=row["outbox_id"],
        version=row["version"],
        kind=row["kind"],
        subject=row["subject"],
        payload=json.loads(row["payload_json"]),
        address=json.loads(row["address_json"] or "{}"),
        attempts=row["attempts"],
        created_at=row["created_at"],
        due_at=row["due_at"],
        last_error=row["last_error"] or "",
    )


def mark_sent(message: PendingMessage, now: datetime, address: Mapping[str, Any] | None = None) -> Step:
    """The step pending → sent, with the place; a message that was ordered again meanwhile stays pending."""
    values: dict[str, Any] = {"sent_at": now, "last_error": None}
    if address is not None:
        values["address_json"] = canonical_json(address)
    return Step(outbox, _this(message), (PENDING,), SENT, values)


def mark_dropped(message: PendingMessage, reason: str, now: datetime) -> Step:
    """The step pending → dropped: it can't be delivered any more, and the row says why."""
    return Step(outbox, _this(message), (PENDING,), DROPPED, {"sent_at": now, "last_error": reason})


def _this(message: PendingMessage) -> dict[str, int]:
    return {"outbox_id": message.outbox_id, "version": message.version}


def store_address(connection: Connection, message: PendingMessage, address: Mapping[str, Any]) -> None:
    """Record the place of the message, also if the message was updated meanwhile."""
    connection.execute(
        update(outbox).where(outbox.c.outbox_id == message.outbox_id).values(address_json=canonical_json(address))
    )


def postpone(
    connection: Connection, message: PendingMessage, error: str, now: datetime, seconds: float | None = None
) -> None:
    """Retry later, with growing delays or after the requested time."""
    delay = (
        seconds
        if seconds is not None
        else min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(message.attempts, 10))
    )
    connection.execute(
        update(outbox)
        .where(
            outbox.c.outbox_id == message.outbox_id,
            outbox.c.version == message.version,  # one that was ordered anew meanwhile is due
            outbox.c.state == PENDING,
        )
        .values(attempts=message.attempts + 1, last_error=error, due_at=now + timedelta(seconds=delay))
    )


CARD = "card"
"""The kind of the one message of a command, edited as the command proceeds. It is ordered once, with its place and the
command id as its subject; each step then updates it."""

APPROVAL_REQUEST = "approval"
"""The kind of outbox row that asks for an approval in a channel of its own, beside the command's card."""

DETAILS = "details"
"""The kind of a reply below a card or a question. Its content is built at delivery; it is dropped if it adds nothing
to the message above it."""

FILE = "file"
"""The kind of a file: in a thread, in a channel, or for one person. Sent once."""

OUTCOME, PREVIEW = "outcome", "preview"
"""The subject of a reply."""

REPORTS = 5
"""The most reports of one command in its thread; with more workers, the reply names the places instead."""


def reply_place(kind: str, subject: str) -> Mapping[str, Any]:
    """The place below a message: its thread at the time of delivery."""
    return {"below": {"kind": kind, "subject": subject}}


def details_reply(about: str, kind: str, task_id: str, by: str = "") -> Message:
    """Build a reply below a command's message. `by` just ended the command and isn't notified."""
    content = {**reply_place(kind, task_id), "task_id": task_id, "about": about, "by": by}
    return Message(DETAILS, f"{task_id}/{about}/{kind}", content)


def order_replies(connection: Connection, supervisor_id: str, task_id: str, now: datetime, by: str = "") -> None:
    """Order the replies in the threads of a finished command."""
    messages = [
        details_reply(OUTCOME, kind, task_id, by)
        for kind in _ordered_kinds(connection, (CARD, APPROVAL_REQUEST), task_id)
    ]
    record(connection, supervisor_id, None, messages, now)


def order_report(
    connection: Connection, supervisor_id: str, task_id: str, worker_id: str, path: str, sha256: str, now: datetime
) -> None:
    """Order that a report be posted in the thread of its command's card. It's read when it's posted, and then its
    content must have this digest."""
    content = {
        **reply_place(CARD, task_id),
        "task_id": task_id,
        "worker_id": worker_id,
        "report": path,
        "sha256": sha256,
    }
    messages = [Message(FILE, f"{task_id}/report/{worker_id}", content)]
    record(connection, supervisor_id, None, messages if _ordered_kinds(connection, (CARD,), task_id) else (), now)


def _ordered_kinds(connection: Connection, kinds: Iterable[str], task_id: str) -> list[str]:
    """The kinds of these messages that the command has, sent or not."""
    query = select(outbox.c.kind).where(outbox.c.kind.in_(tuple(kinds)), outbox.c.subject == task_id)
    return list(connection.execute(query.order_by(outbox.c.outbox_id)).scalars())
