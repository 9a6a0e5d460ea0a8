"""Archiving old rows of an audit trail: once a file holds them, the chain's anchor moves, and then they're removed.

The anchor and the row that records the archiving are one transaction, and that transaction is the moment of the
archiving. Before it nothing has changed. After it the triggers allow the removal of exactly these rows, the oldest
first, in small transactions; whoever is killed meanwhile leaves rows that the next archiving removes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from supervisor_core.domain import crashpoints
from supervisor_core.domain.audit import ARCHIVED, AuditEntry, ChainHead
from supervisor_core.domain.command import Issuer
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.ledger import audit, forward_marks
from supervisor_core.ledger.audit_rows import numbered
from supervisor_core.ledger.store import Ledger
from supervisor_core.ledger.tables import audit_anchors, audit_log, audit_workers

BATCH = 2_000
"""Rows that are removed in one transaction: some tens of milliseconds, which a command may have to wait."""


class ArchivingRefused(SupervisorError):
    """These rows can't be archived now."""


@dataclass(frozen=True, slots=True)
class Archiving:
    """The rows of one chain that are to be archived: those behind `after`, up to `last`."""

    after: int
    last: ChainHead


def plan(connection: Connection, supervisor_id: str, before: datetime, most: int | None) -> Archiving | None:
    """The oldest rows of this chain, up to the first that is newer; None where there are none. `most`: the number of
    the last row that is forwarded, where rows are forwarded."""
    anchor = audit.anchor_of(connection, supervisor_id)
    after = anchor.audit_id if anchor else 0
    mine = (audit_log.c.supervisor_id == supervisor_id, audit_log.c.audit_id > after, *numbered(connection))
    newer = select(func.min(audit_log.c.audit_id)).where(*mine, audit_log.c.created_at >= before)
    first_newer = connection.execute(newer).scalar()
    up_to = [audit_log.c.audit_id < first_newer] if first_newer is not None else []
    up_to += [audit_log.c.audit_id <= most] if most is not None else []
    query = select(audit_log.c.audit_id).where(*mine, *up_to).order_by(audit_log.c.audit_id.desc()).limit(1)
    last = connection.execute(query).scalar()
    if last is None:
        return None
    return Archiving(after, ChainHead(supervisor_id, last, audit.hash_of(connection, supervisor_id, last) or ""))


def forwarded(connection: Connection, supervisor_id: str) -> int:
    """The number of a row up to which this chain is in the shared database, by the ledger's own note."""
    origin = forward_marks.origin_of(connection, supervisor_id)
    marks = forward_marks.noted(connection, origin)
    others = (audit.newest_row(connection, each) for each in forward_marks.chains(connection) if each != supervisor_id)
    return max(0, (marks.audit_rows if marks else 0) - sum(head.audit_id for head in others if head))


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
            raise ArchivingRefused("Somebody else has archived rows meanwhile.", remedy="Look at that, then try again.")
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
    """Remove the rows that are archived and still there; how many that were."""
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
