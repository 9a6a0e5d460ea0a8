"""The audit trail's rows: appended in the transaction of what they tell, asked for, and checked."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from supervisor_core.domain.audit import GENESIS, AuditEntry, ChainHead, row_hash
from supervisor_core.domain.canonical import canonical_json
from supervisor_core.ledger.audit_search import AuditFilter, search
from supervisor_core.ledger.tables import audit_log

__all__ = ["AuditFilter", "Fault", "append", "hash_of", "newest_row", "search", "targets_of", "verify"]

COLUMNS = tuple(column.name for column in audit_log.columns)
_CUT = ("actor", "action", "target_type", "target_id", "label")
_WIDTHS = {name: getattr(audit_log.c[name].type, "length", 0) for name in _CUT}

APPENDED = "supervisor_audit_appended"
"""Set in a connection's `info` by each append, so that a commit knows whether the chain has a new head."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first row at which a chain is not what was written."""

    supervisor_id: str
    audit_id: int
    what: str


def append(connection: Connection, supervisor_id: str, entry: AuditEntry, now: datetime) -> ChainHead:
    """Add a row to this host's chain, in the caller's transaction, which holds the write lock."""
    newest = newest_row(connection, supervisor_id, lock=True)
    row: dict[str, Any] = {
        "supervisor_id": supervisor_id,
        "audit_id": newest.audit_id + 1 if newest else 1,
        "outcome": entry.outcome,
        "actor": entry.actor,
        "action": entry.action,
        "target_type": entry.target_type,
        "target_id": entry.target_id,
        "label": entry.label,
        "created_at": now,
        "details_json": canonical_json(entry.details),
        "task_id": entry.task_id,
        "previous_hash": newest.hash if newest else GENESIS,
    }
    for name, width in _WIDTHS.items():
        row[name] = row[name] and row[name][:width]  # cut before it is hashed: a database must not
    row["hash"] = row_hash(row)
    connection.execute(insert(audit_log), row)
    connection.info[APPENDED] = True
    return ChainHead(supervisor_id, row["audit_id"], row["hash"])


def newest_row(connection: Connection, supervisor_id: str, *, lock: bool = False) -> ChainHead | None:
    """The head of this host's chain, or None before its first row."""
    query = (
        select(audit_log.c.audit_id, audit_log.c.hash)
        .where(audit_log.c.supervisor_id == supervisor_id)
        .order_by(audit_log.c.audit_id.desc())
        .limit(1)
    )
    row = connection.execute(query.with_for_update() if lock else query).first()
    return ChainHead(supervisor_id, row.audit_id, row.hash) if row else None


def hash_of(connection: Connection, supervisor_id: str, audit_id: int) -> str | None:
    """The hash of one row, or None where there is no such row."""
    query = select(audit_log.c.hash).where(audit_log.c.supervisor_id == supervisor_id, audit_log.c.audit_id == audit_id)
    return connection.execute(query).scalar()


def targets_of(connection: Connection, task_id: str, action: str) -> list[str]:
    """To whom this command has done this already; nobody, before it was dealt with."""
    mine = (audit_log.c.task_id == task_id, audit_log.c.action == action)
    query = select(audit_log.c.target_id).where(*mine).order_by(audit_log.c.audit_id)
    return list(connection.execute(query).scalars())


def verify(connection: Connection, heads: Sequence[ChainHead] = ()) -> tuple[int, list[Fault]]:
    """How many rows were checked, and for each chain the first place where it is not what was written.

    `heads` are the newest rows as they are known outside the ledger: a chain without one may have lost its end, and
    that is said.
    """
    known = {head.supervisor_id: head for head in heads}
    chains = set(connection.execute(select(audit_log.c.supervisor_id).distinct()).scalars()) | set(known)
    count, faults = 0, []
    for chain in sorted(chains):
        rows, fault = _verify_chain(connection, chain, known.get(chain))
        count += rows
        if fault is None and chain not in known:
            fault = Fault(chain, rows + 1, "may be missing: what the newest row was is not known outside the ledger")
        if fault:
            faults.append(fault)
    return count, faults


def _verify_chain(connection: Connection, chain: str, head: ChainHead | None) -> tuple[int, Fault | None]:
    with closing(_rows_of(connection, chain)) as rows:
        return _follow(rows, chain, head)


def _follow(rows: Iterator[dict[str, Any]], chain: str, head: ChainHead | None) -> tuple[int, Fault | None]:
    expected, previous, hash_at_head = 1, GENESIS, None
    for row in rows:
        found = row["audit_id"]
        if found != expected:
            return expected - 1, Fault(chain, expected, f"is missing: row {found} comes next")
        if row["hash"] != row_hash(row):
            return expected - 1, Fault(chain, found, "was altered: its content does not give its hash")
        if row["previous_hash"] != previous:
            # This row is whole, so it is the one before that was written anew, with a hash to match.
            return expected - 1, Fault(chain, max(found - 1, 1), "was altered: the row after it knows another hash")
        if head and found == head.audit_id:
            hash_at_head = row["hash"]
        expected, previous = expected + 1, row["hash"]
    last = expected - 1
    if head and head.audit_id > last:
        return last, Fault(chain, last + 1, f"is missing: the trail had {head.audit_id} rows and ends at {last}")
    if head and head.audit_id and hash_at_head != head.hash:
        return last, Fault(chain, head.audit_id, "is not the row that was written: the trail was written anew")
    return last, None


def _rows_of(connection: Connection, chain: str) -> Generator[dict[str, Any], None, None]:
    """A chain of any length, a thousand rows at a time."""
    query = select(audit_log).where(audit_log.c.supervisor_id == chain).order_by(audit_log.c.audit_id)
    with connection.execute(query, execution_options={"yield_per": 1000}) as result:
        for row in result.mappings():
            yield dict(row)
