"""Aware UTC as text, and durations as people type them: `2h`, `1d12h`, `since 2026-01-31`. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo


def utc_now() -> datetime:
    """The time of day, for whoever is given no other clock."""
    return datetime.now(UTC)


def require_aware(moment: datetime) -> datetime:
    """The same moment in UTC; a naive one is a mistake of the programmer and is refused."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone; every time here is aware UTC")
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in UTC it would lie before the year 1 or after 9999
        raise ValueError(f"{moment!r} is no time that UTC knows") from None


def to_text(moment: datetime) -> str:
    """`2026-02-05T14:30:15.234567Z`: fixed width, so that texts sort as the moments do."""
    return f"{require_aware(moment).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def from_text(text: str) -> datetime:
    """A moment out of ISO 8601 text; `ValueError` for anything else, and for one without a zone."""
    return require_aware(datetime.fromisoformat(text))


def compact(moment: datetime) -> str:
    """`20260205T143015Z`, for file names."""
    return require_aware(moment).strftime("%Y%m%dT%H%M%SZ")


MINUTE = 60  # seconds, as are the next three
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

LONGEST = 3650 * DAY  # ten years: more than any audit trail, and far from what a datetime can't hold
EXPECTED = "a number of m, h, d or w, such as 30m, 2h, 1d12h or 1w"

_DURATION = re.compile(r"(?:([0-9]{1,6})w)?(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?", re.IGNORECASE)
_BEGUN = re.compile(r"[+-]?([0-9]{1,6})[ .,]*([wdhm]?)", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:Z|[+-][0-9]{2}:[0-9]{2})?", re.IGNORECASE
)


def parse_duration(text: str) -> int | None:
    """Seconds, or None for what is no duration."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    weeks, days, hours, minutes = (int(part or 0) for part in match.groups())
    return weeks * WEEK + days * DAY + hours * HOUR + minutes * MINUTE


def format_duration(seconds: int) -> str:
    """The shortest text that `parse_duration` reads as so many seconds, whole minutes that is."""
    left, parts = seconds, []
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0m"


def nearest_duration(text: str) -> int | None:
    """The likely meaning of `2hours` or `90`; None where it doesn't begin like a duration."""
    match = _BEGUN.match(text)
    if match is None:
        return None
    unit = {"w": WEEK, "d": DAY, "h": HOUR}.get(match[2].lower(), MINUTE)
    return int(match[1]) * unit


def parse_since(text: str) -> str | None:
    """A duration back from now or an ISO date, in its canonical text; None for what is neither."""
    seconds = parse_duration(text)
    if seconds is not None:
        return format_duration(seconds) if MINUTE <= seconds <= LONGEST else None
    if not (_DATE.fullmatch(text) or _MOMENT.fullmatch(text)):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        if _DATE.fullmatch(text):
            return text
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return f"{aware.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"
    except (ValueError, OverflowError):
        return None


def since_moment(since: str, now: datetime, zone: tzinfo = UTC) -> datetime:
    """The moment that a `since` means, as aware UTC; a bare date begins at midnight in this zone."""
    seconds = parse_duration(since)
    if seconds is not None:
        return now.astimezone(UTC) - timedelta(seconds=seconds)
    moment = datetime.fromisoformat(since)
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:  # the first day there is, east of Greenwich
        return moment.replace(tzinfo=UTC)
