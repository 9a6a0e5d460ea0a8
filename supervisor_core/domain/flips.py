"""A flip: one persisted change of a target's condition; and what the flips of a span of time add up to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from supervisor_core.domain.conditions import Condition, Severity, Target


@dataclass(frozen=True, slots=True)
class Flip:
    """From one condition to another. `at` is when it truly happened, `seen_at` when somebody saw it."""

    flip_id: int
    target: Target
    old: Condition
    new: Condition
    reason: str
    at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Stretch:
    """A span of time in which one condition held; from `since` to before `until`."""

    condition: Condition
    since: datetime
    until: datetime
    reason: str = ""

    @property
    def length(self) -> timedelta:
        """How long it was."""
        return self.until - self.since


@dataclass(frozen=True, slots=True)
class Uptime:
    """What a span of time adds up to. Time in which nobody wanted it to run, or nobody looked, counts for nothing."""

    well: timedelta = timedelta(0)
    unwell: timedelta = timedelta(0)
    """It did its work, and not as it should: degraded and the like."""
    down: timedelta = timedelta(0)
    uncounted: timedelta = timedelta(0)

    @property
    def share(self) -> float | None:
        """The part of the counted time in which it did its work; None where none was counted."""
        counted = self.well + self.unwell + self.down
        return (self.well + self.unwell) / counted if counted else None


def stretches(flips: Iterable[Flip], since: datetime, until: datetime) -> list[Stretch]:
    """What held when, between these two moments, without a gap. `flips` are in their order; the last one before the
    span, if it is among them, says how the span begins."""
    found: list[Stretch] = []
    condition, reason, begun = Condition.UNKNOWN, "", since
    for flip in flips:
        at = min(max(flip.at, begun), until)
        if at > begun:
            found.append(Stretch(condition, begun, at, reason))
        condition, reason, begun = flip.new, flip.reason, at
    if until > begun:
        found.append(Stretch(condition, begun, until, reason))
    return found


def uptime(flips: Iterable[Flip], since: datetime, until: datetime) -> Uptime:
    """The same span, added up."""
    well = unwell = down = uncounted = timedelta(0)
    for stretch in stretches(flips, since, until):
        if stretch.condition is Condition.WELL:
            well += stretch.length
        elif stretch.condition in (Condition.PAUSED, Condition.UNKNOWN):
            uncounted += stretch.length
        elif stretch.condition.severity is Severity.WARNING:
            unwell += stretch.length
        else:
            down += stretch.length
    return Uptime(well, unwell, down, uncounted)
