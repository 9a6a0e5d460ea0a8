"""Quiet hours: from when until when they are, by the clocks of a zone, whatever the clocks do meanwhile. Pure.

A time that the clocks leave out comes as much later as they were set forward. Of one that they show twice, quiet hours
begin at the first and end at the second: what the wall shows is what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

WEEK = 7  # days
ONE = timedelta(days=1)


class Window(NamedTuple):
    """A span of time: from `since` to before `until`, in UTC."""

    since: datetime
    until: datetime

    def holds(self, now: datetime) -> bool:
        """Whether this moment is in it."""
        return self.since <= now < self.until


@dataclass(frozen=True, slots=True)
class Hours:
    """From one time of day to another, on the days on which they begin; 0 is Monday."""

    days: frozenset[int]
    start: time
    end: time
    zone: tzinfo

    def on(self, day: date) -> Window:
        """Those that begin on this day, whatever day it is. Where the end is before the start, it is a day later."""
        last = day if self.end > self.start else day + ONE
        since = datetime.combine(day, self.start, self.zone)
        ends = (datetime.combine(last, self.end, self.zone).replace(fold=fold).astimezone(UTC) for fold in (0, 1))
        return Window(since.astimezone(UTC), max(ends))

    def at(self, now: datetime) -> Window | None:
        """Those that hold at this moment."""
        today = now.astimezone(self.zone).date()
        found = (self.on(day) for day in (today - ONE, today) if day.weekday() in self.days)
        return next((window for window in found if window.holds(now)), None)

    def next_after(self, now: datetime) -> datetime:
        """When they begin next."""
        today = now.astimezone(self.zone).date()
        days = (today + number * ONE for number in range(WEEK + 2))
        begins = (self.on(day).since for day in days if day.weekday() in self.days)
        return next(begin for begin in begins if begin > now)
