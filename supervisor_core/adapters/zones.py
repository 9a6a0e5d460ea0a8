"""Time zones by their names, such as Europe/Berlin; and the one of this host."""

from __future__ import annotations

import os
from pathlib import Path
from zoneinfo import ZoneInfo

from supervisor_core.domain.errors import UsageError

UNKNOWN = "UTC"
"""For a host that does not say where it is."""

_SAME = ("Etc/UTC", "Etc/UCT", "UCT", "Universal", "Zulu")

LOCALTIME, TIMEZONE = Path("/etc/localtime"), Path("/etc/timezone")


class UnknownZone(UsageError):
    """This host knows no such time zone."""


def zone_of(name: str) -> ZoneInfo:
    """The zone of this name."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):  # not there, no name of one, a folder
        raise UnknownZone(
            f"This host knows no time zone {name[:60]!a}.",
            remedy="Its system package `tzdata` brings them.",
        ) from None


def is_zone(name: str) -> bool:
    """Whether this host knows it."""
    try:
        zone_of(name)
    except UnknownZone:
        return False
    return True


def known_zone(name: str) -> str:
    """This zone, where this host knows it; else, and for what is the same, UTC."""
    return name if is_zone(name) and name not in _SAME else UNKNOWN


def host_zone() -> str:
    """The zone of this host's clocks; UTC where it does not say."""
    names = [os.environ.get("TZ", "").removeprefix(":"), _linked(LOCALTIME), _written(TIMEZONE)]
    return next((known_zone(name) for name in names if name and is_zone(name)), UNKNOWN)


def _linked(path: Path) -> str:
    """`/etc/localtime` is a link into the folder of all zones."""
    try:
        return str(path.resolve()).rpartition("/zoneinfo/")[2]
    except OSError:
        return ""


def _written(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
