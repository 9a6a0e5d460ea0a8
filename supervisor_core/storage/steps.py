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

from sqlalchemy import ColumnElement, Connection, Table, Update, and_, bindparam, insert, or_, select, update

from supervisor_core.common.text import canonical_json
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.engine import ORDERED
from supervisor_core.storage.tables import outbox

PENDING, SENT, DROPPED = "pending", "sent", "dropped"

# Made once: a storm orders a thousand messages, and most of the time would go into making these.
_SAME = update(outbox).where(outbox.c.kind == bindparam("its_kind"), outbox.c.subject == bindparam("its_subject"))
_AGAIN = _SAME.values(
    version=outbox.c.version + 1,
    state=bindparam("state"),
    attempts=bindparam("attempts"),
    due_at=bindparam("due_at"),
)
_ANEW = _AGAIN.values(payload_json=bindparam("payload_json"))
_CONTENT = ("state", "attempts", "due_at", "payload_json")
_KNOWN = select(outbox.c.kind, outbox.c.subject).where(
    outbox.c.kind.in_(bindparam("kinds", expanding=True)), outbox.c.subject.in_(bindparam("subjects", expanding=True))
)


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
    follow: Callable[..., object] | None = None
    """A change of other rows in the same transaction, by connection, supervisor id and time."""
    subject: Any = None
    """What `follow` is about. It's then called once for all steps of a group that have it, with all their subjects."""

    @property
    def name(self) -> str:
        """The prefix of its crash points, such as `jobs_t.done`."""
        return f"{self.table.name}.{self.to}"


def take(connection: Connection, supervisor_id: str, step: Step, now: datetime) -> bool:
    """Take the whole step in the caller's transaction; False if the row isn't in an expected state."""
    statement, values = _change_of(step)
    if connection.execute(statement, values).rowcount != 1:
        return False
    _follow(connection, supervisor_id, [step], now)
    return True


class NotAllTaken(Exception):
    """Some of several rows aren't in an expected state, so the caller's transaction must not commit."""


def take_all(connection: Connection, supervisor_id: str, several: Sequence[Step], now: datetime) -> None:
    """Take several steps with few statements. `NotAllTaken` where that isn't certain for one of them."""
    changes: dict[Update, list[dict[str, Any]]] = {}
    for step in several:
        statement, values = _change_of(step)
        changes.setdefault(statement, []).append(values)
    for statement, rows in changes.items():
        if _rows_of(connection, statement, rows) != len(rows):
            raise NotAllTaken
    _follow(connection, supervisor_id, several, now)


def _rows_of(connection: Connection, statement: Update, rows: Sequence[Mapping[str, Any]]) -> int | None:
    """Execute it for each of these; the number of changed rows, None where the driver doesn't tell."""
    changed = connection.execute(statement, rows)
    return changed.rowcount if len(rows) == 1 or connection.dialect.supports_sane_multi_rowcount else None


def _change_of(step: Step) -> tuple[Update, dict[str, Any]]:
    values = {step.column: step.to, **step.values}
    statement = _change(step.table, step.column, tuple(step.key), len(step.expected), tuple(values))
    key = {f"its_{name}": value for name, value in step.key.items()}
    return statement, {**key, **{f"expected_{number}": state for number, state in enumerate(step.expected)}, **values}


def _follow(connection: Connection, supervisor_id: str, taken: Sequence[Step], now: datetime) -> None:
    """All that follows from steps that were taken."""
    entries = [step.audit for step in taken if step.audit is not None]
    if entries:
        chain.append_all(connection, supervisor_id, entries, now)
    _order_all(connection, [message for step in taken for message in step.outbox], now)
    shared: dict[Callable[..., object], list[Any]] = {}
    for step in taken:
        if step.follow is not None and step.subject is not None:
            shared.setdefault(step.follow, []).append(step.subject)
        elif step.follow is not None:
            step.follow(connection, supervisor_id, now)
    for follow, subjects in shared.items():
        follow(connection, supervisor_id, now, subjects)


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
        chain.append(connection, supervisor_id, entry, now)
    _order_all(connection, messages, now)


def _order_all(connection: Connection, messages: Sequence[Message], now: datetime) -> None:
    """Order messages. One with the same kind and subject is updated, and its pending version is skipped."""
    again: dict[tuple[str, str], dict[str, Any]] = {}
    anew: dict[tuple[str, str], dict[str, Any]] = {}
    for message in messages:
        connection.info.setdefault(ORDERED, set()).add(message.kind)
        this = message.kind, message.subject
        due_at = now + timedelta(seconds=message.delay_seconds)
        content = {"its_kind": this[0], "its_subject": this[1], "state": PENDING, "attempts": 0, "due_at": due_at}
        if message.payload is not None:
            again.pop(this, None)
            anew[this] = {**content, "payload_json": canonical_json(message.payload)}
        elif this in anew:
            anew[this] |= content
        else:
            again[this] = content
    if anew:
        _order_anew(connection, anew, now)
    if again:
        connection.execute(_AGAIN, list(again.values()))


def _order_anew(connection: Connection, messages: Mapping[tuple[str, str], Mapping[str, Any]], now: datetime) -> None:
    """Order messages with a content, which may be the first of their subjects."""
    known = _rows_of(connection, _ANEW, list(messages.values()))
    if known == len(messages):
        return
    new = dict(messages)
    if known != 0:
        subjects = [subject for _, subject in messages]
        for row in connection.execute(_KNOWN, {"kinds": {kind for kind, _ in messages}, "subjects": subjects}):
            new.pop((row.kind, row.subject), None)
    names = {"version": 1, "created_at": now}
    rows = [
        {"kind": kind, "subject": subject, **names, **{name: content[name] for name in _CONTENT}}
        for (kind, subject), content in new.items()
    ]
    if rows:
        connection.execute(insert(outbox), rows)
