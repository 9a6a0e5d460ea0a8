"""Aware UTC as text, durations as people type them (`2h`, `1d12h`), and times as people read them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo


def utc_now() -> datetime:
    """The current time, where no other clock is given."""
    return datetime.now(UTC)


def require_aware(at: datetime) -> datetime:
    """Return the same moment in UTC; raise `ValueError` for a naive one."""
    if at.utcoffset() is None:
        raise ValueError(f"{at!r} has no time zone; times must be aware UTC")
    try:
        return at.astimezone(UTC)
    except OverflowError:  # in UTC it would lie before the year 1 or after 9999
        raise ValueError(f"{at!r} is out of range in UTC") from None


def to_text(at: datetime) -> str:
    """`2026-02-05T14:30:15.234567Z`: fixed width, so that texts sort as the moments do."""
    return f"{require_aware(at).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def from_text(text: str) -> datetime:
    """Parse ISO 8601 text with a zone; raise `ValueError` for anything else."""
    return require_aware(datetime.fromisoformat(text))


def with_countdown(reason: str, now: datetime) -> str:
    """The reason with the time until a restart, instead of the time of that restart."""

    def countdown(at: datetime) -> str:
        seconds = (at - now).total_seconds()
        return f"restarting in {format_span(seconds)}" if seconds > 0 else "restarting now"

    return replace_timestamps(reason, countdown, "restarting at ")


def replace_timestamps(text: str, render: Callable[[datetime], str], before: str = "") -> str:
    """The text with each timestamp rendered, together with the words before it.

    One of a moment that doesn't exist, as a program may write it, stays as it is.
    """

    def replacement(match: re.Match[str]) -> str:
        try:
            return render(from_text(match[1]))
        except ValueError:
            return match[0]

    return re.sub(rf"{before}({TIMESTAMP})", replacement, text)


def compact(at: datetime) -> str:
    """`20260205T143015Z`, for file names."""
    return require_aware(at).strftime("%Y%m%dT%H%M%SZ")


MINUTE = 60  # seconds, as are the next three
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

LONGEST = 3650 * DAY  # ten years: more than any audit trail, and far from what a datetime can't hold
EXPECTED = "a duration such as 90s, 30m, 2h, 1d12h or 1w"
DAY_NAMES = ("today", "yesterday")

COUNTDOWN = re.compile(r"restarting (?:now|in [^;(]*[^;( ])")
"""The countdown to a restart in a reason, as it was when the reason was written."""

TIMESTAMP = r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
"""A moment in a reason that people read later."""

_DURATION = re.compile(
    r"(?:([0-9]{1,6})w)?(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?", re.IGNORECASE
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ISO_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:Z|[+-][0-9]{2}:[0-9]{2})?", re.IGNORECASE
)


def parse_duration(text: str) -> int | None:
    """Parse a duration into seconds; None for anything else."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return weeks * WEEK + days * DAY + hours * HOUR + minutes * MINUTE + seconds


def format_duration(seconds: int) -> str:
    """Format whole seconds as the shortest text that `parse_duration` reads."""
    seconds_left, parts = seconds, []
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (1, "s")):
        count, seconds_left = divmod(seconds_left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0m"


def parse_since(text: str) -> str | None:
    """Return a duration back from now, a day name or an ISO date as canonical text; None for anything else."""
    seconds = parse_duration(text)
    if seconds is not None:
        return format_duration(seconds) if 0 < seconds <= LONGEST else None
    if text.lower() in DAY_NAMES:
        return text.lower()
    if not (_DATE.fullmatch(text) or _ISO_TIME.fullmatch(text)):
        return None
    try:
        at = datetime.fromisoformat(text.upper())
        if _DATE.fullmatch(text):
            return text
        aware = at if at.tzinfo else at.replace(tzinfo=UTC)
        return f"{aware.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"
    except (ValueError, OverflowError):
        return None


def since_moment(since: str, now: datetime, zone: tzinfo = UTC) -> datetime:
    """Return the moment that a `since` means, in UTC; a day begins at midnight in this zone."""
    seconds = parse_duration(since)
    if seconds is not None:
        return now.astimezone(UTC) - timedelta(seconds=seconds)
    if since in DAY_NAMES:
        day = now.astimezone(zone).date() - timedelta(days=DAY_NAMES.index(since))
        since = day.isoformat()
    at = datetime.fromisoformat(since)
    try:
        return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:  # the first day there is, east of Greenwich
        return at.replace(tzinfo=UTC)


def format_span(seconds: float) -> str:
    """Format a duration in at most two units: `2 min 13 s`, `5 d`."""
    if 0.05 <= seconds < 9.95:
        return f"{seconds:.1f} s"
    seconds_left = max(0, round(seconds))
    if seconds_left < 60:
        return f"{seconds_left} s"
    for size, unit, smaller, word in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        count, remainder = divmod(seconds_left, size)
        if count:
            extra = remainder // smaller
            return f"{count} {unit} {extra} {word}" if extra and count < 10 else f"{count} {unit}"
    return f"{seconds_left} s"


def format_ago(at: datetime, now: datetime) -> str:
    """Format a recent moment: `just now`, `40 s ago`, `2 min ago`, `3 h 5 min ago`."""
    seconds = (now - at).total_seconds()
    if seconds < 10:
        return "just now"
    return f"{format_span(seconds // MINUTE * MINUTE if seconds >= MINUTE else seconds)} ago"


def clock_time(at: datetime, now: datetime | None = None, *, seconds: bool = False) -> str:
    """Format a moment in UTC: `05:06 UTC`, with the date unless it's the day of `now`."""
    at = require_aware(at)
    clock = f"{at:%H:%M:%S} UTC" if seconds else f"{at:%H:%M} UTC"
    return clock if now is not None and at.date() == require_aware(now).date() else f"{at:%Y-%m-%d} {clock}"
