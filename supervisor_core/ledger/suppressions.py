"""Suppressions as rows: what keeps alerts quiet, from when until when, filed once for each request and target."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, and_, insert, or_, select, update

from supervisor_core.domain.command import Issuer
from supervisor_core.domain.conditions import WORKER, Target
from supervisor_core.domain.suppressions import EVERYTHING, Hush, Suppression, whose
from supervisor_core.domain.texts import one_line, storable
from supervisor_core.ledger.jobs import ISSUER_NAME
from supervisor_core.ledger.tables import suppressions

REASON = 200  # characters, as the command takes them

OF_LATE = timedelta(days=1)
"""An end that lies further back is no news: a reminder has come since."""


def file(connection: Connection, supervisor_id: str, suppression: Suppression) -> bool:
    """Keep a new one; False where the same request has filed it before."""
    mine = (
        suppressions.c.task_id == suppression.task_id,
        suppressions.c.target_type == suppression.target.kind,
        suppressions.c.target_id == suppression.target.id,
    )
    if connection.execute(select(suppressions.c.kind).where(*mine)).first() is not None:
        return False
    row = {
        "task_id": suppression.task_id,
        "target_type": suppression.target.kind,
        "target_id": suppression.target.id,
        "supervisor_id": supervisor_id,
        "kind": suppression.kind,
        "since": suppression.since,
        "until": suppression.until,
        "by_id": suppression.by.id,
        "by_name": suppression.by.name[:ISSUER_NAME],
        "reason": one_line(storable(suppression.reason), REASON),
    }
    connection.execute(insert(suppressions), row)
    return True


def end(connection: Connection, target: Target, kind: Hush, now: datetime) -> int:
    """End what keeps this target quiet in this way; how many there were."""
    mine = and_(
        suppressions.c.target_type == target.kind,
        suppressions.c.target_id == target.id,
        suppressions.c.kind == kind,
        suppressions.c.ended_at.is_(None),
        suppressions.c.until > now,
    )
    return connection.execute(update(suppressions).where(mine).values(ended_at=now)).rowcount


def of_request(connection: Connection, task_id: str) -> list[Suppression]:
    """What was filed for this request."""
    query = select(suppressions).where(suppressions.c.task_id == task_id).order_by(suppressions.c.target_id)
    return [_suppression(row) for row in connection.execute(query).mappings()]


def about(connection: Connection, targets: Collection[Target], now: datetime) -> dict[Target, list[Suppression]]:
    """What keeps each of these quiet, or did until of late: of its own, and what is about everything."""
    wanted = {*map(whose, targets), EVERYTHING}
    by_kind: dict[str, list[str]] = {}
    for target in wanted:
        by_kind.setdefault(target.kind, []).append(target.id)
    which = [
        and_(suppressions.c.target_type == kind, suppressions.c.target_id.in_(ids)) for kind, ids in by_kind.items()
    ]
    query = select(suppressions).where(suppressions.c.until > now - OF_LATE, or_(*which))
    found: dict[Target, list[Suppression]] = {target: [] for target in wanted}
    for row in connection.execute(query).mappings():
        each = _suppression(row)
        found[each.target].append(each)
    general = found[EVERYTHING]
    return {target: [*found[whose(target)], *general] for target in targets}


def of_kinds(connection: Connection, supervisor_id: str, kinds: Collection[Hush]) -> list[Suppression]:
    """Those of this host that nobody has ended yet, over or not."""
    mine = (suppressions.c.supervisor_id == supervisor_id, suppressions.c.kind.in_(tuple(kinds)))
    query = select(suppressions).where(*mine, suppressions.c.ended_at.is_(None))
    return _all(connection.execute(query.order_by(suppressions.c.since)).mappings().all())


def end_this(connection: Connection, suppression: Suppression, at: datetime) -> bool:
    """End exactly this one; False where somebody else has."""
    mine = and_(
        suppressions.c.task_id == suppression.task_id,
        suppressions.c.target_type == suppression.target.kind,
        suppressions.c.target_id == suppression.target.id,
        suppressions.c.ended_at.is_(None),
    )
    return connection.execute(update(suppressions).where(mine).values(ended_at=at)).rowcount == 1


def muted_until(connection: Connection, now: datetime) -> dict[str, Suppression]:
    """The workers that are muted or in maintenance at the moment, each with what ends last; what is about everything,
    under the name of that."""
    query = select(suppressions).where(
        suppressions.c.until > now,
        suppressions.c.ended_at.is_(None),
        suppressions.c.kind.in_((Hush.MUTE, Hush.MAINTENANCE)),
        suppressions.c.target_type.in_((WORKER, EVERYTHING.kind)),
    )
    found: dict[str, Suppression] = {}
    for each in _all(connection.execute(query.order_by(suppressions.c.until)).mappings().all()):
        if each.holds(now):
            found[each.target.id] = each
    return found


def _all(rows: Sequence[RowMapping]) -> list[Suppression]:
    return [_suppression(row) for row in rows]


def _suppression(row: RowMapping) -> Suppression:
    return Suppression(
        task_id=row["task_id"],
        target=Target(row["target_type"], row["target_id"]),
        kind=Hush(row["kind"]),
        since=row["since"],
        until=row["until"],
        by=Issuer(row["by_id"], row["by_name"]),
        reason=row["reason"],
        ended_at=row["ended_at"],
    )
