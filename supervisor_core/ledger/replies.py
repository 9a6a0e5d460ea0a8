"""What stands in the thread of another message, as rows: it is told once that message stands, and never before it.

It is ordered in the transaction of the change that it tells of, and only where there is a message to stand below: a
command that nobody is shown has no thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from supervisor_core.ledger.steps import Message, record
from supervisor_core.ledger.tables import outbox

CARD = "card"
"""The kind of outbox row that becomes the one message of a command, edited as the command goes on. It is ordered once,
by whoever knows where it belongs, with the task id as its subject; each step then has it told anew."""

ASKED = "approval"
"""The kind of outbox row that asks for an approval in a channel of its own, beside the command's card."""

DETAILS = "details"
"""The kind of outbox row that becomes a reply below a card or a question. What it says is made from the rows when it is
told; where it would add nothing to the message above it, it is dropped."""

FILE = "file"
"""The kind of outbox row that becomes a file: in a thread, in a channel, or with one person alone. Told once."""

OUTCOME, PREVIEW = "outcome", "preview"
"""What a reply is about."""

REPORTS = 5
"""Reports of one command that are brought to its thread; where more workers were asked, it is said where they are."""


def below(kind: str, subject: str) -> Mapping[str, Any]:
    """The place below a message: in its thread, wherever it stands by the time when this is told."""
    return {"below": {"kind": kind, "subject": subject}}


def details(about: str, kind: str, task_id: str, by: str = "") -> Message:
    """A reply below one of a command's messages. `by`: who has just ended it, and need not be told."""
    content = {**below(kind, task_id), "task_id": task_id, "about": about, "by": by}
    return Message(DETAILS, f"{task_id}/{about}/{kind}", content)


def end(connection: Connection, supervisor_id: str, task_id: str, now: datetime, by: str = "") -> None:
    """Order what is said in the threads of a command that has come to its end."""
    messages = [details(OUTCOME, kind, task_id, by) for kind in _ordered(connection, (CARD, ASKED), task_id)]
    record(connection, supervisor_id, None, messages, now)


def report(
    connection: Connection, supervisor_id: str, task_id: str, worker_id: str, path: str, sha256: str, now: datetime
) -> None:
    """Order that a report be posted in the thread of its command's card. It's read when it's posted, and then its
    content must have this digest."""
    content = {**below(CARD, task_id), "task_id": task_id, "worker_id": worker_id, "report": path, "sha256": sha256}
    messages = [Message(FILE, f"{task_id}/report/{worker_id}", content)]
    record(connection, supervisor_id, None, messages if _ordered(connection, (CARD,), task_id) else (), now)


def _ordered(connection: Connection, kinds: Iterable[str], task_id: str) -> list[str]:
    """Which of these messages the command has, told or not."""
    query = select(outbox.c.kind).where(outbox.c.kind.in_(tuple(kinds)), outbox.c.subject == task_id)
    return list(connection.execute(query.order_by(outbox.c.outbox_id)).scalars())
