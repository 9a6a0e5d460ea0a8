"""Audit trails as files: JSON lines that anybody can check, CSV, and the archiving of old rows.

Lines come in the order of the chain. A file may begin and end anywhere in it; files that follow each other are checked
as one.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, select

from supervisor_core.commands.command import Issuer
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import canonical_json, printable
from supervisor_core.common.times import from_text, to_text
from supervisor_core.host.files import digest_of, read_lines, write_lines
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import COLUMNS, AuditEntry, ChainHead, Fault, Row, Walk
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log

REMOVED_AT_ONCE = 2_000
"""Rows of one transaction: some tens of milliseconds, which a command may have to wait."""


class ArchivingRefused(SupervisorError):
    """These rows can't be archived right now."""


def lines(connection: Connection) -> Iterator[str]:
    """All rows of all chains, in their order. Damaged ones are written as they can be shown."""
    return (canonical_json(chain.format_row(row)) for row in chain.stored_rows(connection))


def check(found: Iterable[str]) -> tuple[list[Walk], list[Fault]]:
    """Follow the chains in these lines. Returns the chains, and all faults in them and around them."""
    walks: dict[str, Walk] = {}
    faults: list[Fault] = []
    for number, line in enumerate(found, 1):
        row = _row(line)
        if row is not None:
            name = row["supervisor_id"]
            walks.setdefault(name, Walk(name, anywhere=True)).take(row)
        elif len(faults) < chain.MOST_FAULTS:
            faults.append(Fault("", number, "isn't an audit row"))
    faults += [fault for walk in walks.values() for fault in walk.faults]
    return [walk for walk in walks.values() if walk.head], faults[: chain.MOST_FAULTS]


def _row(line: str) -> Row | None:
    """The row that a line holds, as a database would give it."""
    try:
        row = json.loads(line)
        values: Row = {name: row[name] for name in COLUMNS}
        if not isinstance(values["supervisor_id"], str) or type(values["audit_id"]) is not int:
            return None
        moment = from_text(values["created_at"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return {**values, "created_at": moment} if to_text(moment) == values["created_at"] else values


def archive(
    ledger: Ledger, before: datetime, path: Path, by: Issuer, now: datetime, most: int | None = None
) -> tuple[int, ChainHead] | None:
    """Move this host's rows from before a moment to a new file. Returns the number of the first and the last row; None
    where there are none.

    1. The rows are the oldest, up to the first that is newer, or up to `most`.
    2. The file is written, read back from the disk, and compared. Damaged rows aren't archived.
    3. A row records the archiving. This is the moment of it: before, nothing has changed.
    4. The rows are removed, the oldest first. The next archiving removes what a crash leaves.
    """
    name = ledger.supervisor_id
    number, row_time = audit_log.c.audit_id, audit_log.c.created_at

    def plan(connection: Connection) -> tuple[int, ChainHead] | None:
        archived = chain.last_archived(connection, name)
        after = archived.audit_id if archived else 0
        own = [audit_log.c.supervisor_id == name, number > after, *chain.has_number(connection.dialect.name)]
        first_newer = connection.execute(select(func.min(number)).where(*own, row_time >= before)).scalar()
        own += [number < first_newer] if first_newer is not None else []
        own += [number <= most] if most is not None else []
        last = connection.execute(select(func.max(number)).where(*own)).scalar()
        if last is None:
            return None
        return after + 1, ChainHead(name, last, chain.hash_of(connection, name, last) or "")

    planned = ledger.read(plan)
    if planned is None:
        return None
    first, last = planned

    def write_file(connection: Connection) -> str:
        query = select(audit_log).where(audit_log.c.supervisor_id == name, number >= first, number <= last.audit_id)
        with connection.execute(query.order_by(number), execution_options={"yield_per": 1000}) as result:
            rows = (chain.format_row(dict(row)) for row in result.mappings())
            return write_lines(path, map(canonical_json, rows))

    crashpoints.reach("audit.archive:before")
    digest = ledger.read(write_file)
    crashpoints.reach("audit.archive:after")
    walks, faults = check(read_lines(path))
    written = [(walk.first_id, walk.whole, walk.head) for walk in walks]
    if faults or written != [(first, last.audit_id - first + 1, last)] or digest_of(path) != digest:
        problem = f": {printable(faults[0].place)} {faults[0].what}" if faults else ""
        path.unlink(missing_ok=True)
        raise ArchivingRefused(
            f"These rows aren't what was written{problem}. Nothing was archived.",
            remedy="`supervisor audit verify` names every such row. Archive only rows before the first of them.",
        )
    details = {
        "file": str(path),
        "sha256": digest,
        "before": to_text(before),
        "first_id": first,
        "last_id": last.audit_id,
        "hash": last.hash,
    }
    entry = AuditEntry(by.id, chain.ARCHIVED, name, label=by.name or None, target_type="supervisor", details=details)

    def record(connection: Connection) -> None:
        archived = chain.last_archived(connection, name)
        if (archived.audit_id if archived else 0) != first - 1:
            raise ArchivingRefused(
                "Another process archived rows in the meantime.", remedy="Check that archive, then try again."
            )
        chain.append(connection, name, entry, now)

    crashpoints.reach("audit_log_t.archived:before")
    ledger.write(record)
    crashpoints.reach("audit_log_t.archived:after")
    remove_archived(ledger)
    return first, last


def remove_archived(ledger: Ledger) -> int:
    """Remove the archived rows that are still there. Returns their number."""
    archived = ledger.read(lambda connection: chain.last_archived(connection, ledger.supervisor_id))
    number, removed, count = audit_log.c.audit_id, 0, 1

    def remove(connection: Connection, last: ChainHead) -> int:
        own = (audit_log.c.supervisor_id == last.supervisor_id, number <= last.audit_id)
        query = select(number).where(*own).order_by(number).limit(REMOVED_AT_ONCE)
        oldest = connection.execute(query).scalars().all()
        return connection.execute(delete(audit_log).where(*own, number <= oldest[-1])).rowcount if oldest else 0

    while archived and count:
        count = ledger.write(partial(remove, last=archived))
        removed += count
        if count:
            crashpoints.reach("audit_log_t.removed:after")
    return removed


def audit_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows in the order in which they come; the last column has the damage of a row that was altered."""
    text = io.StringIO()
    columns = (*COLUMNS, "command", chain.DAMAGED)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {name: row.get(name, "") for name in columns}
        # A spreadsheet would run a cell that begins like a formula.
        runs = ("=", "+", "-", "@", "\t", "\r")
        writer.writerow({name: f"'{cell}" if str(cell)[:1] in runs else cell for name, cell in cells.items()})
    return text.getvalue()
