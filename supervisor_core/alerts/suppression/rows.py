"""Suppressions as rows: mute, snooze, maintenance and quiet hours, filed once for each request and target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import Connection, RowMapping, and_, insert, or_, select, update

from supervisor_core.commands.command import Issuer
from supervisor_core.common.text import one_line, storable
from supervisor_core.jobs.rows import ISSUER_NAME
from supervisor_core.storage.tables import suppressions
from supervisor_core.workers.conditions import WORKER, Target

ALERT = "alert"
"""The kind of target that is one alert, by its id."""

EVERYTHING = Target("all", "*")
"""All workers and all of the host."""

CONFIGURATION = Issuer("configuration", "the configuration")
"""The author of suppressions from the configuration."""


class Hush(StrEnum):
    MUTE = "mute"
    SNOOZE = "snooze"
    MAINTENANCE = "maintenance"
    QUIET = "quiet"
    """Quiet hours: what is critical comes through."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """One row of `suppressions_t`: from when until when, about what, by whom, and why."""

    task_id: str
    target: Target
    kind: Hush
    since: datetime
    until: datetime
    by: Issuer
    reason: str = ""
    ended_at: datetime | None = None
    """The time at which somebody ended it early."""

    @property
    def ends_at(self) -> datetime:
        return min(self.until, self.ended_at) if self.ended_at is not None else self.until

    def holds(self, now: datetime) -> bool:
        """True if it keeps anything quiet at this moment."""
        return self.since <= now < self.ends_at


def whose(target: Target) -> Target:
    """The target to suppress for this one: of flapping, the worker."""
    return Target(WORKER, target.worker) if target.worker else target


def holding(
    suppressions: Iterable[Suppression], now: datetime, *, critical: bool = False, but: Iterable[Hush] = ()
) -> Suppression | None:
    """Of those that hold now, the one that ends last. Quiet hours let through what is critical."""
    left_out = {*but, *((Hush.QUIET,) if critical else ())}
    found = [each for each in suppressions if each.kind not in left_out and each.holds(now)]
    return max(found, key=lambda each: each.ends_at, default=None)


def over_since(suppressions: Iterable[Suppression], since: datetime, now: datetime) -> bool:
    """True if one of them has come to its end between these moments."""
    return any(since < each.ends_at <= now and each.since < each.ends_at for each in suppressions)


REASON = 200  # characters, as the command takes them

OF_LATE = timedelta(days=1)
"""An earlier end is irrelevant: a reminder has come since."""


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
    query = select(suppressions).where(suppressions.c.task_id == task_id).order_by(suppressions.c.target_id)
    return [_suppression(row) for row in connection.execute(query).mappings()]


def about(connection: Connection, targets: Collection[Target], now: datetime) -> dict[Target, list[Suppression]]:
    """The present and recent suppressions of each of these targets, those of everything included."""
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
    """Return the suppressions of this host that nobody ended early."""
    mine = (suppressions.c.supervisor_id == supervisor_id, suppressions.c.kind.in_(tuple(kinds)))
    query = select(suppressions).where(*mine, suppressions.c.ended_at.is_(None))
    return _all(connection.execute(query.order_by(suppressions.c.since)).mappings().all())


def end_this(connection: Connection, suppression: Suppression, at: datetime) -> bool:
    """End exactly this one; False if it was already ended."""
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
