"""When a week is over for those who read about it: on Monday morning, by the clocks of a zone. Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo

MORNING = time(9, 0)
WEEK = timedelta(days=7)


def last_monday(now: datetime, zone: tzinfo) -> datetime:
    """The newest Monday morning that is not after this moment."""
    today = now.astimezone(zone).date()
    monday = today - timedelta(days=today.weekday())
    morning = _morning_of(monday, zone)
    return morning if morning <= now else _morning_of(monday - WEEK, zone)


def next_monday(now: datetime, zone: tzinfo) -> datetime:
    """The first Monday morning after this moment."""
    return _morning_of(last_monday(now, zone).astimezone(zone).date() + WEEK, zone)


def _morning_of(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, MORNING, zone).astimezone(UTC)
