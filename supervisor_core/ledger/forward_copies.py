"""The tables that forwarding copies: a specification for each, and the loop that copies by it.

A `Copy` says how the changed rows of a table are found in the ledger, what is left out of them, and which row in the
shared database each one updates. `find` reads one picture of the ledger; `write` runs in the transaction of the marks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Integer, Table, bindparam, insert, or_, select, update

from supervisor_core.domain.audit import damage_of
from supervisor_core.domain.health import SKEW_SECONDS
from supervisor_core.domain.texts import storable
from supervisor_core.ledger import audit_rows, tables
from supervisor_core.ledger import forward_changes as changes
from supervisor_core.ledger.forward_changes import Row, Scope

LARGEST_INTEGER = 2**31 - 1
"""Of an INTEGER in PostgreSQL and MariaDB."""

log = logging.getLogger(__name__)


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
    shown = {name: value for name, value in audit_rows.shown(row).items() if name in table.c}
    return fitting(table, {**shown, "created_at": at if isinstance(at, datetime) else datetime.now(UTC)})


@dataclass(frozen=True, slots=True)
class Copy:
    """How the rows of one table are copied."""

    table: Table
    key: tuple[str, ...]
    """The columns by which a row is known in the shared database."""
    changed: Callable[[Scope, Table], Sequence[Row]]
    """Finds the rows that may be new or changed, in the order in which they are copied."""
    omitted: frozenset[str] = frozenset()
    """Columns that each database counts by itself."""
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
_JOBS = "task %s of %s was in the shared database as one of %s; it is told anew"
_mine = changes.of_this_supervisor
COPIES = (
    Copy(tables.audit_log, _AFFECTED[:2], changes.after_the_newest_there, prepare=_as_hashed, follows=True),
    Copy(tables.audit_workers, _AFFECTED, changes.of_found_audit_rows, follows=True),
    Copy(tables.jobs, ("task_id", "worker_id"), changes.above_the_mark, frozenset({"job_id"}), other_owner=_JOBS),
    Copy(tables.workers, ("worker_id",), changes.all_rows, replaces=_is_newer_beat, unless_newer=_beat_is_older),
    Copy(tables.supervisors, ("supervisor_id",), _mine, replaces=_differs),
    Copy(tables.teams, ("team_id",), _mine, replaces=_differs),
    # While a member of a lost ledger stays active, its agent can't be in a team again.
    Copy(tables.team_members, ("member_id",), _mine, replaces=_differs, ends="active_agent_id"),
    Copy(tables.audit_anchors, ("supervisor_id",), _mine, replaces=_differs),
    Copy(tables.approvals, ("approval_id",), changes.approvals_that_differ),
    Copy(tables.votes, ("approval_id", "voter_id"), changes.of_found_approvals, final=True),
)
"""In the order in which they are copied: a table whose rows follow from those of another comes after it."""


def find(scope: Scope) -> None:
    """Read the changed rows of all tables."""
    for copy in COPIES:
        scope.found[copy.table.name] = copy.changed(scope, copy.table)


def write(shared: Connection, scope: Scope) -> int:
    """Insert and update the rows that were found; how many were written."""
    return sum(_write(shared, copy, found) for copy in COPIES if (found := scope.found[copy.table.name]))


def _write(shared: Connection, copy: Copy, found: Sequence[Row]) -> int:
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


def _there(shared: Connection, copy: Copy, rows: Sequence[Row]) -> list[Row]:
    """The rows there of the same first key; whole ones only where they are compared."""
    names = set(copy.table.c.keys() if copy.replaces else copy.key) | ({"supervisor_id"} if copy.other_owner else set())
    first = copy.table.c[copy.key[0]]
    query = select(*(copy.table.c[name] for name in names)).where(first.in_({row[first.name] for row in rows}))
    return [dict(row) for row in shared.execute(query).mappings()]


def _update(shared: Connection, copy: Copy, rows: Sequence[Row], now: datetime) -> None:
    """Set all columns of the rows with these keys."""
    where = [copy.table.c[name] == bindparam(f"its_{name}") for name in copy.key]
    if copy.unless_newer:
        where.append(copy.unless_newer(now))
    values: Row = {name: bindparam(f"new_{name}") for name in rows[0] if name not in copy.key}
    named = [{f"{'its' if name in copy.key else 'new'}_{name}": value for name, value in row.items()} for row in rows]
    shared.execute(update(copy.table).where(*where).values(values), named)


def _end_others(shared: Connection, copy: Copy, rows: Sequence[Row], now: datetime) -> None:
    """End this supervisor's rows that aren't among these."""
    first, active = copy.table.c[copy.key[0]], copy.table.c[copy.ends]
    mine = select(first).where(copy.table.c.supervisor_id == rows[0]["supervisor_id"], active.is_not(None))
    if lost := set(shared.execute(mine).scalars()) - {row[first.name] for row in rows}:
        ended = update(copy.table).where(first.in_(lost), active.is_not(None))
        shared.execute(ended.values({copy.ends: None, "left_at": now}))
