"""Time zones by name, the host's own, and the next times of a cron expression by the clocks of a zone.

APScheduler counts on the wall, without a zone, and the zone is applied afterwards: a time that the clocks leave out
comes as much later as they were set forward, and one that they show twice comes once. Where the hour is left open
(`*`), elapsed time counts: then both of them come.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from supervisor_core.common.cron import MONTHS, Cron
from supervisor_core.common.errors import UsageError
from supervisor_core.common.times import require_aware

if TYPE_CHECKING:
    from apscheduler.triggers.cron import CronTrigger

UNKNOWN = "UTC"
"""The zone of a host that reports none."""

_SAME = ("Etc/UTC", "Etc/UCT", "UCT", "Universal", "Zulu")

LOCALTIME, TIMEZONE = Path("/etc/localtime"), Path("/etc/timezone")


class UnknownZone(UsageError):
    """This host doesn't know the time zone."""


def zone_of(name: str) -> ZoneInfo:
    """The zone of this name."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):  # not there, no name of one, a folder
        raise UnknownZone(
            f"This host doesn't know the time zone {name[:60]!a}.",
            remedy="Install the system package `tzdata`.",
        ) from None


def is_zone(name: str) -> bool:
    try:
        zone_of(name)
    except UnknownZone:
        return False
    return True


def known_zone(name: str) -> str:
    """This zone, where this host knows it; else, and for what is the same, UTC."""
    return name if is_zone(name) and name not in _SAME else UNKNOWN


def host_zone() -> str:
    """Return the time zone of this host; UTC if unknown."""
    return next((known_zone(name) for name in _named_zones() if name and is_zone(name)), UNKNOWN)


def _named_zones() -> Iterator[str]:
    """The zones that this host's settings name, the first of which counts."""
    yield os.environ.get("TZ", "").removeprefix(":")
    yield _linked_zone(LOCALTIME)
    yield _written_zone()


def _linked_zone(path: Path) -> str:
    """`/etc/localtime` is a link into the folder of all zones."""
    try:
        return str(path.resolve()).rpartition("/zoneinfo/")[2]
    except OSError:
        return ""


def _written_zone() -> str:
    try:
        return TIMEZONE.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


# Its numbers begin with Monday, cron's with Sunday; names mean the same to both.
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

SHIFT = timedelta(hours=3)
"""More than any clocks are set forward or back by at one time."""

_INSTANT = timedelta(microseconds=1)


def next_after(cron: Cron, zone: str, moment: datetime) -> datetime:
    """Return the first time after this moment, in UTC; raise `UnknownZone` for an unknown zone."""
    clocks, after = zone_of(zone), require_aware(moment)
    wall = after.astimezone(clocks).replace(tzinfo=None)
    first = next(_on_the_wall(cron, wall))
    due = first.replace(tzinfo=clocks).astimezone(UTC)

    def is_even(at: datetime) -> bool:
        offsets = {(at + shift).astimezone(clocks).utcoffset() for shift in (-SHIFT, timedelta(), SHIFT)}
        return len(offsets) == 1

    if due > after and is_even(after) and is_even(due):
        return due
    # Clocks are set nearby: the order on the wall is not the order in time, so all that may be first are looked at.
    found: list[datetime] = []
    for each in _on_the_wall(cron, wall - SHIFT):
        folds = (0, 1) if cron.any_hour else (0,)
        moments = (each.replace(tzinfo=clocks, fold=fold).astimezone(UTC) for fold in folds)
        found += [at for at in moments if at > after]
        if found and each > first + SHIFT:
            break
    return min(found)


def next_times(cron: Cron, zone: str, moment: datetime, count: int) -> list[datetime]:
    """The next so many times after this moment."""
    found: list[datetime] = []
    for _ in range(count):
        moment = next_after(cron, zone, moment)
        found.append(moment)
    return found


def _on_the_wall(cron: Cron, wall: datetime) -> Iterator[datetime]:
    """The times after this one, as a clock without a zone shows them."""
    triggers = _triggers(cron)
    at = wall.replace(tzinfo=UTC)
    while True:
        comes = [each.get_next_fire_time(None, at + _INSTANT) for each in triggers]
        at = min(each for each in comes if each is not None)
        yield at.replace(tzinfo=None)


@lru_cache(maxsize=256)
def _triggers(cron: Cron) -> tuple[CronTrigger, ...]:
    """One for the day of the month, one for the weekday where both are restricted: either will do."""
    from apscheduler.triggers.cron import CronTrigger  # late: a program that only looks must not pay for it

    days, weekdays = _list(cron.days), ",".join(_WEEKDAYS[day] for day in cron.weekdays)
    return tuple(
        CronTrigger(
            minute=_list(cron.minutes),
            hour=_list(cron.hours),
            month="*" if len(cron.months) == len(MONTHS) else _list(cron.months),
            day=day,
            day_of_week=weekday,
            timezone=UTC,
        )
        for day, weekday in ([(days, "*"), ("*", weekdays)] if cron.either else [(days, weekdays)])
    )


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
