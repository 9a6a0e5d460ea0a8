"""The audit trail page by page, an entry for each command; from any entry to older and newer ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, select

from supervisor_core.storage.audit.cells import LARGEST_ID, Row, details_of, format_row
from supervisor_core.storage.audit.chain import damage_of
from supervisor_core.storage.audit.names import affected_workers, parted
from supervisor_core.storage.audit.search import (
    AuditFilter,
    RowPosition,
    find_rows,
    matches_action,
    position_of,
    sort_rows,
    with_actors,
)
from supervisor_core.storage.audit.trail import TrailEntry, damaged_entry, entry_of
from supervisor_core.storage.tables import audit_log, audit_workers

AT_ONCE = 30
"""Rows that are read together: of most commands one or two each, and a page has ten."""

LOOKED_THROUGH = 5_000
"""Rows for one page: a command for a thousand workers has a thousand. What lies behind them is on the next page."""

OF_ONE_COMMAND = 2_000
"""The newest rows of one command that are counted."""

OF_ACTION = "of_action"
"""The name of the column that is true for rows of the requested action or command."""

AFFECTS = "affects"
"""The name of the column that is true for rows that affected a requested worker besides their target."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries, newest first, and whether there are newer and older ones."""

    entries: tuple[TrailEntry, ...]
    newer: bool
    older: bool


def page(
    connection: Connection, wanted: AuditFilter, size: int, beside: RowPosition | None = None, *, newer: bool = False
) -> Page:
    """The newest entries that fit; with `beside`, those that follow this one, or with `newer` precede it."""
    wanted = with_actors(connection, wanted)
    entries, more = _entries(connection, wanted, size, beside, newer=newer)
    if beside is not None and len(entries) < (size if newer else 1):  # the top is reached, or there is no such place
        return page(connection, wanted, size)
    if newer:
        return Page(tuple(reversed(entries)), newer=more, older=True)
    return Page(tuple(entries), newer=beside is not None, older=more)


def _entries(
    connection: Connection, wanted: AuditFilter, size: int, beside: RowPosition | None, *, newer: bool
) -> tuple[list[TrailEntry], bool]:
    """Up to `size` entries in this direction, and whether more follow."""
    shown: list[_Shown] = []
    looked, more = 0, True
    while looked < LOOKED_THROUGH and len(shown) <= size:
        rows = find_rows(connection, replace(wanted, limit=AT_ONCE), beside, newer=newer)
        looked += len(rows)
        shown += _shown(connection, rows, wanted)
        if len(rows) < AT_ONCE:
            more = False
            break
        beside = position_of(rows[-1])
    more = more or len(shown) > size
    shown = shown[:size]
    places = {_key(each) for row, siblings, damaged in shown if not damaged for each in (*siblings, row)}
    affected = affected_workers(connection, places)
    return [_entry(each, affected, wanted) for each in shown], more


_Shown = tuple[Row, Sequence[Row], str]
"""A row that stands for its command, all rows of that command, and its damage."""


def _shown(connection: Connection, rows: Sequence[Row], wanted: AuditFilter) -> list[_Shown]:
    """Those of these rows that stand for their command, and the damaged ones."""
    damages = [damage_of(row) for row in rows]
    tasks = {row["task_id"] for row, damaged in zip(rows, damages, strict=True) if row["task_id"] and not damaged}
    known = {position_of(row): damaged for row, damaged in zip(rows, damages, strict=True)}
    families = _rows_by_task(connection, tasks, wanted, known)
    found: list[_Shown] = []
    for row, damaged in zip(rows, damages, strict=True):
        siblings = () if damaged else families.get(row["task_id"], ())
        if damaged or _stands_for(row, siblings, wanted):
            found.append((row, siblings, damaged))
    return found


def _entry(shown: _Shown, affected: Mapping[tuple[str, int], Mapping[str, str]], wanted: AuditFilter) -> TrailEntry:
    row, siblings, damaged = shown
    if damaged:
        return _damaged_entry(row)
    merged: dict[str, str] = {}
    named = []
    for each in (*siblings, row):
        address, others = parted(affected.get(_key(each), {}))
        merged |= others
        named.append({**each, "target_id": address} if address else each)
    return entry_of(named[-1], details_of(row), named[:-1], merged, wanted.about)


def _damaged_entry(row: Row) -> TrailEntry:
    """An altered row, which belongs to no command: nothing that it says can be relied on."""
    told = format_row(row)
    has_place = type(row["audit_id"]) is int and 0 < row["audit_id"] <= LARGEST_ID
    has_place &= told["supervisor_id"] == row["supervisor_id"]
    return damaged_entry(told, row["audit_id"] if has_place else None, row["created_at"])


def _rows_by_task(
    connection: Connection, tasks: Collection[str], wanted: AuditFilter, known: Mapping[RowPosition, str]
) -> dict[str, Sequence[Row]]:
    """The unaltered rows of each of these commands, newest first, each with whether it matches the filter. `known` are
    the damages of the rows that were examined."""
    told: list[Any] = [audit_log, matches_action(wanted).label(OF_ACTION)] if wanted.action else [audit_log]
    told += [_affects(wanted).label(AFFECTS)] if wanted.about else []
    query = select(*told).where(audit_log.c.task_id.in_(bindparam("tasks", expanding=True)))
    few = query.limit(OF_ONE_COMMAND)
    rows = connection.execute(few, {"tasks": list(tasks)}).mappings().all() if tasks else []
    if len(rows) == OF_ONE_COMMAND:  # perhaps not all of them
        newest = query.order_by(audit_log.c.created_at.desc()).limit(OF_ONE_COMMAND)
        rows = [row for task in tasks for row in connection.execute(newest, {"tasks": [task]}).mappings()]
    found: dict[str, list[Row]] = {}
    for row in sort_rows(map(dict, rows)):
        damaged = known.get(position_of(row))
        if not (damage_of(row) if damaged is None else damaged):
            found.setdefault(row["task_id"], []).append(row)
    return {**found}


def _affects(wanted: AuditFilter) -> ColumnElement[bool]:
    each = audit_workers.c
    same = (each.supervisor_id == audit_log.c.supervisor_id, each.audit_id == audit_log.c.audit_id)
    return select(each.audit_id).where(*same, each.worker_id.in_(wanted.about)).exists()


def _key(row: Row) -> tuple[str, int]:
    return str(row["supervisor_id"]), int(row["audit_id"])


def _stands_for(row: Row, siblings: Sequence[Row], wanted: AuditFilter) -> bool:
    """True for the newest row of its command that fits: the command is shown in its place."""
    newest = next((each for each in siblings if _fits(each, wanted)), row)
    return position_of(newest) == position_of(row)


def _fits(row: Row, wanted: AuditFilter) -> bool:
    return (
        (wanted.actors is None or row["actor"] in wanted.actors)
        and (not wanted.about or row["target_id"] in wanted.about or row[AFFECTS])
        and (not wanted.action or row[OF_ACTION])
        and (not wanted.since or row["created_at"] >= wanted.since)
    )
