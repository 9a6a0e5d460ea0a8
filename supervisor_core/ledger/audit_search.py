"""Asking the audit trail: the newest rows that fit, from any place in it on, each filter served by an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, RowMapping, and_, func, or_, select

from supervisor_core.domain.times import to_text
from supervisor_core.domain.trail import DECIDING, TELLING
from supervisor_core.ledger.tables import audit_log

Row = dict[str, Any]

MOST_COUNTED = 200_000
"""Entries of an index that are counted to find the narrowest: that many take some ten milliseconds."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What to look for; None means any."""

    worker: str | None = None
    issuer: str | None = None
    action: str | None = None
    command: str = ""
    """Where all rows of a command are meant, whatever became of it: its name, beside the action of its executions."""
    since: datetime | None = None
    limit: int = 50
    targets: tuple[str, ...] = ()
    """One of these, where several are meant."""
    target_type: str | None = None
    """A worker may have the name of its supervisor."""

    @property
    def about(self) -> tuple[str, ...]:
        """What it is about, each of them once; empty for anything."""
        return tuple(dict.fromkeys(self.targets)) or ((self.worker,) if self.worker else ())


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the trail: beside this row, which is not in what follows."""

    supervisor_id: str
    audit_id: int


def search(
    connection: Connection, wanted: AuditFilter, beside: Place | None = None, *, newer: bool = False
) -> list[Row]:
    """The newest rows that fit, newest first, under the names of their columns, times as text.

    With `beside`, those that come after this row in that order; with `newer`, those before it, the nearest first.
    """
    return [{**row, "created_at": to_text(row["created_at"])} for row in found(connection, wanted, beside, newer=newer)]


def found(
    connection: Connection, wanted: AuditFilter, beside: Place | None = None, *, newer: bool = False
) -> Sequence[RowMapping]:
    """The same rows as they are stored."""
    when: list[ColumnElement[bool]] = [audit_log.c.created_at >= wanted.since] if wanted.since else []
    when += [audit_log.c.target_type == wanted.target_type] if wanted.target_type else []
    when += _beyond(connection, beside, newer=newer) if beside else ()
    narrow = _filters(connection, wanted)
    walked = _narrowest(connection, narrow, when)
    others: list[ColumnElement[bool]] = [
        func.coalesce(column, "").in_(values) for column, values in narrow if column is not walked
    ]
    others += [of_action(wanted)] if wanted.command else []
    values: Sequence[str | None] = next((values for column, values in narrow if column is walked), [None])
    rows: list[RowMapping] = []
    # One look for each value, so that the index has its rows in order: those of several would have to be sorted.
    for value in values:
        these = [] if walked is None else [walked == value]
        these += _before(rows[-1], newer=newer) if len(rows) == wanted.limit else []
        query = select(audit_log).where(and_(True, *these, *others, *when))
        rows += connection.execute(query.order_by(*_order(newer=newer)).limit(wanted.limit)).mappings()
        rows = sorted(rows, key=in_order, reverse=newer)[: wanted.limit]
    return rows


def actors_called(connection: Connection, who: str) -> list[str]:
    """Whoever this may be: by the actor (`cli:anna`), by its last part (`anna`, `U0OPER`), or by the name that their
    newest labelled row shows. The id of somebody in Slack is nobody else's name."""
    named = _named_actors(connection)
    of_slack = [actor for actor in named if actor.rpartition("/")[2] == who and "/" in actor]
    if of_slack:
        return of_slack
    lowered = who.lower()
    return [
        actor
        for actor, label in named.items()
        if who in (actor, actor.rpartition(":")[2]) or label.partition(" - ")[0].lower() == lowered
    ]


def of_action(wanted: AuditFilter) -> ColumnElement[bool]:
    """Whether a row is of this action or command, in a form that no planner takes for a use of an index."""
    action = func.coalesce(audit_log.c.action, "")
    executed = action == wanted.action
    if not wanted.command:
        return executed
    # In the text as it is stored a quote inside a value has a backslash before it, so that no value is taken for this.
    told = (
        f'"command":"{wanted.command}"',
        f'"command":"{wanted.command} ',
        f'"handler":"{str(wanted.action).lower()}"',
    )
    said = or_(*(audit_log.c.details_json.contains(each, autoescape=True) for each in told))
    return or_(executed, and_(action.in_(TELLING), said))


def in_order(row: RowMapping) -> tuple[float, str, int]:
    """By which rows are sorted as the trail is shown: the newest first."""
    return -row["created_at"].timestamp(), row["supervisor_id"], -row["audit_id"]


def place_of(row: RowMapping | Row) -> Place:
    """The place of a row."""
    return Place(str(row["supervisor_id"]), int(row["audit_id"]))


def _named_actors(connection: Connection) -> dict[str, str]:
    """All actors there are, each with its newest label. The index is walked from one to the next, however many rows
    each of them has."""
    actor, label = audit_log.c.actor, audit_log.c.label
    walk = select(func.min(actor).label("actor")).cte("walk", recursive=True)
    after = select(func.min(actor)).where(actor > walk.c.actor).correlate(walk).scalar_subquery()
    walk = walk.union_all(select(after).where(walk.c.actor.is_not(None)))
    newest = (
        select(label)
        .where(actor == walk.c.actor, label.is_not(None), audit_log.c.action.not_in(DECIDING))
        .order_by(audit_log.c.created_at.desc())
        .limit(1)
        .correlate(walk)
        .scalar_subquery()
    )
    rows = connection.execute(select(walk.c.actor, newest).where(walk.c.actor.is_not(None)))
    return {name: shown or "" for name, shown in rows}


def _filters(connection: Connection, wanted: AuditFilter) -> list[tuple[Column[str], Sequence[str]]]:
    """Which columns must have which values; a column without any value has no row."""
    filters: list[tuple[Column[str], Sequence[str]]] = []
    if wanted.issuer:
        filters.append((audit_log.c.actor, actors_called(connection, wanted.issuer)))
    if wanted.about:
        filters.append((audit_log.c.target_id, wanted.about))
    if wanted.action:
        filters.append((audit_log.c.action, (wanted.action, *(TELLING if wanted.command else ()))))
    return filters


def _narrowest(
    connection: Connection, filters: Sequence[tuple[Column[str], Sequence[str]]], when: Sequence[ColumnElement[bool]]
) -> Column[str] | None:
    """The column by whose index the fewest rows are looked at; the others are compared row by row, in a form that no
    planner takes for a use of theirs. A planner without statistics would guess, and walk a million rows for none."""
    if len(filters) < 2:
        return filters[0][0] if filters else None
    best, fewest = filters[0][0], MOST_COUNTED
    for column, values in filters:
        number = 0
        for value in values:
            some = select(audit_log.c.created_at).where(column == value, *when).limit(fewest - number).subquery()
            number += connection.execute(select(func.count()).select_from(some)).scalar_one()
            if number >= fewest:
                break
        if number < fewest:
            best, fewest = column, number
        if not fewest:
            break
    return best


def _order(*, newer: bool) -> tuple[ColumnElement[Any], ...]:
    at, host, number = audit_log.c.created_at, audit_log.c.supervisor_id, audit_log.c.audit_id
    return (at.asc(), host.desc(), number.asc()) if newer else (at.desc(), host.asc(), number.desc())


def _before(last: RowMapping, *, newer: bool) -> list[ColumnElement[bool]]:
    """Not after this row, the last of as many as are wanted: what comes after it is not needed any more."""
    at = audit_log.c.created_at
    return [at <= last["created_at"] if newer else at >= last["created_at"]]


def _beyond(connection: Connection, beside: Place, *, newer: bool) -> tuple[ColumnElement[bool], ...]:
    """What comes after this row, in the order of the trail or against it. Of a row that is not there: nothing."""
    at, host, number = audit_log.c.created_at, audit_log.c.supervisor_id, audit_log.c.audit_id
    query = select(at).where(host == beside.supervisor_id, number == beside.audit_id)
    moment = connection.execute(query).scalar()
    if moment is None:
        return (number.is_(None),)
    same = and_(host == beside.supervisor_id, number > beside.audit_id if newer else number < beside.audit_id)
    if newer:
        return at >= moment, or_(at > moment, host < beside.supervisor_id, same)
    return at <= moment, or_(at < moment, host > beside.supervisor_id, same)
