"""Audit trails as files: JSON lines that anybody can check, CSV, and the archiving of old rows.

Lines come in the order of the chain. A file may begin and end anywhere in it; files that follow each other are checked
as one.

Moving the chain's anchor and recording it is one transaction, and that transaction is the moment of the archiving.
Before it nothing has changed. After it the triggers allow the removal of exactly these rows, the oldest first, in small
transactions; what a crash leaves the next archiving removes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from supervisor_core.commands.command import Issuer
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import from_text, to_text
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.cells import Row, format_row, has_number
from supervisor_core.storage.audit.chain import ARCHIVED, COLUMNS, AuditEntry, ChainHead
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_anchors, audit_log, audit_workers


@dataclass(frozen=True, slots=True)
class ChainPart:
    """The part of one chain that was found in files."""

    supervisor_id: str
    first_id: int
    rows: int
    last: ChainHead


@dataclass(frozen=True, slots=True)
class FileCheck:
    """Everything that was found in files."""

    parts: tuple[ChainPart, ...]
    faults: tuple[audit.Fault, ...]


def line_of(row: Mapping[str, Any]) -> str:
    """A row as a line."""
    return canonical_json(format_row(row))


def lines(connection: Connection) -> Iterator[str]:
    """All rows of all chains, in their order. Damaged ones are written as they can be shown."""
    return map(line_of, audit.stored_rows(connection))


def lines_between(connection: Connection, supervisor_id: str, after: int, last: int) -> Iterator[str]:
    """The rows of one chain behind one number and up to another."""
    number = audit_log.c.audit_id
    query = select(audit_log).where(audit_log.c.supervisor_id == supervisor_id, number > after, number <= last)
    with connection.execute(query.order_by(number), execution_options={"yield_per": 1000}) as result:
        yield from (line_of(row) for row in map(dict, result.mappings()))


def check(found: Iterable[str]) -> FileCheck:
    """Follow the chains in these lines."""
    walks: dict[str, tuple[audit.Walk, int]] = {}
    lasts: dict[str, ChainHead] = {}
    faults: list[audit.Fault] = []
    for number, line in enumerate(found, 1):
        row = _row(line)
        if row is None:
            if len(faults) < audit.MOST_FAULTS:
                faults.append(audit.Fault("", number, "isn't an audit row"))
            continue
        name, audit_id = row["supervisor_id"], row["audit_id"]
        if name not in walks:
            walks[name] = (audit.Walk(name, anywhere=True), audit_id)
        walk, _ = walks[name]
        if walk.take(row):
            lasts[name] = ChainHead(name, audit_id, row["hash"])
    faults += [fault for walk, _ in walks.values() for fault in walk.faults]
    parts = (ChainPart(name, first, walk.whole, lasts[name]) for name, (walk, first) in walks.items() if name in lasts)
    return FileCheck(tuple(parts), tuple(faults[: audit.MOST_FAULTS]))


def _row(line: str) -> Row | None:
    """The row that a line holds, as a database would give it."""
    try:
        row = json.loads(line)
        values: Row = {name: row[name] for name in audit.COLUMNS}
        if not isinstance(values["supervisor_id"], str) or type(values["audit_id"]) is not int:
            return None
        moment = from_text(values["created_at"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return {**values, "created_at": moment} if to_text(moment) == values["created_at"] else values


BATCH = 2_000
"""Rows that are removed in one transaction: some tens of milliseconds, which a command may have to wait."""


class ArchivingRefused(SupervisorError):
    """These rows can't be archived right now."""


@dataclass(frozen=True, slots=True)
class Archiving:
    """The rows of one chain that are to be archived: those behind `after`, up to `last`."""

    after: int
    last: ChainHead


def plan_archiving(connection: Connection, supervisor_id: str, before: datetime, most: int | None) -> Archiving | None:
    """The oldest rows of this chain, up to the first that is newer; None where there are none. `most`: the last
    row that may go, because later ones still wait for the shared database."""
    anchor = audit.anchor_of(connection, supervisor_id)
    after = anchor.audit_id if anchor else 0
    mine = (
        audit_log.c.supervisor_id == supervisor_id,
        audit_log.c.audit_id > after,
        *has_number(connection.dialect.name),
    )
    newer = select(func.min(audit_log.c.audit_id)).where(*mine, audit_log.c.created_at >= before)
    first_newer = connection.execute(newer).scalar()
    up_to = [audit_log.c.audit_id < first_newer] if first_newer is not None else []
    up_to += [audit_log.c.audit_id <= most] if most is not None else []
    query = select(audit_log.c.audit_id).where(*mine, *up_to).order_by(audit_log.c.audit_id.desc()).limit(1)
    last = connection.execute(query).scalar()
    if last is None:
        return None
    return Archiving(after, ChainHead(supervisor_id, last, audit.hash_of(connection, supervisor_id, last) or ""))


def archive(ledger: Ledger, archiving: Archiving, by: Issuer, details: Mapping[str, Any], now: datetime) -> None:
    """Move the anchor and record it. `ArchivingRefused` where somebody else has archived meanwhile."""
    last = archiving.last
    row = {"audit_id": last.audit_id, "hash": last.hash, "archived_at": now}
    about = {**details, "first_id": archiving.after + 1, "last_id": last.audit_id, "hash": last.hash}
    entry = AuditEntry(
        by.id, ARCHIVED, last.supervisor_id, label=by.name or None, target_type="supervisor", details=about
    )

    def write(connection: Connection) -> None:
        anchor = audit.anchor_of(connection, last.supervisor_id)
        if (anchor.audit_id if anchor else 0) != archiving.after:
            raise ArchivingRefused(
                "Another process archived rows in the meantime.", remedy="Check that archive, then try again."
            )
        mine = audit_anchors.c.supervisor_id == last.supervisor_id
        if anchor:
            connection.execute(update(audit_anchors).where(mine).values(row))
        else:
            connection.execute(insert(audit_anchors), {"supervisor_id": last.supervisor_id, **row})
        audit.append(connection, ledger.supervisor_id, entry, now)

    crashpoints.reach("audit_anchors_t.moved:before")
    ledger.write(write)
    crashpoints.reach("audit_anchors_t.moved:after")


def remove_archived(ledger: Ledger) -> int:
    """Remove the archived rows that are still there. Returns their number."""
    anchor = ledger.read(lambda connection: audit.anchor_of(connection, ledger.supervisor_id))
    removed = 0
    while anchor:
        count = ledger.write(lambda connection, anchor=anchor: _remove(connection, anchor))  # type: ignore[misc]
        if not count:
            break
        removed += count
        crashpoints.reach("audit_log_t.removed:after")
    return removed


def _remove(connection: Connection, anchor: ChainHead) -> int:
    mine = (audit_log.c.supervisor_id == anchor.supervisor_id, audit_log.c.audit_id <= anchor.audit_id)
    number = audit_log.c.audit_id
    oldest = connection.execute(select(number).where(*mine).order_by(number).limit(BATCH)).scalars().all()
    if not oldest:
        return 0
    index = audit_workers.c
    connection.execute(
        delete(audit_workers).where(index.supervisor_id == anchor.supervisor_id, index.audit_id <= oldest[-1])
    )
    return connection.execute(delete(audit_log).where(*mine, number <= oldest[-1])).rowcount


AFFECTED = "affected"
"""After them the workers that a row affected beside its target: `fetcher=restarted reporter=restarted`."""
DAMAGED = "damaged"
"""The last column: what is wrong with a row that was altered."""

_RUN = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of cells that a spreadsheet would run as a formula."""


def audit_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows in the order in which they come."""
    text = io.StringIO()
    columns = (*COLUMNS, AFFECTED, DAMAGED)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        others = " ".join(f"{worker}={role}" for worker, role in sorted(row.get(AFFECTED, {}).items()))
        writer.writerow({name: _harmless({**row, AFFECTED: others}.get(name, "")) for name in columns})
    return text.getvalue()


def _harmless(value: object) -> object:
    """Quote a cell that a spreadsheet would run."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _RUN else value
