"""The ways in which forwarding finds the changed rows of a table, each for a kind of table.

Append-only rows follow the newest row in the shared database. Jobs have a number that rises with each change. The other
tables are small: their rows are compared with those in the shared database.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Table, func, or_, select

from supervisor_core.domain.approvals import FINAL
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.ledger import audit, audit_rows, audit_workers, forward_marks
from supervisor_core.ledger.forward_marks import Marks
from supervisor_core.ledger.tables import approvals, audit_log, votes

APPROVALS_COMPARED_FOR = timedelta(days=1)
"""How long after its end an approval is still compared: a clock may be set, and a copy of the database put back."""

MOST_APPROVALS = 50
"""In one batch: each has its preview, which may be long."""

# The columns of an approval that change after it was requested.
_CHANGING = ("state", "due_at", "decided_at", "finished_at", "reason")

log = logging.getLogger(__name__)

Row = dict[str, Any]


class OtherHistory(SupervisorError):
    """The shared database has an audit trail of this name that is not the ledger's."""


@dataclass(slots=True)
class Scope:
    """Both databases of one batch, its limits, and the rows that were found for it."""

    local: Connection
    shared: Connection
    supervisor_id: str
    marks: Marks
    """Moved by the finders to where the shared database stands after the batch."""
    most_rows: int
    most_characters: int
    compare_all: bool
    """Whether all approvals are compared, not only the open and recent ones."""
    told: set[str]
    """Chains of which it was logged that they aren't this ledger's."""
    found: dict[str, Sequence[Row]] = field(default_factory=dict)
    """By table."""
    unfinished: set[str] = field(default_factory=set)
    """Tables that may have more changed rows than the batch holds."""


def after_the_newest_there(scope: Scope, table: Table) -> list[Row]:
    """The next audit rows of each chain. Nothing follows a newest row that isn't the ledger's own."""
    rows: list[Row] = []
    there = 0
    for chain in forward_marks.chains(scope.local):
        begin = _common_end(scope, chain)
        if begin is None:
            head = audit.newest_row(scope.local, chain)
            there += head.audit_id if head else 0
            continue
        query = select(table).where(
            table.c.supervisor_id == chain, table.c.audit_id > begin, *audit_rows.numbered(scope.local)
        )
        some = _some(scope, table, query.order_by(table.c.audit_id), scope.most_rows - len(rows))
        rows += some
        there += some[-1]["audit_id"] if some else begin
    scope.marks = replace(scope.marks, audit_rows=there)
    return rows


def of_found_audit_rows(scope: Scope, _table: Table) -> list[Row]:
    """The workers that the audit rows of this batch affected."""
    chains: dict[str, list[Row]] = {}
    for row in scope.found[audit_log.name]:
        chains.setdefault(row["supervisor_id"], []).append(row)
    return [worker for chain, rows in chains.items() for worker in audit_workers.between(scope.local, chain, rows)]


def above_the_mark(scope: Scope, table: Table) -> list[Row]:
    """The next rows by the number of their last change. Rows that one statement changed stay together: the mark can't
    part them."""
    changes = select(table).order_by(table.c.changed)
    rows = _some(scope, table, changes.where(table.c.changed > scope.marks.jobs_changed), scope.most_rows)
    if not rows:
        return rows
    last = rows[-1]["changed"]
    if table.name in scope.unfinished:
        rows = [row for row in rows if row["changed"] != last]
        rows += _all(scope.local, changes.where(table.c.changed == last))
    scope.marks = replace(scope.marks, jobs_changed=last)
    return rows


def all_rows(scope: Scope, table: Table) -> list[Row]:
    """Every row."""
    return _all(scope.local, select(table).order_by(*table.primary_key.columns))


def of_this_supervisor(scope: Scope, table: Table) -> list[Row]:
    """Every row that this supervisor wrote."""
    mine = select(table).where(table.c.supervisor_id == scope.supervisor_id)
    return _all(scope.local, mine.order_by(*table.primary_key.columns))


def approvals_that_differ(scope: Scope, table: Table) -> list[Row]:
    """The approvals whose state or votes aren't the same there."""
    mine = table.c.supervisor_id == scope.supervisor_id
    brought_at = scope.marks.forwarded_at
    if brought_at is not None and not scope.compare_all:
        mine &= or_(table.c.state.not_in(FINAL), table.c.finished_at >= brought_at - APPROVALS_COMPARED_FOR)
    here = _standing(scope.local, mine)
    if not here:
        return []
    oldest = min(requested_at for requested_at, *_ in here.values())
    there = _standing(scope.shared, (table.c.supervisor_id == scope.supervisor_id) & (table.c.requested_at >= oldest))
    wanted = [approval_id for approval_id, stands in here.items() if there.get(approval_id) != stands]
    if len(wanted) > MOST_APPROVALS:
        scope.unfinished.add(table.name)
    return _all(scope.local, select(table).where(table.c.approval_id.in_(wanted[:MOST_APPROVALS])))


def of_found_approvals(scope: Scope, table: Table) -> list[Row]:
    """The votes on the approvals of this batch."""
    wanted = [row["approval_id"] for row in scope.found[approvals.name]]
    return _all(scope.local, select(table).where(table.c.approval_id.in_(wanted))) if wanted else []


def _all(local: Connection, query: Any) -> list[Row]:  # noqa: ANN401 (a select of SQLAlchemy's)
    return [dict(row) for row in local.execute(query).mappings()]


def _some(scope: Scope, table: Table, query: Any, most: int) -> list[Row]:  # noqa: ANN401 (a select of SQLAlchemy's)
    """The first rows of a query, as many as a batch may hold, at least one."""
    rows: list[Row] = []
    characters = 0
    with scope.local.execute(query.limit(max(most, 0)), execution_options={"yield_per": 100}) as result:
        for row in result.mappings():
            rows.append(dict(row))
            characters += sum(len(value) for value in row.values() if isinstance(value, str))
            if characters > scope.most_characters:
                break
    if characters > scope.most_characters or len(rows) >= most:
        scope.unfinished.add(table.name)
    return rows


def _standing(connection: Connection, which: Any) -> Mapping[str, tuple[Any, ...]]:  # noqa: ANN401 (a clause of SQLAlchemy's)
    """What changes in each of these approvals, oldest first: the number of its votes, and some of its columns."""
    count = select(func.count()).where(votes.c.approval_id == approvals.c.approval_id).scalar_subquery()
    columns = [approvals.c[name] for name in _CHANGING]
    query = (
        select(approvals.c.approval_id, approvals.c.requested_at, count, *columns)
        .where(which)
        .order_by(approvals.c.requested_at)
    )
    return {row[0]: tuple(row[1:]) for row in connection.execute(query)}


def _common_end(scope: Scope, chain: str) -> int | None:
    """The newest row there of a chain, if the ledger has the same one. Two histories can't be one: this supervisor's
    own chain raises `OtherHistory`, and None says that one of an earlier name is left as it is."""
    newest = audit.newest_row(scope.shared, chain)
    if newest is None:
        return 0
    anchor = audit.anchor_of(scope.local, chain)
    own = chain == scope.supervisor_id
    if own and anchor and newest.audit_id < anchor.audit_id:
        # A shared database that was put back from a copy may lack rows that this ledger no longer has.
        raise OtherHistory(
            f"The shared database ends at row {newest.audit_id} of the audit trail of {chain}, and this ledger has "
            f"archived its rows up to {anchor.audit_id}.",
            remedy="Restore a newer backup of the shared database. A supervisor.id of its own lets this host forward "
            "again, too.",
        )
    if audit.hash_of(scope.local, chain, newest.audit_id) == newest.hash:
        return newest.audit_id
    words = f"The shared database has another row {newest.audit_id} in the audit trail of {chain} than this ledger."
    if own:
        raise OtherHistory(
            words,
            remedy="Another host has the same supervisor.id, or the ledger was replaced or altered. "
            "`supervisor audit verify` checks the ledger; a supervisor.id of its own lets this host forward again.",
        )
    if chain not in scope.told:
        scope.told.add(chain)
        log.warning("%s It is left as it is; this host is called %s now.", words, scope.supervisor_id)
    return None
