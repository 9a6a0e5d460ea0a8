"""What keeps alerts quiet: mute, snooze, maintenance and quiet hours are one kind of value. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from supervisor_core.domain.command import Issuer
from supervisor_core.domain.conditions import WORKER, Target

ALERT = "alert"
"""The kind of target that is one alert, by its id."""

EVERYTHING = Target("all", "*")
"""All workers and all of the host."""

CONFIGURATION = Issuer("configuration", "the configuration")
"""By whom it is quiet where nobody in particular has said so."""


class Hush(StrEnum):
    """Why it is quiet."""

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
    """When somebody ended it before its time."""

    @property
    def ends_at(self) -> datetime:
        """When it is over, or was."""
        return min(self.until, self.ended_at) if self.ended_at is not None else self.until

    def holds(self, now: datetime) -> bool:
        """Whether it keeps anything quiet at this moment."""
        return self.since <= now < self.ends_at


def whose(target: Target) -> Target:
    """Whom somebody names who wants to hear nothing of this: of a worker that flaps, the worker."""
    return Target(WORKER, target.worker) if target.worker else target


def holding(
    suppressions: Iterable[Suppression], now: datetime, *, critical: bool = False, but: Iterable[Hush] = ()
) -> Suppression | None:
    """Of those that hold now, the one that ends last. Quiet hours let through what is critical."""
    left_out = {*but, *((Hush.QUIET,) if critical else ())}
    found = [each for each in suppressions if each.kind not in left_out and each.holds(now)]
    return max(found, key=lambda each: each.ends_at, default=None)


def over_since(suppressions: Iterable[Suppression], since: datetime, now: datetime) -> bool:
    """Whether one of them has come to its end between these moments."""
    return any(since < each.ends_at <= now and each.since < each.ends_at for each in suppressions)
