"""The progress of a hub's copies of its hosts' ledgers, and the id of this ledger.

A mark is written in the transaction of the rows it covers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, Connection, RowMapping, func, insert, select, update

from supervisor_core.common.text import is_plain
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.cells import as_stored
from supervisor_core.storage.audit.chain import ChainHead
from supervisor_core.storage.tables import audit_log, forwarding


@dataclass(frozen=True, slots=True)
class Marks:
    """The point up to which all rows are copied."""

    jobs_changed: int = 0
    audit_rows: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """The owner of the rows: a new ledger, or one with another name, begins from the start."""

    ledger_id: str
    supervisor_id: str


def origin_of(connection: Connection, supervisor_id: str) -> Origin:
    """The identity of this ledger, made by the first call, in a transaction that may write."""
    found = connection.execute(select(forwarding.c.ledger_id).limit(1)).scalar()
    origin = Origin(found or uuid.uuid4().hex, supervisor_id)
    read(connection, origin)
    return origin


def read(connection: Connection, origin: Origin, *, lock: bool = False) -> Marks:
    """The marks, created if there are none. With `lock`, nobody else copies this ledger meanwhile."""
    marks = stored_marks(connection, origin, lock=lock)
    if marks is None:
        names = {"ledger_id": origin.ledger_id, "supervisor_id": origin.supervisor_id}
        connection.execute(insert(forwarding), {**names, "jobs_changed": 0, "audit_rows": 0})
        return Marks()
    return marks


def stored_marks(connection: Connection, origin: Origin, *, lock: bool = False) -> Marks | None:
    """The marks; None if there are none."""
    query = select(forwarding).where(*_mine(origin))
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    return _marks(row) if row else None


def _marks(row: RowMapping) -> Marks:
    return Marks(row["jobs_changed"], row["audit_rows"])


def write(connection: Connection, origin: Origin, marks: Marks) -> None:
    """Store the marks of a ledger."""
    connection.execute(update(forwarding).where(*_mine(origin)).values(asdict(marks)))


def _mine(origin: Origin) -> tuple[ColumnElement[bool], ...]:
    return (forwarding.c.ledger_id == origin.ledger_id, forwarding.c.supervisor_id == origin.supervisor_id)


def chains(connection: Connection) -> Iterator[str]:
    """The audit chains of a ledger: one, unless the supervisor had another name before. It takes one query for each,
    without reading all rows. Names that aren't text are skipped."""
    chain: str | None = ""
    while chain := connection.execute(
        select(func.min(audit_log.c.supervisor_id)).where(audit_log.c.supervisor_id > as_stored(chain))
    ).scalar():
        if not isinstance(chain, str):
            return
        if is_plain(chain):
            yield chain


def copied_heads(connection: Connection, own: str) -> list[ChainHead]:
    """The newest rows of the chains that were copied from other hosts, as noted with the copying."""
    noted = (forwarding.c.supervisor_id != own, forwarding.c.audit_rows > 0)
    query = select(forwarding.c.supervisor_id, func.max(forwarding.c.audit_rows)).where(*noted)
    found = connection.execute(query.group_by(forwarding.c.supervisor_id)).all()
    return [ChainHead(chain, number, audit.hash_of(connection, chain, number) or "") for chain, number in found]
