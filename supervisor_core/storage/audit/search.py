"""Search in the audit trail: the newest rows that fit, from any row on, each filter served by an index.

Rows are shown as stored, however damaged. An index finds a row by each worker that it affected beside its target; the
row's own details, which its hash covers, say the same.

Most of the time of a search is the making of statements, not the database's. So there are few of them, whatever is
wanted: a look at the newest rows first, then one statement for each of several values, made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from supervisor_core.commands.command import Command
from supervisor_core.commands.labels import SEPARATOR
from supervisor_core.common.times import since_moment, to_text
from supervisor_core.storage.audit.cells import Row, as_stored, format_row
from supervisor_core.storage.audit.names import (
    affected_workers,
    command_key,
    find_actors,
    newest_by_worker,
    parted,
)
from supervisor_core.storage.audit.trail import TELLING, action_of
from supervisor_core.storage.tables import audit_log, audit_workers

Columns = ReadOnlyColumnCollection[str, Column[Any]]
"""The columns of the trail, or of the workers that its rows affected. Both have the time, the host and the row."""

ADDRESS = "address"
"""The key of the target's address. A hub has the rows of its hosts, whose own ids they hold."""

AFFECTED = "affected"
"""The key of the workers that a row affected besides its target, with their roles."""

MOST_COUNTED = 200_000
"""Entries of an index that are counted to find the narrowest: that many take some ten milliseconds."""

NEWEST = 1000
"""Rows in which several values are looked for together, before each of them is by its index."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The terms of a search; None means any."""

    worker: str | None = None
    issuer: str | None = None
    action: str | None = None
    command: str = ""
    """The name of a command if all of its rows are wanted, not only its executions."""
    label: str = ""
    """The label as it was given."""
    since: datetime | None = None
    limit: int = 50
    targets: tuple[str, ...] = ()
    """One of these, where several are meant."""
    target_type: str | None = None
    """A worker may have the name of its supervisor."""
    supervisor_id: str | None = None
    """The chain of one host: another host may have a worker of the same name."""
    actors: tuple[str, ...] | None = None
    """The actors that the issuer can mean, once they are known."""

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
        label=str(command.params.get("label") or ""),
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
    `affected` the workers that the row affected besides its target, `address` the target of a row of another host.

    With `beside`, those that come after this row in that order; with `newer`, those before it, the nearest first.
    """
    rows = find_rows(connection, wanted, beside, newer=newer)
    others = affected_workers(connection, [(row["supervisor_id"], row["audit_id"]) for row in rows])
    found = []
    for row in rows:
        address, affected = parted(others.get((row["supervisor_id"], row["audit_id"]), {}))
        found.append({**format_row(row), AFFECTED: affected, **({ADDRESS: address} if address else {})})
    return found


def find_rows(
    connection: Connection, wanted: AuditFilter, beside: RowPosition | None = None, *, newer: bool = False
) -> list[Row]:
    """The same rows as stored. A row is about its target and about each other worker that it affected."""
    wanted = with_actors(connection, wanted)
    rows = _matching_rows(connection, wanted, beside, newer=newer)
    if wanted.about and wanted.target_type in (None, "worker"):
        others = _affecting_rows(connection, wanted, beside, rows, newer=newer)
        if others:
            unique = {position_of(row): row for row in (*rows, *others)}
            rows = sort_rows(unique.values(), newer=newer)[: wanted.limit]
    return rows


def with_actors(connection: Connection, wanted: AuditFilter) -> AuditFilter:
    """The same search, with the actors that its issuer can mean."""
    if not wanted.issuer or wanted.actors is not None:
        return wanted
    return replace(wanted, actors=tuple(find_actors(connection, wanted.issuer)))


def _affecting_rows(
    connection: Connection, wanted: AuditFilter, beside: RowPosition | None, direct: Sequence[Row], *, newer: bool
) -> list[Row]:
    """The rows that fit and affected one of the wanted workers beside their target; not those after all direct ones."""
    newest = newest_by_worker(connection)
    bound = direct[-1]["created_at"] if len(direct) == wanted.limit and not newer else None
    oldest = bound if isinstance(bound, datetime) else wanted.since
    workers = [name for name in wanted.about if name in newest and (oldest is None or newest[name] >= oldest)]
    if not workers:
        return []
    these = [audit_workers.c.created_at >= oldest] if oldest else []
    these += [*_conditions(wanted, _filters(wanted, about=False)), *_labeled(wanted), *_of_chain(wanted)]
    return _indexed_rows(connection, workers, wanted, these, beside, newer=newer)


def _indexed_rows(
    connection: Connection,
    names: Sequence[str],
    wanted: AuditFilter,
    these: Sequence[ColumnElement[bool]],
    beside: RowPosition | None,
    *,
    newer: bool,
) -> list[Row]:
    """The rows that the index of names has under each of these, and that meet the conditions."""
    each = audit_workers.c
    bounds = [each.created_at >= wanted.since] if wanted.since else []
    bounds += _beyond(beside, newer=newer, columns=each) if beside else ()
    same = and_(audit_log.c.supervisor_id == each.supervisor_id, audit_log.c.audit_id == each.audit_id)
    query = select(audit_log).join(audit_workers, same).order_by(*_order(newer=newer, columns=each))
    query = query.where(each.worker_id == bindparam("value"), *bounds, *these).limit(wanted.limit)
    return [row for name in names for row in _rows(connection, query, value=name)]


def _matching_rows(
    connection: Connection, wanted: AuditFilter, beside: RowPosition | None, *, newer: bool
) -> list[Row]:
    """The rows that fit by their own columns."""
    when = [*_since(wanted), *(_beyond(beside, newer=newer) if beside else ())]
    narrow = _filters(wanted)
    walked = _narrowest(connection, wanted, narrow, when)
    others = _conditions(wanted, [each for each in narrow if each[0] is not walked])
    others += [audit_log.c.target_type == wanted.target_type] if wanted.target_type else []
    others += [*_labeled(wanted), *_of_chain(wanted)]
    query = select(audit_log).where(and_(True, *others, *when)).order_by(*_order(newer=newer)).limit(wanted.limit)
    if walked is audit_log.c.action and wanted.command:
        executed = _rows(connection, query.where(walked == wanted.action))
        names, these = [command_key(wanted.command)], [*others, matches_action(wanted)]
        told = _indexed_rows(connection, names, wanted, these, beside, newer=newer)
        return sort_rows([*executed, *told], newer=newer)[: wanted.limit]
    if walked is None:
        return _rows(connection, query)
    values = next(values for column, values in narrow if column is walked)
    if len(values) > 1:
        times = [*_since(wanted), *(_beyond(beside, newer=newer)[:1] if beside else ())]
        together = query.where(_is_one(walked, values))
        rows, complete = _among_nearest(connection, together, wanted.limit, times, newer=newer)
        if complete:
            return rows
    return _by_value(connection, query, walked, values, wanted.limit, newer=newer)


def _labeled(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    """The condition that the row has exactly this label, after the issuer's name, which has no separator in it."""
    if not wanted.label:
        return []
    column, ending = audit_log.c.label, f"{SEPARATOR}{wanted.label}"
    start = func.length(column) - len(ending)
    name = func.substr(column, 1, start)
    return [start > 0, func.substr(column, start + 1) == ending, name.not_like(f"%{SEPARATOR}%")]


def _of_chain(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    return [audit_log.c.supervisor_id == wanted.supervisor_id] if wanted.supervisor_id else []


def _since(wanted: AuditFilter) -> tuple[ColumnElement[bool], ...]:
    return (audit_log.c.created_at >= wanted.since,) if wanted.since else ()


def _among_nearest(
    connection: Connection, query: Select[Any], limit: int, times: Sequence[ColumnElement[bool]], *, newer: bool
) -> tuple[list[Row], bool]:
    """The matches of a query among the rows that come first by their time, and whether these are the first matches.
    `times` are its conditions that an index of times answers."""
    at = audit_log.c.created_at
    first = select(at).where(and_(True, *times)).order_by(at.asc() if newer else at.desc())
    end = connection.execute(first.limit(1).offset(NEWEST)).scalar()
    if end is not None and not isinstance(end, datetime):
        return [], False  # an altered row: nothing can be compared with its time
    rows = _rows(connection, query if end is None else query.where(at <= end if newer else at >= end))
    return rows, end is None or len(rows) == limit


def _by_value(
    connection: Connection, query: Select[Any], walked: Column[str], values: Sequence[str], limit: int, *, newer: bool
) -> list[Row]:
    """The first matches of a query for each of several values.

    One look for each, so that the index has its rows in order: those of several would have to be sorted.
    """
    at = audit_log.c.created_at
    each = query.where(walked == bindparam("value"))
    bounded = each.where(at <= bindparam("moment") if newer else at >= bindparam("moment"))
    rows: list[Row] = []
    for value in values:
        last = rows[-1]["created_at"] if len(rows) == limit else None
        if isinstance(last, datetime):
            rows += _rows(connection, bounded, value=value, moment=last)
        else:
            rows += _rows(connection, each, value=value)
        rows = sort_rows(rows, newer=newer)[:limit] if len(values) > 1 else rows
    return rows


def _rows(connection: Connection, query: Select[Any], **parameters: Any) -> list[Row]:  # noqa: ANN401
    return [dict(row) for row in connection.execute(query, parameters).mappings()]


def _conditions(wanted: AuditFilter, filters: Sequence[tuple[Column[str], Sequence[str]]]) -> list[ColumnElement[bool]]:
    """These filters as conditions that are checked row by row."""
    return [
        matches_action(wanted) if column is audit_log.c.action else _is_one(column, values)
        for column, values in filters
    ]


def _is_one(column: Column[str], values: Sequence[str]) -> ColumnElement[bool]:
    """The condition that the column has one of these values, in a form that no planner takes for a use of an index."""
    return func.coalesce(column, "").in_(values)


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


def _filters(wanted: AuditFilter, *, about: bool = True) -> list[tuple[Column[str], Sequence[str]]]:
    """The columns with their wanted values; a column without any value has no row."""
    filters: list[tuple[Column[str], Sequence[str]]] = []
    if wanted.issuer:
        filters.append((audit_log.c.actor, wanted.actors or ()))
    if wanted.about and about:
        filters.append((audit_log.c.target_id, wanted.about))
    if wanted.action:
        filters.append((audit_log.c.action, (wanted.action,)))
    return filters


def _narrowest(
    connection: Connection,
    wanted: AuditFilter,
    filters: Sequence[tuple[Column[str], Sequence[str]]],
    when: Sequence[ColumnElement[bool]],
) -> Column[str] | None:
    """The column whose index leaves the fewest rows. The others are compared row by row, in a form for which no planner
    uses their index: without statistics it would guess, and read a million rows for nothing."""
    if len(filters) < 2:
        return filters[0][0] if filters else None
    best, fewest = filters[0][0], MOST_COUNTED
    for column, values in filters:
        number, index = 0, audit_workers.c
        entries = [select(audit_log.c.created_at).where(column == value, *when) for value in values]
        if column is audit_log.c.action and wanted.command:
            entries.append(select(index.created_at).where(index.worker_id == command_key(wanted.command)))
        for each in entries:
            some = each.limit(fewest - number).subquery()
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
