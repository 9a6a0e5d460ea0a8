"""Time zones by name, the host's own, and the next times of a cron expression by the clocks of a zone."""

from __future__ import annotations

import os
from contextlib import suppress
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
    except (OSError, ValueError, LookupError):  # not there, not a name, or a folder
        raise UnknownZone(
            f"This host doesn't know the time zone {name[:60]!a}.",
            remedy="Install the system package `tzdata`.",
        ) from None


def known_zone(name: str) -> str:
    """This zone if this host knows it; else UTC, as for its other names."""
    try:
        zone_of(name)
    except UnknownZone:
        return UNKNOWN
    return UNKNOWN if name in _SAME else name


def host_zone() -> str:
    names = [os.environ.get("TZ", "").removeprefix(":")]
    with suppress(OSError):  # a link into the folder of all zones
        names.append(str(LOCALTIME.resolve()).rpartition("/zoneinfo/")[2])
    with suppress(OSError, UnicodeDecodeError):
        names.append(TIMEZONE.read_text(encoding="utf-8").strip())
    for name in filter(None, names):
        with suppress(UnknownZone):
            zone_of(name)
            return known_zone(name)
    return UNKNOWN


def next_after(cron: str, zone: str, at: datetime) -> datetime:
    """Return the first time after this moment, in UTC; raise `UnknownZone` for an unknown zone.

    A time that the clocks leave out comes right after the gap, and one that they show twice comes once. Where the hour
    or the minute is left open (`*`), elapsed time counts.
    """
    from cronsim import CronSim

    after = require_aware(at)
    times = (time.astimezone(UTC) for time in CronSim(cron, after.astimezone(zone_of(zone))))
    return next(time for time in times if time > after)
