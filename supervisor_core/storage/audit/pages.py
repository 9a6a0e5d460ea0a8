"""The audit trail page by page, an entry for each command; from any entry to older and newer ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from supervisor_core.storage.audit.chain import damage_of
from supervisor_core.storage.audit.search import (
    LARGEST_ID,
    AuditFilter,
    Row,
    RowPosition,
    affected_workers,
    find_actors,
    find_rows,
    format_row,
    matches_action,
    position_of,
    sort_rows,
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
    entries: list[TrailEntry] = []
    looked, fits = 0, _row_filter(connection, wanted)
    while looked < LOOKED_THROUGH:
        rows = find_rows(connection, replace(wanted, limit=AT_ONCE), beside, newer=newer)
        looked += len(rows)
        damages = [damage_of(row) for row in rows]
        tasks = {row["task_id"] for row, damaged in zip(rows, damages, strict=True) if not damaged}
        families = {task: _task_rows(connection, task, wanted) for task in tasks if task}
        for row, damaged in zip(rows, damages, strict=True):
            siblings = () if damaged else families.get(row["task_id"], ())
            if not damaged and not _stands_for(row, siblings, fits):
                continue
            if len(entries) == size:
                return entries, True
            if damaged:
                entries.append(_damaged_entry(row))
                continue
            affected = affected_workers(connection, [_key(each) for each in (*siblings, row)])
            merged = {worker: role for roles in affected.values() for worker, role in roles.items()}
            entries.append(entry_of(row, details_of(row), siblings, merged, wanted.about))
        if len(rows) < AT_ONCE:
            return entries, False
        beside = position_of(rows[-1])
    return entries, True


def details_of(row: Row) -> Mapping[str, Any]:
    """The details of a row; none where they are no object."""
    try:
        details = json.loads(row["details_json"])
    except (ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


def _damaged_entry(row: Row) -> TrailEntry:
    """An altered row, which belongs to no command: nothing that it says can be relied on."""
    told = format_row(row)
    has_place = type(row["audit_id"]) is int and 0 < row["audit_id"] <= LARGEST_ID
    has_place &= told["supervisor_id"] == row["supervisor_id"]
    return damaged_entry(told, row["audit_id"] if has_place else None, row["created_at"])


def _task_rows(connection: Connection, task_id: str, wanted: AuditFilter) -> Sequence[Row]:
    """The unaltered rows of one command, newest first, each with whether it matches the filter."""
    told: list[Any] = [audit_log, matches_action(wanted).label(OF_ACTION)] if wanted.action else [audit_log]
    told += [_affects(wanted).label(AFFECTS)] if wanted.about else []
    query = select(*told).where(audit_log.c.task_id == task_id)
    rows = connection.execute(query.order_by(audit_log.c.created_at.desc()).limit(OF_ONE_COMMAND)).mappings()
    return sort_rows(dict(row) for row in rows if not damage_of(dict(row)))


def _affects(wanted: AuditFilter) -> ColumnElement[bool]:
    each = audit_workers.c
    same = (each.supervisor_id == audit_log.c.supervisor_id, each.audit_id == audit_log.c.audit_id)
    return select(each.audit_id).where(*same, each.worker_id.in_(wanted.about)).exists()


def _key(row: Row) -> tuple[str, int]:
    return str(row["supervisor_id"]), int(row["audit_id"])


def _stands_for(row: Row, siblings: Sequence[Row], fits: Callable[[Row], bool]) -> bool:
    """True for the newest row of its command that fits: the command is shown in its place."""
    newest = next((each for each in siblings if fits(each)), row)
    return position_of(newest) == position_of(row)


def _row_filter(connection: Connection, wanted: AuditFilter) -> Callable[[Row], bool]:
    actors = find_actors(connection, wanted.issuer) if wanted.issuer else None

    def fits(row: Row) -> bool:
        return (
            (actors is None or row["actor"] in actors)
            and (not wanted.about or row["target_id"] in wanted.about or row[AFFECTS])
            and (not wanted.action or row[OF_ACTION])
            and (not wanted.since or row["created_at"] >= wanted.since)
        )

    return fits
