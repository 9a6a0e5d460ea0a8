"""The audit trail as people ask for it, page by page: one entry for each command, made of the rows of its task id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from supervisor_core.commands.addresses import Address
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.command import NOTE_KEY, Issuer
from supervisor_core.commands.labels import SEPARATOR, affected_in_words
from supervisor_core.storage.audit.chain import (
    CAUSE,
    CONFIG_APPLIED,
    CONFIG_FINISHED,
    DAMAGED,
    DECIDING,
    LARGEST_ID,
    Row,
    damage_of,
    details_of,
    format_row,
)
from supervisor_core.storage.audit.search import (
    AuditFilter,
    RowPosition,
    find_rows,
    position_of,
    sort_rows,
    with_actors,
)
from supervisor_core.storage.tables import audit_log

BATCH = 30
"""Rows that are read together: of most commands one or two each, and a page has ten."""

MOST_EXAMINED = 5_000
"""Rows for one page: a command for a thousand workers has a thousand. What lies behind them is on the next page."""

MOST_OF_ONE_COMMAND = 2_000
"""The newest rows of one command that are counted."""

_ENDED: Mapping[str, str] = {
    "DENIED": "denied",
    "CANCELLED": "cancelled",
    "EXPIRED": "expired before it was approved",
    "STALE": "not run: the approved change was outdated",
    "REFUSED": "refused",
    "APPROVED": "approved, not run yet",
    "APPROVAL_REQUESTED": "waiting for approval",
}
"""The outcome of a command that was not executed, by action; the final one first."""

_SCHEDULING = {"SCHEDULE_ADDED": "schedule add", "SCHEDULE_REMOVED": "schedule remove"}
"""The details of these rows name the scheduled command, which wasn't executed."""

_NAMED = 3
_WORD = {"success": "succeeded", "failure": "failed", "interrupted": "was interrupted"}


@dataclass(frozen=True, slots=True)
class TrailEntry:
    """One command, or one thing that somebody did."""

    supervisor_id: str
    audit_id: int | None
    """The number of its newest matching row; None if a damaged row doesn't have it."""
    at: datetime | None
    """None if a damaged row doesn't have it."""
    command: str
    """The name of the command, else the action in words."""
    about: str
    """The target; empty if the command names it."""
    asked: Issuer
    label: str
    approved: tuple[Issuer, ...]
    outcome: str
    """The outcome in a word or two."""
    well: bool | None
    """True if the outcome is good; None while it is unknown."""
    error: str
    task_id: str
    note: str = ""
    """The free text of the command."""
    affected: str = ""
    """The other workers that it affected, and how; only the requested ones if it affected any of them."""
    damaged: str = ""
    """The damage of an altered row. The other fields then repeat its content."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries, newest first, and whether there are newer and older ones."""

    entries: tuple[TrailEntry, ...]
    newer: bool
    older: bool


def page(
    connection: Connection,
    wanted: AuditFilter,
    size: int,
    beside: RowPosition | None = None,
    *,
    newer: bool = False,
    hub: str = "",
) -> Page:
    """The newest entries that fit; with `beside`, those that follow this one, or with `newer` precede it. `hub` is this
    supervisor if it has the rows of other hosts."""
    wanted = with_actors(connection, wanted)
    shown: list[tuple[Row, Sequence[Row]]] = []
    examined, more, position = 0, True, beside
    while examined < MOST_EXAMINED and len(shown) <= size:
        rows = find_rows(connection, replace(wanted, limit=BATCH), position, newer=newer)
        examined += len(rows)
        tasks = {row["task_id"] for row in rows if row["task_id"] and not damage_of(row)}
        families = {task: _rows_of_task(connection, task) for task in tasks}
        for row in rows:
            siblings = [] if damage_of(row) else families.get(row["task_id"], [])
            # The newest row of a command that fits stands for it.
            newest = next((each for each in siblings if _fits(each, wanted)), row)
            if position_of(newest) == position_of(row):
                shown.append((row, siblings))
        if len(rows) < BATCH:
            more = False
            break
        position = position_of(rows[-1])
    more = more or len(shown) > size
    entries = [_entry(row, siblings, wanted, hub) for row, siblings in shown[:size]]
    if beside is not None and len(entries) < (size if newer else 1):  # the top is reached, or there is no such place
        return page(connection, wanted, size, hub=hub)
    if newer:
        return Page(tuple(reversed(entries)), newer=more, older=True)
    return Page(tuple(entries), newer=beside is not None, older=more)


def _rows_of_task(connection: Connection, task_id: str) -> list[Row]:
    """The unaltered rows of a command, the newest first."""
    query = select(audit_log).where(audit_log.c.task_id == task_id)
    newest = query.order_by(audit_log.c.created_at.desc(), audit_log.c.audit_id.desc()).limit(MOST_OF_ONE_COMMAND)
    return sort_rows(row for row in map(dict, connection.execute(newest).mappings()) if not damage_of(row))


def _fits(row: Row, wanted: AuditFilter) -> bool:
    targets = {row["target_id"], str(Address(str(row["supervisor_id"]), str(row["target_id"])))}
    return (
        (wanted.actors is None or row["actor"] in wanted.actors)
        and (not wanted.targets or not targets.isdisjoint(wanted.targets))
        and (not wanted.action or row["action"] == wanted.action or row["command"] == wanted.command != "")
        and (not wanted.since or row["created_at"] >= wanted.since)
    )


def _entry(row: Row, siblings: Sequence[Row], wanted: AuditFilter, hub: str) -> TrailEntry:
    """The entry that a row stands for; that of an altered one, on which nothing can be relied, has its content."""
    if damage_of(row):
        shown = format_row(row)
        has_place = type(row["audit_id"]) is int and 0 < row["audit_id"] <= LARGEST_ID
        has_place = has_place and shown["supervisor_id"] == row["supervisor_id"]
        return TrailEntry(
            supervisor_id=str(shown["supervisor_id"]),
            audit_id=row["audit_id"] if has_place else None,
            at=row["created_at"] if isinstance(row["created_at"], datetime) else None,
            command=f"row {shown['audit_id']}",
            about=" ".join(str(shown[name]) for name in ("action", "target_id", "actor")),
            asked=Issuer(str(shown["actor"]), ""),
            label="",
            approved=(),
            outcome="damaged",
            well=False,
            error="",
            task_id="",
            damaged=str(shown[DAMAGED]),
        )
    parsed = [({**each, "target_id": address_in(each, hub)}, details_of(each)) for each in siblings or (row,)]
    affected = {each["target_id"]: str(details.get("role")) for each, details in parsed if CAUSE in details}
    rows = [(each, details) for each, details in parsed if CAUSE not in details] or parsed
    executed = [each for each, _ in rows if by_handler(str(each["action"]).lower()) is not None]
    # The row itself, unless it only says that the command affected a worker.
    main, details = next((pair for pair in rows if position_of(pair[0]) == position_of(row)), rows[0])
    first = (executed or [each for each, _ in rows if each["action"] == "APPROVAL_REQUESTED"] or [main])[-1]
    outcome, well = _outcome(row, [each for each, _ in rows], executed)
    return TrailEntry(
        supervisor_id=str(row["supervisor_id"]),
        audit_id=int(row["audit_id"]),
        at=row["created_at"],
        command=command_in_words(first, details),
        about=_about(executed or [first]) + _scheduled_command(first, details),
        asked=issuer_of(first),
        label=str(details.get("label") or "") or str(first["label"] or "").partition(SEPARATOR)[2],
        approved=_approvers([each for each, _ in rows], details),
        outcome=outcome,
        well=well,
        error=" ".join(str(details.get("error") or "").split()) if well is False else "",
        task_id=str(row["task_id"] or ""),
        note=note_in(details),
        affected=affected_in_words(affected, cause_in_words(first, {}), wanted.targets) if affected else "",
    )


def address_in(row: Mapping[str, Any], hub: str) -> str:
    """The target of a row; on a hub, that of another host's worker by its address."""
    if hub and row["supervisor_id"] != hub and row["target_type"] == "worker":
        return str(Address(str(row["supervisor_id"]), str(row["target_id"])))
    return str(row["target_id"])


def cause_in_words(row: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """The cause for a worker that was affected beside the target."""
    action = str(details.get("action") or row["action"])
    return (
        "the configuration"
        if action in (CONFIG_APPLIED, CONFIG_FINISHED)
        else str(details.get(CAUSE) or row["target_id"])
    )


def issuer_of(row: Mapping[str, Any]) -> Issuer:
    """The actor of a row, with the name from its audit label, except in a decision about somebody else's command."""
    name = "" if row["action"] in DECIDING else str(row["label"] or "").partition(SEPARATOR)[0]
    return Issuer(str(row["actor"]), name)


def names_in(details: Mapping[str, Any]) -> dict[str, str]:
    """The names of those who decided about a command, by their ids, as the details of one of its rows have them."""
    known = [*_mappings_in(details, "approvals"), *_mappings_in(details, "votes")]
    return {str(each.get("id")): str(each.get("name") or "") for each in known}


def note_in(details: Mapping[str, Any]) -> str:
    params = details.get("params")
    return str(params.get(NOTE_KEY) or "") if isinstance(params, Mapping) else ""


def command_in_words(row: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """The name of a row's command, or its action in words: people never see the stored name of an action."""
    if row["action"] in _SCHEDULING:
        return _SCHEDULING[str(row["action"])]
    action = str(details.get("action") if CAUSE in details else row["action"])
    definition = by_handler(action.lower())
    if definition is None:
        return str(details.get("command") or "") or action.replace("_", " ").lower()
    params = details.get("params")
    number = params.get("commits_back") if isinstance(params, Mapping) else None
    return f"{definition.name} {number}" if isinstance(number, int) and number > 1 else definition.name


def _about(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(str(row["target_id"]) for row in reversed(rows) if row["target_id"] != "-"))
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _scheduled_command(row: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """The scheduled command, in a row about a schedule."""
    command = str(details.get("command") or "") if row["action"] in _SCHEDULING else ""
    return f" ({command})" if command else ""


def _approvers(rows: Sequence[Mapping[str, Any]], details: Mapping[str, Any]) -> tuple[Issuer, ...]:
    names = names_in(details)
    voted = [str(each["actor"]) for each in reversed(rows) if each["action"] == "APPROVED"]
    noted = [str(each.get("id")) for each in _mappings_in(details, "approvals")]
    return tuple(Issuer(actor, names.get(actor, "")) for actor in dict.fromkeys([*noted, *voted]))


def _mappings_in(details: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = details.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _outcome(
    row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], executed: Sequence[Mapping[str, Any]]
) -> tuple[str, bool | None]:
    if not executed:
        there = {str(each["action"]) for each in rows}
        ended = next((action for action in _ENDED if action in there), None)
        if ended is None:
            return ("done", True) if row["outcome"] == "success" else (_word(row), False)
        return _ENDED[ended], None if ended in ("APPROVED", "APPROVAL_REQUESTED") else False
    counted = Counter(_word(each) for each in executed)
    if len(executed) == 1:
        return _word(executed[0]), executed[0]["outcome"] == "success"
    words = [f"{word} on {number} of {len(executed)}" for word, number in sorted(counted.items())]
    well = set(counted) == {_WORD["success"]}
    return (f"succeeded on all {len(executed)}" if well else ", ".join(words)), well


def _word(row: Mapping[str, Any]) -> str:
    return _WORD.get(str(row["outcome"]), str(row["outcome"]))
