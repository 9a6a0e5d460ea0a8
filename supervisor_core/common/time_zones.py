"""Time zones by name, the host's own, and the next times of a cron expression by the clocks of a zone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from supervisor_core.common.errors import UsageError
from supervisor_core.common.times import require_aware

UNKNOWN = "UTC"
"""The zone of a host that reports none."""

_SAME = ("Etc/UTC", "Etc/UCT", "UCT", "Universal", "Zulu")

LOCALTIME, TIMEZONE = Path("/etc/localtime"), Path("/etc/timezone")


class UnknownZone(UsageError):
    """This host doesn't know the time zone."""


def zone_of(name: str) -> ZoneInfo:
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


def next_after(cron: str, zone: str, moment: datetime) -> datetime:
    """Return the first time after this moment, in UTC; raise `UnknownZone` for an unknown zone.

    A time that the clocks leave out comes right after the gap, and one that they show twice comes once. Where the hour
    or the minute is left open (`*`), elapsed time counts.
    """
    from cronsim import CronSim

    after = require_aware(moment)
    times = (time.astimezone(UTC) for time in CronSim(cron, after.astimezone(zone_of(zone))))
    return next(time for time in times if time > after)
