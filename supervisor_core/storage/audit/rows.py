"""The audit trail's rows: appended in the transaction of their change, and verified."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Select, bindparam, insert, select

from supervisor_core.common.text import canonical_json, storable
from supervisor_core.storage.audit.cells import Row, as_text, has_number
from supervisor_core.storage.audit.chain import ARCHIVED, GENESIS, AuditEntry, ChainHead, damage_of, row_hash
from supervisor_core.storage.audit.names import index_names, told_commands
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.engine import ORDERED, SHARES
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.storage.tables import audit_anchors, audit_log, outbox

COLUMNS = tuple(column.name for column in audit_log.columns)
_CUT = ("actor", "action", "target_type", "target_id", "label")
_WIDTHS = {name: getattr(audit_log.c[name].type, "length", 0) for name in _CUT}

HASH = 64
"""Characters of a hash."""

HASH_PREFIX = 12
"""Characters of a hash in the subject of an outbox row."""

MOST_FAULTS = 1000
"""Faults that are named; a trail that was altered everywhere has one for each row."""

APPENDED = "supervisor_audit_appended"
"""Set in a connection's `info` by each append, so that a commit knows whether the chain has a new head."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A row at which a chain isn't what was written."""

    supervisor_id: str
    """Empty where a line of a file isn't a row."""
    audit_id: int | str
    """The row's number, text where something else stands in its place, or the number of such a line."""
    what: str

    @property
    def place(self) -> str:
        """The row or the line, in words."""
        return f"row {self.audit_id} of {self.supervisor_id}" if self.supervisor_id else f"line {self.audit_id}"


def append(connection: Connection, supervisor_id: str, entry: AuditEntry, now: datetime) -> ChainHead:
    """Add a row to this host's chain, in the caller's transaction, which holds the write lock."""
    return append_all(connection, supervisor_id, [entry], now)


def append_all(connection: Connection, supervisor_id: str, entries: Sequence[AuditEntry], now: datetime) -> ChainHead:
    """`append` each of these, at least one, in this order."""
    newest = newest_row(connection, supervisor_id, lock=True)
    head = newest or ChainHead(supervisor_id, 0, GENESIS)
    rows = []
    for entry in entries:
        row = _row_after(head, entry, now)
        head = ChainHead(supervisor_id, row["audit_id"], row["hash"])
        rows.append(row)
    connection.execute(insert(audit_log), rows)
    if connection.get_execution_options().get(SHARES):
        _order_sending(connection, rows)
    for row, entry in zip(rows, entries, strict=True):
        told = told_commands(row["action"], entry.details)
        index_names(connection, supervisor_id, row["audit_id"], entry.affected, row["task_id"], now, told)
    connection.info[APPENDED] = True
    return head


def _order_sending(connection: Connection, rows: Sequence[Row]) -> None:
    """Order that these rows be sent to the shared database."""
    messages = []
    for row in rows:
        this = {"supervisor_id": row["supervisor_id"], "audit_id": row["audit_id"]}
        # With the hash: in a ledger that somebody altered, two rows may have had one number.
        subject = f"{audit_log.name}/{row['supervisor_id']}/{row['audit_id']}/{row['hash'][:HASH_PREFIX]}"
        messages.append(
            {
                "kind": SHARED_DATABASE,
                "subject": subject,
                "state": "pending",
                "version": 1,
                "payload_json": canonical_json(this),
                "attempts": 0,
                "created_at": row["created_at"],
                "due_at": row["created_at"],
            }
        )
    connection.execute(insert(outbox), messages)
    connection.info.setdefault(ORDERED, set()).add(SHARED_DATABASE)


def _row_after(head: ChainHead, entry: AuditEntry, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {
        "supervisor_id": head.supervisor_id,
        "audit_id": head.audit_id + 1,
        "outcome": entry.outcome,
        "actor": entry.actor,
        "action": entry.action,
        "target_type": entry.target_type,
        "target_id": entry.target_id,
        "label": entry.label,
        "created_at": now,
        "details_json": canonical_json(entry.details),
        "task_id": entry.task_id,
        "previous_hash": head.hash,
    }
    for name, width in _WIDTHS.items():
        row[name] = row[name] and row[name][:width]  # cut before it is hashed: a database must not
    row["hash"] = row_hash(row)
    return row


def newest_row(connection: Connection, supervisor_id: str, *, lock: bool = False) -> ChainHead | None:
    """The head of this host's chain, or None before its first row."""
    row = connection.execute(_newest(connection.dialect.name, lock=lock), {"supervisor": supervisor_id}).first()
    return ChainHead(supervisor_id, row.audit_id, _hash(row.hash)) if row else None


@cache
def _newest(dialect: str, *, lock: bool) -> Select[Any]:
    mine = audit_log.c.supervisor_id == bindparam("supervisor")
    query = select(audit_log.c.audit_id, audit_log.c.hash).where(mine, *has_number(dialect))
    query = query.order_by(audit_log.c.audit_id.desc()).limit(1)
    return query.with_for_update() if lock else query


def hash_of(connection: Connection, supervisor_id: str, audit_id: int) -> str | None:
    """The hash of one row, or None where there is no such row."""
    query = select(audit_log.c.hash).where(audit_log.c.supervisor_id == supervisor_id, audit_log.c.audit_id == audit_id)
    row = connection.execute(query).first()
    if row is None:
        anchor = anchor_of(connection, supervisor_id)
        return anchor.hash if anchor and anchor.audit_id == audit_id else None
    return _hash(row.hash)


def anchor_of(connection: Connection, supervisor_id: str) -> ChainHead | None:
    """The last archived row of a chain; None if nothing was archived."""
    return next((each for each in anchors(connection) if each.supervisor_id == supervisor_id), None)


def anchors(connection: Connection) -> list[ChainHead]:
    """The last archived row of each chain, except those that are damaged beyond recognition."""
    found = connection.execute(select(audit_anchors.c.supervisor_id, audit_anchors.c.audit_id, audit_anchors.c.hash))
    return [
        ChainHead(name, audit_id, last_hash)
        for name, audit_id, last_hash in found
        if isinstance(name, str) and type(audit_id) is int and isinstance(last_hash, str)
    ]


def _hash(stored: object) -> str:
    """The column's value, which may be no hash."""
    return storable(as_text(stored))[:HASH]


def targets_of(connection: Connection, task_id: str, action: str) -> list[str]:
    """The targets on which this command has already done this action."""
    mine = (audit_log.c.task_id == task_id, audit_log.c.action == action)
    query = select(audit_log.c.target_id).where(*mine).order_by(audit_log.c.audit_id)
    return [as_text(target) for target in connection.execute(query).scalars()]


def verify(connection: Connection, heads: Sequence[ChainHead] = ()) -> tuple[int, list[Fault]]:
    """The number of rows that match their hashes, and every place where a chain isn't what was written.

    `heads` are the newest rows as they are known outside the ledger. A chain without one may have lost its end, and
    that is a fault.
    """
    known = {head.supervisor_id: head for head in heads}
    archived = {anchor.supervisor_id: anchor for anchor in anchors(connection)}
    count, faults = 0, []
    with closing(stored_rows(connection)) as stored:
        for chain, rows in groupby(stored, key=itemgetter("supervisor_id")):
            walk = Walk(as_text(chain), known.pop(chain, None), archived.get(chain))
            for row in rows:
                walk.take(row)
            faults += walk.end()
            count += walk.whole
    for chain in sorted(known):
        faults += Walk(chain, known[chain]).end()
    return count, faults[:MOST_FAULTS]


class Walk:
    """Follows one chain from row to row. It names a damaged row and continues after it.

    The chain begins with its first row, or after its `anchor`, the last archived row. With `anywhere` it may begin with
    any row, as in an exported file.
    """

    def __init__(
        self, chain: str, head: ChainHead | None = None, anchor: ChainHead | None = None, *, anywhere: bool = False
    ) -> None:
        self.whole = 0
        self.faults: list[Fault] = []
        self._chain = chain
        self._head = head
        self._anchor = anchor
        self._anywhere = anywhere
        self._expected = 1
        self._previous: str | None = GENESIS
        """The hash of the row before; None where that row is damaged, missing or archived."""
        self._head_differs = False
        self._begun = False
        self._needs_record = False
        """True if the trail begins after the anchor and no row has recorded the archiving yet."""

    def take(self, row: Row) -> bool:
        """Take the next row, in the order of the numbers; False if it is damaged or out of place."""
        number, damage = row["audit_id"], damage_of(row)
        if not self._begun and type(number) is int and number > 0:
            self._begin(number)
        if damage:
            self._fault(number if type(number) is int else as_text(number)[:64], f"was altered: {damage}")
            if number == self._expected:
                self._expected, self._previous = number + 1, None
            return False
        self.whole += 1
        if number < self._expected:
            self._fault(number, "is out of place: the rows before it have higher numbers")
            return False
        if number > self._expected:
            self._fault(self._expected, f"is missing; the next row is {number}")
        elif self._previous not in (None, row["previous_hash"]):
            # This row matches its hash, so the one before it was written anew, with a hash to match.
            self._fault(max(number - 1, 1), "was altered: the next row has a different hash for it")
        if self._head and number == self._head.audit_id:
            self._head_differs = row["hash"] != self._head.hash
        self._look_for_the_record(row)
        self._expected, self._previous = number + 1, row["hash"]
        return True

    def _begin(self, number: int) -> None:
        """Decide where the chain begins, by the number of the first row that is there."""
        self._begun = True
        anchor = self._anchor
        if self._anywhere and number > 1:
            self._expected, self._previous = number, None
        elif anchor and number > 1:
            self._needs_record = True
            if number > anchor.audit_id:
                self._expected, self._previous = anchor.audit_id + 1, anchor.hash
            else:  # archived rows that are still to be removed
                self._expected, self._previous = number, None

    def _look_for_the_record(self, row: Row) -> None:
        anchor = self._anchor
        if anchor and row["audit_id"] == anchor.audit_id and row["hash"] != anchor.hash:
            self._fault(anchor.audit_id, "isn't the row that was archived")
        if self._needs_record and row["action"] == ARCHIVED and anchor:
            details = json.loads(row["details_json"])
            self._needs_record = (details.get("last_id"), details.get("hash")) != (anchor.audit_id, anchor.hash)

    def end(self) -> list[Fault]:
        """All faults, with what the known head says of the end."""
        head, last = self._head, self._expected - 1
        if self.faults and not self.whole:
            return self.faults  # a row whose supervisor_id was altered makes a chain of its own, with nothing before it
        if head and head.audit_id > last:
            self._fault(last + 1, f"is missing: the trail had {head.audit_id} rows and ends at {last}")
        elif head and self._head_differs:
            self._fault(head.audit_id, "isn't the original row: the trail was rewritten")
        elif not head and not self.faults:
            self._fault(last + 1, "may be missing: the newest row isn't known outside the ledger")
        if self._needs_record and self._anchor:
            number = self._anchor.audit_id
            self._fault(number, "and those before it are missing: no row records that they were archived")
        return self.faults

    def _fault(self, audit_id: int | str, what: str) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(Fault(self._chain, audit_id, what))


def stored_rows(connection: Connection) -> Generator[Row, None, None]:
    """All chains one after the other, of any length, a thousand rows at a time."""
    query = select(audit_log).order_by(audit_log.c.supervisor_id, audit_log.c.audit_id)
    with connection.execute(query, execution_options={"yield_per": 1000}) as result:
        for row in result.mappings():
            yield dict(row)


__all__ = ["AuditFilter", "Fault", "append", "hash_of", "newest_row", "search", "targets_of", "verify"]
