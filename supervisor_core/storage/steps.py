"""`step`, the one mechanism that changes a state.

A compare-and-set on a row, its audit row and its outbox rows, in one transaction. A caller that finds an unexpected
state lost the race: nothing changes, and it gets False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, Update, and_, bindparam, insert, or_, update

from supervisor_core.common.text import canonical_json
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.tables import outbox

PENDING, SENT, DROPPED = "pending", "sent", "dropped"

ORDERED = "outbox: ordered"
"""The key in a connection's `info` of the kinds of messages that its transaction has ordered."""

# Made once: a storm orders a thousand messages, and most of the time would go into making these.
_SAME = update(outbox).where(outbox.c.kind == bindparam("its_kind"), outbox.c.subject == bindparam("its_subject"))
_AGAIN = _SAME.values(
    version=outbox.c.version + 1,
    state=bindparam("state"),
    attempts=bindparam("attempts"),
    due_at=bindparam("due_at"),
)
_ANEW = _AGAIN.values(payload_json=bindparam("payload_json"))


@dataclass(frozen=True, slots=True)
class Message:
    """An external effect after the step, such as a result file or a Slack message.

    There is one row for each kind and subject. Its version rises with each order, so a sender never marks a newer
    version as sent.
    """

    kind: str
    subject: str
    payload: Mapping[str, Any] | None
    """None keeps the content and only updates a message that was ordered before."""
    delay_seconds: float = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One change of state, with all that follows from it."""

    table: Table
    key: Mapping[str, Any]
    expected: Sequence[str]
    to: str
    values: Mapping[str, Any] = field(default_factory=dict)
    audit: AuditEntry | None = None
    outbox: Sequence[Message] = ()
    column: str = "state"
    """The column with the state."""
    follow: Callable[[Connection, str, datetime], object] | None = None
    """A change of other rows in the same transaction."""

    @property
    def name(self) -> str:
        """The prefix of its crash points, such as `jobs_t.done`."""
        return f"{self.table.name}.{self.to}"


def take(connection: Connection, supervisor_id: str, step: Step, now: datetime) -> bool:
    """Take the whole step in the caller's transaction; False if the row isn't in an expected state."""
    values = {step.column: step.to, **step.values}
    statement = _change(step.table, step.column, tuple(step.key), len(step.expected), tuple(values))
    parameters = {
        **{f"its_{name}": value for name, value in step.key.items()},
        **{f"expected_{number}": state for number, state in enumerate(step.expected)},
    }
    changed = connection.execute(statement, {**parameters, **values})
    if changed.rowcount != 1:
        return False
    record(connection, supervisor_id, step.audit, step.outbox, now)
    if step.follow is not None:
        step.follow(connection, supervisor_id, now)
    return True


@cache
def _change(table: Table, column: str, key: tuple[str, ...], expected: int, values: tuple[str, ...]) -> Update:
    """The compare-and-set of such steps, made once: a group of jobs takes hundreds."""
    where: list[ColumnElement[bool]] = [
        table.c[name] == bindparam(f"its_{name}", type_=table.c[name].type) for name in key
    ]
    where.append(or_(*(table.c[column] == bindparam(f"expected_{number}") for number in range(expected))))
    return update(table).where(and_(*where)).values({name: bindparam(name) for name in values})


def record(
    connection: Connection,
    supervisor_id: str,
    entry: AuditEntry | None,
    messages: Sequence[Message],
    now: datetime,
) -> None:
    """The rows that follow from a change: one audit row, any number of outbox rows."""
    if entry is not None:
        audit.append(connection, supervisor_id, entry, now)
    for message in messages:
        _order(connection, message, now)


def _order(connection: Connection, message: Message, now: datetime) -> None:
    """Order a message. One with the same kind and subject is updated, and its pending version is skipped."""
    connection.info.setdefault(ORDERED, set()).add(message.kind)
    content: dict[str, Any] = {
        "state": PENDING,
        "attempts": 0,
        "due_at": now + timedelta(seconds=message.delay_seconds),
    }
    if message.payload is not None:
        content["payload_json"] = canonical_json(message.payload)
    this = {"its_kind": message.kind, "its_subject": message.subject}
    known = connection.execute(_AGAIN if message.payload is None else _ANEW, {**this, **content}).rowcount
    if known or message.payload is None:
        return
    names = {"kind": message.kind, "subject": message.subject, "version": 1, "created_at": now}
    connection.execute(insert(outbox), {**names, **content})
