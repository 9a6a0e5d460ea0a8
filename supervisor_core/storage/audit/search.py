"""Search in the audit trail: the newest rows that fit, from any row on, each filter served by an index.

Rows are shown as stored, however damaged. An index finds a row by each worker that it affected beside its target; the
row's own details, which its hash covers, say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Text, and_, cast, func, insert, literal, or_, select, tuple_
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from supervisor_core.commands.command import Command
from supervisor_core.commands.labels import Affected
from supervisor_core.common.text import is_plain
from supervisor_core.common.times import since_moment, to_text
from supervisor_core.storage.audit.chain import damage_of
from supervisor_core.storage.audit.trail import DECIDING, TELLING, action_of
from supervisor_core.storage.tables import audit_log, audit_workers, jobs

Row = dict[str, Any]

DAMAGED = "damaged"
"""The key under which a row that was altered says what's wrong with it. Other rows lack the key."""

LARGEST_ID = 2**53 - 1
"""No trail has that many rows: somebody wrote a larger number."""

LONGEST_CELL = 2_000
"""Characters of a cell of a damaged row, which may hold a gigabyte."""


def format_row(row: Mapping[str, Any]) -> Row:
    """A stored row under the names of its columns, with times as text."""
    damage = damage_of(row)
    if not damage:
        return {**row, "created_at": to_text(row["created_at"])}
    return {**{name: _cell_text(name, value) for name, value in row.items()}, DAMAGED: damage}


def as_text(value: object) -> str:
    """The value of a cell as text that every database, file and terminal takes."""
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape") if not is_plain(value) else value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


def as_stored(value: Any) -> Any:  # noqa: ANN401 (whatever a column holds)
    """The value of a cell in a form that a query can compare with: no driver takes text that isn't UTF-8."""
    if isinstance(value, str) and not is_plain(value):
        return cast(literal(value.encode("utf-8", "surrogateescape")), Text)
    return value


def has_number(connection: Connection) -> list[ColumnElement[bool]]:
    """The rows that have a number: SQLite takes anything in its place."""
    number = audit_log.c.audit_id
    within = [number >= 1, number <= LARGEST_ID]
    return [*within, func.typeof(number) == "integer"] if connection.dialect.name == "sqlite" else within


def _cell_text(name: str, value: object) -> Any:  # noqa: ANN401
    if (name == "audit_id" and type(value) is int) or (value is None and audit_log.c[name].nullable):
        return value
    text = as_text(value)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


MOST = 1000
"""Workers of one row. A larger fleet on one checkout is found by the named worker alone."""

_AT_ONCE = 200


def index_workers(
    connection: Connection, supervisor_id: str, audit_id: int, affected: Affected, task_id: str | None, at: datetime
) -> None:
    """Index the row under these workers, except those with a row of their own for the same command."""
    if not affected:
        return
    named = select(jobs.c.worker_id).where(jobs.c.task_id == task_id) if task_id else None
    own = set(connection.execute(named).scalars()) if named is not None else set()
    key = {"supervisor_id": supervisor_id, "audit_id": audit_id, "created_at": at}
    rows = [{**key, "worker_id": each, "role": role} for each, role in affected.items() if each not in own]
    if rows:
        connection.execute(insert(audit_workers), rows[:MOST])


def affected_workers(
    connection: Connection, places: Iterable[tuple[Any, Any]]
) -> dict[tuple[str, int], dict[str, str]]:
    """The workers that these rows affected, with their roles."""
    found: dict[tuple[str, int], dict[str, str]] = {}
    key = tuple_(audit_workers.c.supervisor_id, audit_workers.c.audit_id)
    wanted = sorted({place for place in places if _is_whole(place)})
    for begin in range(0, len(wanted), _AT_ONCE):
        query = select(audit_workers).where(key.in_(wanted[begin : begin + _AT_ONCE]))
        for row in connection.execute(query).mappings():
            found.setdefault((row["supervisor_id"], row["audit_id"]), {})[row["worker_id"]] = row["role"]
    return found


def _is_whole(place: tuple[Any, Any]) -> bool:
    """True for a place that a row can have: an altered one may hold anything."""
    host, number = place
    return isinstance(host, str) and is_plain(host) and type(number) is int and 0 < number <= LARGEST_ID


def affected_between(connection: Connection, chain: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The affected workers of consecutive rows of a chain."""
    number, first, last = audit_workers.c.audit_id, rows[0]["audit_id"], rows[-1]["audit_id"]
    mine = (audit_workers.c.supervisor_id == chain, number >= first, number <= last)
    return [dict(row) for row in connection.execute(select(audit_workers).where(*mine)).mappings()]


Columns = ReadOnlyColumnCollection[str, Column[Any]]
"""The columns of the trail, or of the workers that its rows affected. Both have the time, the host and the row."""

AFFECTED = "affected"
"""The key of the workers that a row affected besides its target, with their roles."""

MOST_COUNTED = 200_000
"""Entries of an index that are counted to find the narrowest: that many take some ten milliseconds."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The terms of a search; None means any."""

    worker: str | None = None
    issuer: str | None = None
    action: str | None = None
    command: str = ""
    """The name of a command if all of its rows are wanted, not only its executions."""
    since: datetime | None = None
    limit: int = 50
    targets: tuple[str, ...] = ()
    """One of these, where several are meant."""
    target_type: str | None = None
    """A worker may have the name of its supervisor."""

    @property
    def about(self) -> tuple[str, ...]:
        """The wanted targets, each once; empty for any."""
        return tuple(dict.fromkeys(self.targets)) or ((self.worker,) if self.worker else ())


def audit_filter(command: Command, now: datetime, zone: tzinfo = UTC) -> AuditFilter:
    """The search that an `audit` command means, for somebody in this zone; `UsageError` for what no row can be."""
    name, since = command.params.get("command"), command.params.get("since")
    action, command_name = action_of(str(name)) if name is not None else (None, "")
    return AuditFilter(
        issuer=command.params.get("by"),
        action=action,
        command=command_name,
        since=since_moment(str(since), now, zone) if since else None,
        limit=int(command.params["limit"]),
        targets=(*command.workers, command.target) if command.target else (),
    )


@dataclass(frozen=True, slots=True)
class RowPosition:
    """A place in the trail: next to this row, which is excluded."""

    supervisor_id: Any
    audit_id: Any
    """As stored; in a damaged row it may be anything."""


def search(
    connection: Connection, wanted: AuditFilter, beside: RowPosition | None = None, *, newer: bool = False
) -> list[Row]:
    """The newest matching rows, newest first, by column name, with times as text. `damaged` describes an alteration,
    `affected` the workers that the row affected besides its target.

    With `beside`, those that come after this row in that order; with `newer`, those before it, the nearest first.
    """
    rows = find_rows(connection, wanted, beside, newer=newer)
    others = affected_workers(connection, [(row["supervisor_id"], row["audit_id"]) for row in rows])
    return [{**format_row(row), AFFECTED: others.get((row["supervisor_id"], row["audit_id"]), {})} for row in rows]


def find_rows(
    connection: Connection, wanted: AuditFilter, beside: RowPosition | None = None, *, newer: bool = False
) -> list[Row]:
    """The same rows as stored. A row is about its target and about each other worker that it affected."""
    rows = _matching_rows(connection, wanted, beside, newer=newer)
    if wanted.about and wanted.target_type in (None, "worker"):
        unique = {position_of(row): row for row in (*rows, *_affecting_rows(connection, wanted, beside, newer=newer))}
        rows = sort_rows(unique.values(), newer=newer)[: wanted.limit]
    return rows


def _affecting_rows(
    connection: Connection, wanted: AuditFilter, beside: RowPosition | None, *, newer: bool
) -> list[Row]:
    """The rows that fit and affected one of the wanted workers beside their target."""
    each = audit_workers.c
    these: list[ColumnElement[bool]] = [each.created_at >= wanted.since] if wanted.since else []
    these += _beyond(beside, newer=newer, columns=each) if beside else ()
    these += [func.coalesce(column, "").in_(values) for column, values in _filters(connection, wanted, about=False)]
    these += [matches_action(wanted)] if wanted.command else []
    same = and_(audit_log.c.supervisor_id == each.supervisor_id, audit_log.c.audit_id == each.audit_id)
    query = select(audit_log).join(audit_workers, same).order_by(*_order(newer=newer, columns=each))
    rows: list[Row] = []
    for worker in wanted.about:
        looked = connection.execute(query.where(each.worker_id == worker, *these).limit(wanted.limit)).mappings()
        rows += [dict(row) for row in looked]
    return rows


def _matching_rows(
    connection: Connection, wanted: AuditFilter, beside: RowPosition | None, *, newer: bool
) -> list[Row]:
    """The rows that fit by their own columns."""
    when: list[ColumnElement[bool]] = [audit_log.c.created_at >= wanted.since] if wanted.since else []
    when += [audit_log.c.target_type == wanted.target_type] if wanted.target_type else []
    when += _beyond(beside, newer=newer) if beside else ()
    narrow = _filters(connection, wanted)
    walked = _narrowest(connection, narrow, when)
    others: list[ColumnElement[bool]] = [
        func.coalesce(column, "").in_(values) for column, values in narrow if column is not walked
    ]
    others += [matches_action(wanted)] if wanted.command else []
    values: Sequence[str | None] = next((values for column, values in narrow if column is walked), [None])
    rows: list[Row] = []
    # One look for each value, so that the index has its rows in order: those of several would have to be sorted.
    for value in values:
        these = [] if walked is None else [walked == value]
        these += _before(rows[-1], newer=newer) if len(rows) == wanted.limit else []
        query = select(audit_log).where(and_(True, *these, *others, *when))
        looked = connection.execute(query.order_by(*_order(newer=newer)).limit(wanted.limit)).mappings()
        rows += [dict(row) for row in looked]
        rows = sort_rows(rows, newer=newer)[: wanted.limit]
    return rows


def find_actors(connection: Connection, who: str) -> list[str]:
    """The actors that this text can mean: the actor (`cli:anna`), its last part (`anna`, `U0OPER`), or the name in the
    newest labelled row. A Slack id is never taken as a name."""
    named = _actors_with_names(connection)
    of_slack = [actor for actor in named if actor.rpartition("/")[2] == who and "/" in actor]
    if of_slack:
        return of_slack
    lowered = who.lower()
    return [
        actor
        for actor, label in named.items()
        if who in (actor, actor.rpartition(":")[2]) or label.partition(" - ")[0].lower() == lowered
    ]


def matches_action(wanted: AuditFilter) -> ColumnElement[bool]:
    """The condition for this action or command, in a form that no planner takes for a use of an index."""
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


def sort_rows(rows: Iterable[Row], *, newer: bool = False) -> list[Row]:
    """Sorted as the trail is shown and as the database sorts: the newest first, or with `newer` the oldest."""
    ordered = sorted(rows, key=lambda row: _sort_key(row["audit_id"]), reverse=not newer)
    ordered.sort(key=lambda row: _sort_key(row["supervisor_id"]), reverse=newer)
    ordered.sort(key=lambda row: _sort_key(row["created_at"]), reverse=not newer)
    return ordered


def _sort_key(value: object) -> tuple[int, Any]:
    """SQLite's order of values of any type: numbers, then text, then bytes."""
    if isinstance(value, datetime):
        return 1, to_text(value).encode()
    if isinstance(value, str):
        return 1, value.encode("utf-8", "surrogateescape")
    return (2, value) if isinstance(value, bytes) else (0, value)


def position_of(row: Row) -> RowPosition:
    """The place of a row."""
    return RowPosition(row["supervisor_id"], row["audit_id"])


def _actors_with_names(connection: Connection) -> dict[str, str]:
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
    # An altered cell is nobody's name.
    return {
        name: called if isinstance(called, str) and is_plain(called) else ""
        for name, called in rows
        if isinstance(name, str) and is_plain(name)
    }


def _filters(
    connection: Connection, wanted: AuditFilter, *, about: bool = True
) -> list[tuple[Column[str], Sequence[str]]]:
    """The columns with their wanted values; a column without any value has no row."""
    filters: list[tuple[Column[str], Sequence[str]]] = []
    if wanted.issuer:
        filters.append((audit_log.c.actor, find_actors(connection, wanted.issuer)))
    if wanted.about and about:
        filters.append((audit_log.c.target_id, wanted.about))
    if wanted.action:
        filters.append((audit_log.c.action, (wanted.action, *(TELLING if wanted.command else ()))))
    return filters


def _narrowest(
    connection: Connection, filters: Sequence[tuple[Column[str], Sequence[str]]], when: Sequence[ColumnElement[bool]]
) -> Column[str] | None:
    """The column whose index leaves the fewest rows. The others are compared row by row, in a form for which no planner
    uses their index: without statistics it would guess, and read a million rows for nothing."""
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


def _order(*, newer: bool, columns: Columns = audit_log.c) -> tuple[ColumnElement[Any], ...]:
    at, host, number = columns.created_at, columns.supervisor_id, columns.audit_id
    return (at.asc(), host.desc(), number.asc()) if newer else (at.desc(), host.asc(), number.desc())


def _before(last: Row, *, newer: bool) -> list[ColumnElement[bool]]:
    """The condition that excludes rows after this one, the last of the wanted number."""
    at, moment = audit_log.c.created_at, last["created_at"]
    if not isinstance(moment, datetime):
        return []
    return [at <= moment if newer else at >= moment]


def _beyond(beside: RowPosition, *, newer: bool, columns: Columns = audit_log.c) -> tuple[ColumnElement[bool], ...]:
    """The rows after this one, in the order of the trail or against it; none for a missing row."""
    at, host, number = columns.created_at, columns.supervisor_id, columns.audit_id
    its_host, its_number = as_stored(beside.supervisor_id), as_stored(beside.audit_id)
    row = audit_log.alias("beside")
    moment = select(row.c.created_at).where(row.c.supervisor_id == its_host, row.c.audit_id == its_number)
    its_time = moment.scalar_subquery()
    same = and_(host == its_host, number > its_number if newer else number < its_number)
    if newer:
        return at >= its_time, or_(at > its_time, host < its_host, same)
    return at <= its_time, or_(at < its_time, host > its_host, same)
