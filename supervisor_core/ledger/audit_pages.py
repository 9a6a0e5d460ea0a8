"""The audit trail page by page, an entry for each command; from any entry to older and to newer ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from supervisor_core.domain.trail import Entry, entry_of
from supervisor_core.ledger.audit_search import AuditFilter, Place, actors_called, found, in_order, of_action, place_of
from supervisor_core.ledger.tables import audit_log

AT_ONCE = 30
"""Rows that are read together: of most commands one or two each, and a page has ten."""

LOOKED_THROUGH = 5_000
"""Rows for one page: a command for a thousand workers has a thousand. What lies behind them is on the next page."""

OF_ONE_COMMAND = 2_000
"""Rows of one command that are counted, the newest."""

_TOLD = [audit_log.c[name] for name in ("supervisor_id", "audit_id", "created_at", "actor", "action", "target_id")]
_TOLD += [audit_log.c[name] for name in ("outcome", "label", "task_id")]

OF_ACTION = "of_action"
"""The name under which a row says whether it is of the action or the command that is asked for."""

Sibling = RowMapping


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries, the newest first, and whether there are others beside them."""

    entries: tuple[Entry, ...]
    newer: bool
    older: bool


def page(
    connection: Connection, wanted: AuditFilter, size: int, beside: Place | None = None, *, newer: bool = False
) -> Page:
    """The newest entries that fit; with `beside`, those that follow this one, or with `newer` precede it."""
    entries, more = _entries(connection, wanted, size, beside, newer=newer)
    if beside is not None and len(entries) < (size if newer else 1):  # the top is reached, or there is no such place
        return page(connection, wanted, size)
    if newer:
        return Page(tuple(reversed(entries)), newer=more, older=True)
    return Page(tuple(entries), newer=beside is not None, older=more)


def _entries(
    connection: Connection, wanted: AuditFilter, size: int, beside: Place | None, *, newer: bool
) -> tuple[list[Entry], bool]:
    """So many entries in this direction, and whether more follow."""
    entries: list[Entry] = []
    looked, fits = 0, _fitting(connection, wanted)
    while looked < LOOKED_THROUGH:
        rows = found(connection, replace(wanted, limit=AT_ONCE), beside, newer=newer)
        looked += len(rows)
        families = {task: _of_task(connection, task, wanted) for task in {row["task_id"] for row in rows} if task}
        for row in rows:
            siblings = families.get(row["task_id"], ())
            if not _stands_for(row, siblings, fits):
                continue
            if len(entries) == size:
                return entries, True
            entries.append(entry_of(dict(row), details_of(row), [dict(each) for each in siblings]))
        if len(rows) < AT_ONCE:
            return entries, False
        beside = place_of(rows[-1])
    return entries, True


def details_of(row: RowMapping) -> Mapping[str, Any]:
    """The details of a row; none where they are no object."""
    try:
        details = json.loads(row["details_json"])
    except (ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


def _of_task(connection: Connection, task_id: str, wanted: AuditFilter) -> Sequence[Sibling]:
    """All rows of one command, without their details, the newest first; and whether each is of what is asked for."""
    told = [*_TOLD, of_action(wanted).label(OF_ACTION)] if wanted.action else _TOLD
    query = select(*told).where(audit_log.c.task_id == task_id)
    rows = connection.execute(query.order_by(audit_log.c.created_at.desc()).limit(OF_ONE_COMMAND)).mappings().all()
    return sorted(rows, key=in_order)


def _stands_for(row: RowMapping, siblings: Sequence[Sibling], fits: Callable[[Sibling], bool]) -> bool:
    """Whether this is the newest row of its command that fits: the one in whose place the command is shown."""
    newest = next((each for each in siblings if fits(each)), row)
    return place_of(newest) == place_of(row)


def _fitting(connection: Connection, wanted: AuditFilter) -> Callable[[Sibling], bool]:
    actors = actors_called(connection, wanted.issuer) if wanted.issuer else None

    def fits(row: Sibling) -> bool:
        return (
            (actors is None or row["actor"] in actors)
            and (not wanted.about or row["target_id"] in wanted.about)
            and (not wanted.action or row[OF_ACTION])
            and (not wanted.since or row["created_at"] >= wanted.since)
        )

    return fits
