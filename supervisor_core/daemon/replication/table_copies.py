"""The ways in which forwarding finds the changed rows of a table, each for a kind of table.

Append-only rows follow the newest row in the shared database. Jobs have a number that rises with each change. The other
tables are small: their rows are compared with those in the shared database.

The tables that forwarding copies: a specification for each, and the loop that copies by it.

A `Copy` says how the changed rows of a table are found in the ledger, what is left out of them, and which row in the
shared database each one updates. `find` reads one picture of the ledger; `write` runs in the transaction of the marks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Integer, Table, bindparam, func, insert, or_, select, update

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import storable
from supervisor_core.intake.approvals.rules import FINAL
from supervisor_core.storage import replication_progress, tables
from supervisor_core.storage.audit import cells as audit_rows
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import damage_of
from supervisor_core.storage.audit.names import affected_between
from supervisor_core.storage.replication_progress import Marks
from supervisor_core.storage.tables import approvals, audit_log, votes
from supervisor_core.workers.health import SKEW_SECONDS

APPROVALS_COMPARED_FOR = timedelta(days=1)
"""Time after its end in which an approval is still compared, because clocks are set and backups restored."""

MOST_APPROVALS = 50
"""In one batch: each has its preview, which may be long."""

# The columns of an approval that change after it was requested.
_CHANGING = ("state", "due_at", "decided_at", "finished_at", "reason")

log = logging.getLogger(__name__)

Row = dict[str, Any]


class DivergedHistory(SupervisorError):
    """The shared database has a different audit trail under this name."""


@dataclass(slots=True)
class CopyScope:
    """Both databases of one batch, its limits, and the rows that were found for it."""

    local: Connection
    shared: Connection
    supervisor_id: str
    marks: Marks
    """Moved by the finders to the state of the shared database after the batch."""
    most_rows: int
    most_characters: int
    compare_all: bool
    """True to compare all approvals, not only open and recent ones."""
    told: set[str]
    """Chains of which it was logged that they aren't this ledger's."""
    found: dict[str, Sequence[Row]] = field(default_factory=dict)
    """By table."""
    unfinished: set[str] = field(default_factory=set)
    """Tables that may have more changed rows than the batch holds."""


def after_the_newest_there(scope: CopyScope, table: Table) -> list[Row]:
    """The next audit rows of each chain. Nothing follows a newest row that isn't the ledger's own."""
    rows: list[Row] = []
    there = 0
    for chain in replication_progress.chains(scope.local):
        begin = _common_end(scope, chain)
        if begin is None:
            head = audit.newest_row(scope.local, chain)
            there += head.audit_id if head else 0
            continue
        query = select(table).where(
            table.c.supervisor_id == chain, table.c.audit_id > begin, *audit_rows.has_number(scope.local.dialect.name)
        )
        some = _some(scope, table, query.order_by(table.c.audit_id), scope.most_rows - len(rows))
        rows += some
        there += some[-1]["audit_id"] if some else begin
    scope.marks = replace(scope.marks, audit_rows=there)
    return rows


def of_found_audit_rows(scope: CopyScope, _table: Table) -> list[Row]:
    """The workers that the audit rows of this batch affected."""
    chains: dict[str, list[Row]] = {}
    for row in scope.found[audit_log.name]:
        chains.setdefault(row["supervisor_id"], []).append(row)
    return [worker for chain, rows in chains.items() for worker in affected_between(scope.local, chain, rows)]


def above_the_mark(scope: CopyScope, table: Table) -> list[Row]:
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


def all_rows(scope: CopyScope, table: Table) -> list[Row]:
    """Every row."""
    return _all(scope.local, select(table).order_by(*table.primary_key.columns))


def of_this_supervisor(scope: CopyScope, table: Table) -> list[Row]:
    """Every row that this supervisor wrote."""
    mine = select(table).where(table.c.supervisor_id == scope.supervisor_id)
    return _all(scope.local, mine.order_by(*table.primary_key.columns))


def approvals_that_differ(scope: CopyScope, table: Table) -> list[Row]:
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


def of_found_approvals(scope: CopyScope, table: Table) -> list[Row]:
    """The votes on the approvals of this batch."""
    wanted = [row["approval_id"] for row in scope.found[approvals.name]]
    return _all(scope.local, select(table).where(table.c.approval_id.in_(wanted))) if wanted else []


def _all(local: Connection, query: Any) -> list[Row]:  # noqa: ANN401 (a select of SQLAlchemy's)
    return [dict(row) for row in local.execute(query).mappings()]


def _some(scope: CopyScope, table: Table, query: Any, most: int) -> list[Row]:  # noqa: ANN401 (a select of SQLAlchemy's)
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


def _common_end(scope: CopyScope, chain: str) -> int | None:
    """The newest row there of a chain, if the ledger has the same one. Two histories can't be one: this supervisor's
    own chain raises `DivergedHistory`, and None says that one of an earlier name is left as it is."""
    newest = audit.newest_row(scope.shared, chain)
    if newest is None:
        return 0
    anchor = audit.anchor_of(scope.local, chain)
    own = chain == scope.supervisor_id
    if own and anchor and newest.audit_id < anchor.audit_id:
        # A shared database that was put back from a copy may lack rows that this ledger no longer has.
        raise DivergedHistory(
            f"The shared database has the audit trail of {chain} only up to row {newest.audit_id}, but this ledger "
            f"archived its rows up to {anchor.audit_id}.",
            remedy="Restore a newer backup of the shared database, or give this host its own supervisor.id to forward "
            "again.",
        )
    if audit.hash_of(scope.local, chain, newest.audit_id) == newest.hash:
        return newest.audit_id
    words = f"Row {newest.audit_id} of the audit trail of {chain} differs between the shared database and this ledger."
    if own:
        raise DivergedHistory(
            words,
            remedy="Another host has the same supervisor.id, or the ledger was replaced or altered. "
            "Check it with `supervisor audit verify`. To forward again, give this host a supervisor.id of its own.",
        )
    if chain not in scope.told:
        scope.told.add(chain)
        log.warning("%s It's left unchanged; this host is now called %s.", words, scope.supervisor_id)
    return None


LARGEST_INTEGER = 2**31 - 1
"""Of an INTEGER in PostgreSQL and MariaDB."""


def fitting(table: Table, row: Row) -> Row:
    """SQLite takes any character, length and number; the others don't, and one row must not stop all."""
    return {name: _fit(table.c[name], value) for name, value in row.items()}


def _fit(column: Column[Any], value: Any) -> Any:  # noqa: ANN401 (whatever a column holds)
    if isinstance(value, str):
        return storable(value)[: getattr(column.type, "length", None)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and type(column.type) is Integer and abs(value) > LARGEST_INTEGER:
        return None
    return value


def _newest_allowed(now: datetime) -> datetime:
    return now + timedelta(seconds=SKEW_SECONDS)


def _differs(row: Row, there: Row, _now: datetime) -> bool:
    return row != there


def _is_newer_beat(row: Row, there: Row, now: datetime) -> bool:
    """A beat from the future, which a wrong clock left there, counts as older than any other.

    Otherwise no beat of a right clock would ever replace it.
    """
    if row == there:
        return False
    mine, theirs, latest = row["last_heartbeat_at"], there["last_heartbeat_at"], _newest_allowed(now)
    if mine is None or theirs is None:
        return theirs is None
    return bool(mine >= theirs) if (mine > latest) == (theirs > latest) else bool(theirs > latest)


def _beat_is_older(now: datetime) -> ColumnElement[bool]:
    beat = tables.workers.c.last_heartbeat_at
    return or_(beat.is_(None), beat > _newest_allowed(now), beat <= bindparam("new_last_heartbeat_at"))


def _as_hashed(table: Table, row: Row) -> Row:
    """The row as it is, because of its hash. A damaged one, which other databases may refuse, goes as it is shown: the
    check there names it as well."""
    if not damage_of(row):
        return row
    at = row["created_at"]
    shown = {name: value for name, value in audit_rows.format_row(row).items() if name in table.c}
    return fitting(table, {**shown, "created_at": at if isinstance(at, datetime) else datetime.now(UTC)})


@dataclass(frozen=True, slots=True)
class TableCopy:
    """The copying of one table's rows."""

    table: Table
    key: tuple[str, ...]
    """The columns by which a row is known in the shared database."""
    changed: Callable[[CopyScope, Table], Sequence[Row]]
    """Finds the rows that may be new or changed, in the order in which they are copied."""
    omitted: frozenset[str] = frozenset()
    """Columns that each database numbers itself."""
    prepare: Callable[[Table, Row], Row] = fitting
    """Masks or cuts what another database would refuse."""
    follows: bool = False
    """The rows follow the newest one there, so none of them is there yet."""
    final: bool = False
    """A row never changes once it is there."""
    replaces: Callable[[Row, Row, datetime], bool] | None = None
    """Decides whether a row replaces the one there. Without it every changed row does."""
    unless_newer: Callable[[datetime], ColumnElement[bool]] | None = None
    """The same in SQL, because another host may write the row between our look and our update."""
    ends: str = ""
    """The column that is emptied, with `left_at` set, in this supervisor's rows that the ledger no longer has."""
    other_owner: str = ""
    """Logged, with the key and the name, where the row there is another supervisor's."""


_AFFECTED = ("supervisor_id", "audit_id", "worker_id")
_JOBS = "command %s of %s was in the shared database under %s; it's copied again"
_mine = of_this_supervisor
COPIES = (
    TableCopy(tables.audit_log, _AFFECTED[:2], after_the_newest_there, prepare=_as_hashed, follows=True),
    TableCopy(tables.audit_workers, _AFFECTED, of_found_audit_rows, follows=True),
    TableCopy(tables.jobs, ("task_id", "worker_id"), above_the_mark, frozenset({"job_id"}), other_owner=_JOBS),
    TableCopy(tables.workers, ("worker_id",), all_rows, replaces=_is_newer_beat, unless_newer=_beat_is_older),
    TableCopy(tables.supervisors, ("supervisor_id",), _mine, replaces=_differs),
    TableCopy(tables.teams, ("team_id",), _mine, replaces=_differs),
    # While a member of a lost ledger stays active, its agent can't be in a team again.
    TableCopy(tables.team_members, ("member_id",), _mine, replaces=_differs, ends="active_agent_id"),
    TableCopy(tables.audit_anchors, ("supervisor_id",), _mine, replaces=_differs),
    TableCopy(tables.approvals, ("approval_id",), approvals_that_differ),
    TableCopy(tables.votes, ("approval_id", "voter_id"), of_found_approvals, final=True),
)
"""In the order in which they are copied: a table whose rows follow from those of another comes after it."""


def find(scope: CopyScope) -> None:
    """Read the changed rows of all tables."""
    for copy in COPIES:
        scope.found[copy.table.name] = copy.changed(scope, copy.table)


def write(shared: Connection, scope: CopyScope) -> int:
    """Insert and update the rows that were found; how many were written."""
    return sum(_write(shared, copy, found) for copy in COPIES if (found := scope.found[copy.table.name]))


def _write(shared: Connection, copy: TableCopy, found: Sequence[Row]) -> int:
    """Updates come first: an agent that left a team may be in another one now."""
    now, key = datetime.now(UTC), itemgetter(*copy.key)
    kept = [{name: value for name, value in row.items() if name not in copy.omitted} for row in found]
    rows = [copy.prepare(copy.table, row) for row in kept]
    there = {} if copy.follows else {key(row): row for row in _there(shared, copy, rows)}
    if copy.ends:
        _end_others(shared, copy, rows, now)
    new = [row for row in rows if key(row) not in there]
    known = [row for row in rows if key(row) in there and not copy.final]
    if copy.replaces:
        known = [row for row in known if copy.replaces(row, there[key(row)], now)]
    if copy.other_owner:
        for row in known:
            if (owner := there[key(row)]["supervisor_id"]) != row["supervisor_id"]:
                log.warning(copy.other_owner, *key(row), owner)
    if known:
        _update(shared, copy, known, now)
    if new:
        shared.execute(insert(copy.table), new)
    return len(known) + len(new)


def _there(shared: Connection, copy: TableCopy, rows: Sequence[Row]) -> list[Row]:
    """The rows there of the same first key; whole ones only where they are compared."""
    names = set(copy.table.c.keys() if copy.replaces else copy.key) | ({"supervisor_id"} if copy.other_owner else set())
    first = copy.table.c[copy.key[0]]
    query = select(*(copy.table.c[name] for name in names)).where(first.in_({row[first.name] for row in rows}))
    return [dict(row) for row in shared.execute(query).mappings()]


def _update(shared: Connection, copy: TableCopy, rows: Sequence[Row], now: datetime) -> None:
    """Set all columns of the rows with these keys."""
    where = [copy.table.c[name] == bindparam(f"its_{name}") for name in copy.key]
    if copy.unless_newer:
        where.append(copy.unless_newer(now))
    values: Row = {name: bindparam(f"new_{name}") for name in rows[0] if name not in copy.key}
    named = [{f"{'its' if name in copy.key else 'new'}_{name}": value for name, value in row.items()} for row in rows]
    shared.execute(update(copy.table).where(*where).values(values), named)


def _end_others(shared: Connection, copy: TableCopy, rows: Sequence[Row], now: datetime) -> None:
    """End this supervisor's rows that aren't among these."""
    first, active = copy.table.c[copy.key[0]], copy.table.c[copy.ends]
    mine = select(first).where(copy.table.c.supervisor_id == rows[0]["supervisor_id"], active.is_not(None))
    if lost := set(shared.execute(mine).scalars()) - {row[first.name] for row in rows}:
        ended = update(copy.table).where(first.in_(lost), active.is_not(None))
        shared.execute(ended.values({copy.ends: None, "left_at": now}))
