"""Conditions and flips: the condition of each target, and each change of it, written once by compare-and-set.

Uptimes are added up from the flips.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, bindparam, false, func, insert, or_, select, update

from supervisor_core.common.text import flatten, one_line, storable
from supervisor_core.storage.tables import conditions, flips
from supervisor_core.workers.conditions import PARTS, WORKER, Condition, Severity, Target


@dataclass(frozen=True, slots=True)
class Flip:
    """A change of condition. `at` is the real time, `seen_at` the time of the observation."""

    flip_id: int
    target: Target
    old: Condition
    new: Condition
    reason: str
    at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class ConditionSpan:
    """A span of time in which one condition held; from `since` to before `until`."""

    condition: Condition
    since: datetime
    until: datetime
    reason: str = ""

    @property
    def length(self) -> timedelta:
        return self.until - self.since


@dataclass(frozen=True, slots=True)
class Uptime:
    """Sums over a span of time. Time in which the worker wasn't expected to run, or wasn't observed, doesn't count."""

    well: timedelta = timedelta(0)
    unwell: timedelta = timedelta(0)
    """It did its work, and not as it should: degraded and the like."""
    down: timedelta = timedelta(0)
    uncounted: timedelta = timedelta(0)

    @property
    def counted(self) -> timedelta:
        return self.well + self.unwell + self.down

    @property
    def share(self) -> float | None:
        """The part of the counted time in which it did its work; None where none was counted."""
        return (self.well + self.unwell) / self.counted if self.counted else None


def condition_spans(flips: Iterable[Flip], since: datetime, until: datetime) -> list[ConditionSpan]:
    """The conditions between these two moments, without a gap. `flips` are in their order; the last one before the
    span, if it is among them, says how the span begins. The time before an observation that nothing preceded is
    unknown, however long the condition may have held by then."""
    found: list[ConditionSpan] = []
    condition, reason, begun = Condition.UNKNOWN, "", since
    for flip in flips:
        at = min(max(flip.seen_at if flip.old is Condition.UNKNOWN else flip.at, begun), until)
        if at > begun:
            found.append(ConditionSpan(condition, begun, at, reason))
        condition, reason, begun = flip.new, flip.reason, at
    if until > begun:
        found.append(ConditionSpan(condition, begun, until, reason))
    return found


def uptime(flips: Iterable[Flip], since: datetime, until: datetime) -> Uptime:
    """The same span, added up."""
    well = unwell = down = uncounted = timedelta(0)
    for stretch in condition_spans(flips, since, until):
        if stretch.condition is Condition.WELL:
            well += stretch.length
        elif stretch.condition in (Condition.PAUSED, Condition.UNKNOWN):
            uncounted += stretch.length
        elif stretch.condition.severity is Severity.WARNING:
            unwell += stretch.length
        else:
            down += stretch.length
    return Uptime(well, unwell, down, uncounted)


REASON = 500  # characters of why
MOST = 10_000
"""Flips of one answer: a worker that changed every minute for a week."""

UNSEEN = 0
"""The flip id of a target that has none yet."""

# The compare-and-set: only from the flip that whoever decided this knew of.
_MOVE = update(conditions).where(
    *(
        conditions.c[name] == bindparam(f"its_{name}")
        for name in ("supervisor_id", "target_type", "target_id", "flip_id")
    )
)


@dataclass(frozen=True, slots=True)
class CurrentCondition:
    """The condition of a target after its newest flip."""

    target: Target
    condition: Condition
    reason: str
    since: datetime
    flip_id: int


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """From what is known of a target (None: nothing) to how it was just seen."""

    target: Target
    known: CurrentCondition | None
    condition: Condition
    reason: str
    at: datetime


def record_flips(
    connection: Connection, supervisor_id: str, changes: Sequence[ConditionChange], seen_at: datetime
) -> list[Flip | None]:
    """Store these flips of different targets in one transaction; None for one where another process was first.

    The flips of a target are in order: none is earlier than the one before it, whatever the clock said."""
    newest = connection.execute(select(func.max(flips.c.flip_id)).where(flips.c.supervisor_id == supervisor_id))
    flip_id: int = newest.scalar() or UNSEEN
    there = _flip_ids(connection, supervisor_id, [change.target for change in changes])
    made: list[Flip | None] = []
    moved: list[dict[str, Any]] = []
    begun: list[dict[str, Any]] = []
    for change in changes:
        before = change.known
        if there.get(change.target, UNSEEN) != (before.flip_id if before else UNSEEN):
            made.append(None)
            continue
        there[change.target] = flip_id = flip_id + 1
        flip = _next_flip(change, flip_id, seen_at)
        made.append(flip)
        values = {"condition": flip.new, "reason": flip.reason, "since": flip.at, "flip_id": flip_id}
        if before is None:
            begun.append({**_key(supervisor_id, flip.target), **values})
        else:
            key = {f"its_{name}": value for name, value in _key(supervisor_id, flip.target).items()}
            moved.append({**key, "its_flip_id": before.flip_id, **values})
    rows = [_flip_row(supervisor_id, flip) for flip in made if flip is not None]
    for statement, parameters in ((insert(conditions), begun), (_MOVE, moved), (insert(flips), rows)):
        if parameters:
            connection.execute(statement, parameters)
    return made


def _next_flip(change: ConditionChange, flip_id: int, seen_at: datetime) -> Flip:
    before = change.known
    at = min(change.at, seen_at)
    if before and change.condition.fine and not before.condition.fine and at <= before.since:
        at = seen_at  # the process of before the problem: it says nothing about when it recovered
    at = max(at, before.since) if before else at
    reason = one_line(storable(flatten(change.reason)), REASON)
    old = before.condition if before else Condition.UNKNOWN
    return Flip(flip_id, change.target, old, change.condition, reason, at, seen_at)


def _flip_row(supervisor_id: str, flip: Flip) -> dict[str, Any]:
    values = {"old": flip.old, "new": flip.new, "reason": flip.reason, "at": flip.at, "seen_at": flip.seen_at}
    return {**_key(supervisor_id, flip.target), "flip_id": flip.flip_id, **values}


def _flip_ids(connection: Connection, supervisor_id: str, targets: Sequence[Target]) -> dict[Target, int]:
    """The newest flip of each of these, locked where the database can: the compare-and-set is to hold."""
    query = select(conditions.c.target_type, conditions.c.target_id, conditions.c.flip_id)
    query = query.where(conditions.c.supervisor_id == supervisor_id, _among(targets)).with_for_update()
    return {Target(row.target_type, row.target_id): row.flip_id for row in connection.execute(query)}


def _among(targets: Sequence[Target]) -> ColumnElement[bool]:
    by_kind: dict[str, list[str]] = {}
    for target in targets:
        by_kind.setdefault(target.kind, []).append(target.id)
    return or_(
        false(),
        *(and_(conditions.c.target_type == kind, conditions.c.target_id.in_(ids)) for kind, ids in by_kind.items()),
    )


def current_conditions(connection: Connection, supervisor_id: str) -> dict[Target, CurrentCondition]:
    query = select(conditions).where(conditions.c.supervisor_id == supervisor_id)
    found = (_standing(row) for row in connection.execute(query).mappings())
    return {each.target: each for each in found}


def current_host_conditions(connection: Connection, supervisor_id: str) -> dict[Target, CurrentCondition]:
    mine = (conditions.c.supervisor_id == supervisor_id, conditions.c.target_type.in_(PARTS))
    found = (_standing(row) for row in connection.execute(select(conditions).where(*mine)).mappings())
    return {each.target: each for each in found}


def current_condition(connection: Connection, supervisor_id: str, target: Target) -> CurrentCondition | None:
    """The condition of this target; None before the first observation."""
    query = select(conditions).where(*_mine(supervisor_id, target))
    row = connection.execute(query).mappings().first()
    return _standing(row) if row else None


def update_reason(connection: Connection, supervisor_id: str, standing: CurrentCondition, reason: str) -> bool:
    """The same condition for another reason; False where it has flipped meanwhile."""
    mine = (*_mine(supervisor_id, standing.target), conditions.c.flip_id == standing.flip_id)
    words = one_line(storable(flatten(reason)), REASON)
    return connection.execute(update(conditions).where(*mine).values(reason=words)).rowcount == 1


def find(connection: Connection, supervisor_id: str, flip_id: int) -> Flip | None:
    query = select(flips).where(flips.c.supervisor_id == supervisor_id, flips.c.flip_id == flip_id)
    row = connection.execute(query).mappings().first()
    return _flip(row) if row else None


def flips_of_target(
    connection: Connection, target: Target, since: datetime, until: datetime, supervisor_id: str | None = None
) -> list[Flip]:
    """Its flips between these moments, in their order, the newest where there are too many; and before them the last
    one that came earlier: it says how the span began."""
    mine = [flips.c.target_type == target.kind, flips.c.target_id == target.id]
    if supervisor_id is not None:
        mine.append(flips.c.supervisor_id == supervisor_id)
    before = select(flips).where(*mine, flips.c.at < since).order_by(flips.c.at.desc(), flips.c.flip_id.desc()).limit(1)
    within = select(flips).where(*mine, flips.c.at >= since, flips.c.at < until)
    newest = within.order_by(flips.c.at.desc(), flips.c.flip_id.desc()).limit(MOST)
    rows = [*connection.execute(before).mappings(), *reversed(connection.execute(newest).mappings().all())]
    return [_flip(row) for row in rows]


def flips_of_kind(
    connection: Connection, supervisor_id: str, kind: str, since: datetime, until: datetime
) -> list[Flip]:
    """All flips of this host's targets of this kind between these moments, in their order."""
    mine = (flips.c.supervisor_id == supervisor_id, flips.c.target_type == kind)
    query = select(flips).where(*mine, flips.c.at >= since, flips.c.at < until).order_by(flips.c.at, flips.c.flip_id)
    return [_flip(row) for row in connection.execute(query).mappings()]


def any_before(connection: Connection, supervisor_id: str, moment: datetime) -> bool:
    """True if anything was seen on this host before this moment."""
    query = select(flips.c.flip_id).where(flips.c.supervisor_id == supervisor_id, flips.c.at < moment).limit(1)
    return connection.execute(query).first() is not None


def frequent_flippers(
    connection: Connection, supervisor_id: str, kind: str, ids: Collection[str], since: datetime, least: int
) -> set[str]:
    """Those of these targets that have flipped at least so often since then."""
    mine = (flips.c.supervisor_id == supervisor_id, flips.c.target_type == kind, flips.c.target_id.in_(tuple(ids)))
    query = select(flips.c.target_id).where(*mine, flips.c.at >= since).group_by(flips.c.target_id)
    return set(connection.execute(query.having(func.count() >= least)).scalars())


def _key(supervisor_id: str, target: Target) -> dict[str, str]:
    return {"supervisor_id": supervisor_id, "target_type": target.kind, "target_id": target.id}


def _mine(supervisor_id: str, target: Target) -> tuple[ColumnElement[bool], ...]:
    return tuple(conditions.c[name] == value for name, value in _key(supervisor_id, target).items())


def _standing(row: RowMapping) -> CurrentCondition:
    target = Target(row["target_type"], row["target_id"])
    return CurrentCondition(target, Condition(row["condition"]), row["reason"], row["since"], row["flip_id"])


def _flip(row: RowMapping) -> Flip:
    return Flip(
        flip_id=row["flip_id"],
        target=Target(row["target_type"], row["target_id"]),
        old=Condition(row["old"]),
        new=Condition(row["new"]),
        reason=row["reason"],
        at=row["at"],
        seen_at=row["seen_at"],
    )


SPANS: Mapping[str, timedelta] = {"24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
"""The spans that people choose from, the longest last."""


def uptimes_of_workers(
    connection: Connection,
    supervisor_id: str,
    workers: Collection[str],
    until: datetime,
    spans: Sequence[timedelta] = tuple(SPANS.values()),
) -> dict[str, tuple[Uptime, ...]]:
    """Of each of these workers, one for each span; two queries, however many workers."""
    past = flips_of_workers(connection, supervisor_id, until - max(spans), until)
    return {
        worker_id: tuple(uptime(past.get(worker_id, ()), until - span, until) for span in spans)
        for worker_id in workers
    }


def flips_of_workers(
    connection: Connection, supervisor_id: str, since: datetime, until: datetime
) -> dict[str, list[Flip]]:
    """The flips of this host's workers between these moments, each list led by the condition at its beginning; two
    queries, however many workers."""
    past: dict[str, list[Flip]] = {}
    for flip in flips_of_kind(connection, supervisor_id, WORKER, since, until):
        past.setdefault(flip.target.id, [_before(flip, since)]).append(flip)
    for target, current in current_conditions(connection, supervisor_id).items():
        if target.kind == WORKER and target.id not in past and current.since < since:
            past[target.id] = [_flip_of(target, current.condition, since)]
    return past


def _before(first: Flip, since: datetime) -> Flip:
    """The condition when the span began, by the first change in it."""
    return _flip_of(first.target, first.old, since)


def _flip_of(target: Target, condition: Condition, at: datetime) -> Flip:
    return Flip(UNSEEN, target, Condition.UNKNOWN, condition, "", at, at)
