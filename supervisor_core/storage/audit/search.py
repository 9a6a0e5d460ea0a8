"""Search in the audit trail: the newest rows that fit, from any row on.

Each target, actor or command is looked up by itself, in the order of the index that begins with it. Rows are returned
as stored, however damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select, true

from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.commands.catalog import CATALOG, find
from supervisor_core.commands.command import Command
from supervisor_core.commands.labels import SEPARATOR, ascii_name
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import is_plain, nearest
from supervisor_core.common.times import since_moment, to_text
from supervisor_core.storage.audit.chain import DECIDING, OTHER_ACTIONS, Row, as_stored, details_of, format_row
from supervisor_core.storage.tables import audit_log


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The terms of a search; None or empty means any."""

    targets: tuple[str, ...] = ()
    """One of these. The address of a fleet's worker also finds the rows that were copied from its host."""
    issuer: str | None = None
    action: str | None = None
    command: str = ""
    """The name of a command if all rows about it are wanted, not only its executions."""
    label: str = ""
    """The label as it was given."""
    since: datetime | None = None
    limit: int = 50
    target_type: str | None = None
    """A worker may have the name of its supervisor."""
    supervisor_id: str | None = None
    """The chain of one host: another host may have a worker of the same name."""
    actors: tuple[str, ...] | None = None
    """The actors that the issuer can mean, once they are known."""


@dataclass(frozen=True, slots=True)
class RowPosition:
    """A place in the trail: next to this row, which is excluded."""

    supervisor_id: Any
    audit_id: Any
    """As stored; in a damaged row it may be anything."""


def audit_filter(command: Command, now: datetime, zone: tzinfo = UTC) -> AuditFilter:
    """The search that an `audit` command means, for somebody in this zone; `UsageError` for what no row can be."""
    name, since = command.params.get("command"), command.params.get("since")
    action, command_name = _action_of(str(name)) if name is not None else (None, "")
    return AuditFilter(
        targets=tuple(dict.fromkeys((*command.workers, command.target))) if command.target else (),
        issuer=command.params.get("by"),
        action=action,
        command=command_name,
        label=str(command.params.get("label") or ""),
        since=since_moment(str(since), now, zone) if since else None,
        limit=int(command.params["limit"]),
    )


def _action_of(name: str) -> tuple[str, str]:
    """The action that a command's executions are recorded under, and its name; or this action itself, and no name."""
    definition = find(name)
    if definition is not None and definition.audit_action:
        return definition.audit_action, definition.name
    known = {*OTHER_ACTIONS, *(each.audit_action for each in CATALOG.values() if each.audit_action)}
    if name.upper() in known:
        return name.upper(), ""
    near = nearest(name, [*CATALOG, *known])
    remedy = (
        f"Did you mean {near}?" if near else "Try a command, such as rollback, or an action, such as CONFIG_APPLIED."
    )
    raise UsageError(f"{name!a} isn't a command in the audit trail.", remedy=remedy)


def search(connection: Connection, wanted: AuditFilter) -> list[Row]:
    """The newest matching rows, newest first, by column name, with times as text. `damaged` describes an alteration."""
    return [format_row(row) for row in find_rows(connection, wanted)]


def find_rows(
    connection: Connection, wanted: AuditFilter, beside: RowPosition | None = None, *, newer: bool = False
) -> list[Row]:
    """The same rows as stored. With `beside`, those that come after this row in that order; with `newer`, those before
    it, the nearest first."""
    wanted = with_actors(connection, wanted)
    row = audit_log.c
    alternatives, others = _alternatives(wanted)
    if wanted.action and not wanted.command:
        others.append(row.action == wanted.action)
    if wanted.label:  # exactly this label after the issuer's name, which has no separator in it
        ending = f"{SEPARATOR}{wanted.label}"
        start = func.length(row.label) - len(ending)
        name = func.substr(row.label, 1, start)
        others += [start > 0, func.substr(row.label, start + 1) == ending, name.not_like(f"%{SEPARATOR}%")]
    if wanted.since:
        others.append(row.created_at >= wanted.since)
    if wanted.target_type:
        others.append(row.target_type == wanted.target_type)
    if wanted.supervisor_id:
        others.append(row.supervisor_id == wanted.supervisor_id)
    if beside:
        others += _beyond(beside, newer=newer)
    at, host, number = row.created_at, row.supervisor_id, row.audit_id
    order = (at.asc(), host.desc(), number.asc()) if newer else (at.desc(), host.asc(), number.desc())
    found: list[Row] = []
    for alternative in alternatives:
        query = select(audit_log).where(alternative, *others).order_by(*order).limit(wanted.limit)
        last = found[-1]["created_at"] if len(found) == wanted.limit else None
        if isinstance(last, datetime):
            query = query.where(at <= last if newer else at >= last)
        rows = [dict(each) for each in connection.execute(query).mappings()]
        if found:
            unique = {position_of(each): each for each in (*found, *rows)}
            rows = sort_rows(unique.values(), newer=newer)[: wanted.limit]
        found = rows
    return found


def _alternatives(wanted: AuditFilter) -> tuple[list[ColumnElement[bool]], list[ColumnElement[bool]]]:
    """Conditions of which one must be met, each for one look at an index, and others that must be met as well."""
    row = audit_log.c
    others: list[ColumnElement[bool]] = []
    targets: list[ColumnElement[bool]] = []
    for target in wanted.targets:
        targets.append(row.target_id == target)
        if is_address(target):
            address = address_of(target)
            targets.append(and_(row.supervisor_id == address.host, row.target_id == address.worker_id))
    groups = [targets] if targets else []
    if wanted.actors is not None:
        groups.append([row.actor == actor for actor in wanted.actors])
    if wanted.command:
        groups.append([row.command == wanted.command, row.action == wanted.action])
    if not groups:
        return [true()], others
    # An empty group has no row at all.
    others += [or_(*group) if group else ~true() for group in groups[1:]]
    return groups[0], others


def _beyond(beside: RowPosition, *, newer: bool) -> tuple[ColumnElement[bool], ...]:
    """The rows after this one, in the order of the trail or against it; none for a missing row."""
    at, host, number = audit_log.c.created_at, audit_log.c.supervisor_id, audit_log.c.audit_id
    its_host, its_number = as_stored(beside.supervisor_id), as_stored(beside.audit_id)
    row = audit_log.alias("beside")
    moment = select(row.c.created_at).where(row.c.supervisor_id == its_host, row.c.audit_id == its_number)
    its_time = moment.scalar_subquery()
    same = and_(host == its_host, number > its_number if newer else number < its_number)
    if newer:
        return at >= its_time, or_(at > its_time, host < its_host, same)
    return at <= its_time, or_(at < its_time, host > its_host, same)


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
    return RowPosition(row["supervisor_id"], row["audit_id"])


def with_actors(connection: Connection, wanted: AuditFilter) -> AuditFilter:
    """The same search, with the actors that its issuer can mean."""
    if not wanted.issuer or wanted.actors is not None:
        return wanted
    return replace(wanted, actors=tuple(find_actors(connection, wanted.issuer)))


def find_actors(connection: Connection, who: str) -> Sequence[str]:
    """The actors that this text can mean: the actor (`cli:anna`), its last part (`anna`, `U0OPER`), or the name in the
    newest labelled row. A Slack id is never taken as a name."""
    actor, label, action, at = audit_log.c.actor, audit_log.c.label, audit_log.c.action, audit_log.c.created_at
    # The newest row of each, from one actor to the next by the index, however many rows each of them has.
    newest = select(actor, label, action).order_by(actor.desc(), at.desc()).limit(1)
    following = newest.where(actor < bindparam("last", type_=actor.type))
    labels: dict[str, str | None] = {}
    row = connection.execute(newest).first()
    while row is not None:
        last = row.actor
        if isinstance(last, str) and not is_plain(last):  # an altered cell is nobody's name
            row = connection.execute(newest.where(actor < as_stored(last))).first()
            continue
        if isinstance(last, str):
            labels[last] = None if row.action in DECIDING else row.label
        row = connection.execute(following, {"last": last}).first()
    of_slack = [each for each in labels if "/" in each and each.rpartition("/")[2] == who]
    if of_slack:
        return of_slack
    name = ascii_name(who).lower()
    named = select(label).where(label.is_not(None), action.not_in(DECIDING)).order_by(at.desc()).limit(1)
    found = []
    for each, text in labels.items():
        if text is None and name and ":" in each:
            text = connection.execute(named.where(actor == each)).scalar()  # noqa: PLW2901
        called = text.partition(SEPARATOR)[0].lower() if isinstance(text, str) else ""
        if who in (each, each.rpartition(":")[2]) or (called and called == name):
            found.append(each)
    return found


def cause_of(connection: Connection, row: Row) -> Row:
    """The row through which this row's worker was affected; the row itself where its worker was the target."""
    number = details_of(row).get("cause_id")
    if type(number) is not int:
        return row
    query = select(audit_log).where(audit_log.c.supervisor_id == row["supervisor_id"], audit_log.c.audit_id == number)
    cause = connection.execute(query).mappings().first()
    return format_row(dict(cause)) if cause else row
