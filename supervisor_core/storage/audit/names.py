"""The names in the audit trail, by its indexes: its actors, the workers that a row affected besides its target, and
the command that a row tells of without its execution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select

from supervisor_core.commands.catalog import by_handler, find
from supervisor_core.commands.labels import Affected, ascii_name
from supervisor_core.common.text import is_plain
from supervisor_core.storage.audit.cells import LARGEST_ID, details_of
from supervisor_core.storage.audit.trail import DECIDING, TELLING
from supervisor_core.storage.tables import audit_log, audit_workers, jobs

MOST_WORDS = 3  # of a command's name

MOST = 1000
"""Workers of one row. A larger fleet on one checkout is found by the named worker alone."""

TARGET = "target"
"""The role of the target of a row that was copied from another host, under its address."""

COMMAND = "command"
"""The role of the command that a row tells of."""

_AT_ONCE = 200


def command_key(name: str) -> str:
    """A command's name in the index; no worker has it."""
    return f"{COMMAND}:{name}"


def told_commands(action: str, details: Mapping[str, Any]) -> set[str]:
    """The names of the commands that a row of this action tells of. A family and one of its commands are two."""
    if action not in TELLING:
        return set()
    words = str(details.get("command") or "").split()
    found = {_exactly(" ".join(words[:count])) for count in range(1, len(words[:MOST_WORDS]) + 1)}
    by = by_handler(str(details.get("handler") or ""))
    return {each for each in (*found, by.name if by else "") if each}


def commands_of(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The entries for the commands that these rows tell of, as they are stored: altered ones may hold anything."""
    return [
        {
            "supervisor_id": row["supervisor_id"],
            "audit_id": row["audit_id"],
            "worker_id": command_key(name),
            "role": COMMAND,
            "created_at": row["created_at"],
        }
        for row in rows
        if row["action"] in TELLING and isinstance(row["created_at"], datetime)
        for name in sorted(told_commands(row["action"], details_of(row)))
    ]


def _exactly(words: str) -> str:
    """The name of the command that these words are exactly; empty for others."""
    definition = find(words)
    return words if definition is not None and definition.name == words else ""


def index_names(
    connection: Connection,
    supervisor_id: str,
    audit_id: int,
    affected: Affected,
    task_id: str | None,
    at: datetime,
    commands: Iterable[str] = (),
) -> None:
    """Index the row under these commands and workers, except workers with a row of their own for the same command."""
    names = {command_key(each): COMMAND for each in commands}
    if not (affected or names):
        return
    named = select(jobs.c.worker_id).where(jobs.c.task_id == task_id) if task_id and affected else None
    own = set(connection.execute(named).scalars()) if named is not None else set()
    key = {"supervisor_id": supervisor_id, "audit_id": audit_id, "created_at": at}
    names |= {each: role for each, role in affected.items() if each not in own}
    rows = [{**key, "worker_id": each, "role": role} for each, role in names.items()]
    if rows:
        connection.execute(insert(audit_workers), rows[:MOST])


def affected_workers(
    connection: Connection, places: Iterable[tuple[Any, Any]]
) -> dict[tuple[str, int], dict[str, str]]:
    """The workers that these rows affected, with their roles."""
    found: dict[tuple[str, int], dict[str, str]] = {}
    by_host: dict[str, list[int]] = {}
    for host, number in sorted({place for place in places if _is_whole(place)}):
        by_host.setdefault(host, []).append(number)
    each = audit_workers.c
    query = select(each.audit_id, each.worker_id, each.role).where(
        each.supervisor_id == bindparam("host"),
        each.audit_id.in_(bindparam("numbers", expanding=True)),
        each.role != COMMAND,
    )
    for host, numbers in by_host.items():
        for begin in range(0, len(numbers), _AT_ONCE):
            asked = {"host": host, "numbers": numbers[begin : begin + _AT_ONCE]}
            for number, worker, role in connection.execute(query, asked):
                found.setdefault((host, number), {})[worker] = role
    return found


def parted(affected: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The address of a copied row's target, empty for another row, and the other workers that the row affected."""
    address = next((worker for worker, role in affected.items() if role == TARGET), "")
    return address, {worker: role for worker, role in affected.items() if role != TARGET}


def _is_whole(place: tuple[Any, Any]) -> bool:
    """True for a place that a row can have: an altered one may hold anything."""
    host, number = place
    return isinstance(host, str) and is_plain(host) and type(number) is int and 0 < number <= LARGEST_ID


def affected_between(connection: Connection, chain: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The affected workers of consecutive rows of a chain."""
    number, first, last = audit_workers.c.audit_id, rows[0]["audit_id"], rows[-1]["audit_id"]
    mine = (audit_workers.c.supervisor_id == chain, number >= first, number <= last)
    return [dict(row) for row in connection.execute(select(audit_workers).where(*mine)).mappings()]


def newest_by_worker(connection: Connection) -> dict[str, datetime]:
    """The time of the newest row that affected each worker. The index is walked from one worker to the next, however
    many rows each of them has."""
    worker, at = audit_workers.c.worker_id, audit_workers.c.created_at
    walk = select(func.min(worker).label("worker_id")).cte("walk", recursive=True)
    after = select(func.min(worker)).where(worker > walk.c.worker_id).correlate(walk).scalar_subquery()
    walk = walk.union_all(select(after).where(walk.c.worker_id.is_not(None)))
    newest = select(func.max(at)).where(worker == walk.c.worker_id).correlate(walk).scalar_subquery()
    rows = connection.execute(select(walk.c.worker_id, newest).where(walk.c.worker_id.is_not(None)))
    return {name: moment for name, moment in rows if moment is not None}


def find_actors(connection: Connection, who: str) -> list[str]:
    """The actors that this text can mean: the actor (`cli:anna`), its last part (`anna`, `U0OPER`), or the name in the
    newest labelled row. A Slack id is never taken as a name."""
    named = _actors_with_names(connection)
    of_slack = [actor for actor in named if actor.rpartition("/")[2] == who and "/" in actor]
    if of_slack:
        return of_slack
    lowered = ascii_name(who).lower()
    return [
        actor
        for actor, label in named.items()
        if who in (actor, actor.rpartition(":")[2]) or (lowered and label.partition(" - ")[0].lower() == lowered)
    ]


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
