"""A cron expression in words: "Monday to Friday at 08:30". Pure."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor_core.domain.cron import MONTHS, WEEKDAYS, Cron

MOST_TIMES = 4
"""So many times of day are named; with more of them nobody reads on."""

EVERY_DAY = "every day"

_MINUTES, _HOURS = 60, 24
_LONGEST = 31
_WEEK = (1, 2, 3, 4, 5, 6, 0)
"""As people count: from Monday."""


def words(cron: Cron) -> str:
    """When it runs; empty where words would be longer than the expression is clear."""
    often, day = _often(cron), _day(cron)
    if often and day:
        return often if day == EVERY_DAY else f"{often}, {day}"
    if not day or len(cron.minutes) * len(cron.hours) > MOST_TIMES:
        return ""
    times = [f"{hour:02}:{minute:02}" for hour in cron.hours for minute in cron.minutes]
    return f"{day} at {_and(times)}"


def _often(cron: Cron) -> str:
    """For what runs several times a day at even distances."""
    minutes, hours = _step(cron.minutes, _MINUTES), _step(cron.hours, _HOURS)
    if minutes is not None and minutes < _MINUTES:
        often = "every minute" if minutes == 1 else f"every {minutes} minutes"
        if hours == 1:
            return often
        if _is_run(cron.hours):
            return f"{often} from {cron.hours[0]:02}:00 to {cron.hours[-1]:02}:{cron.minutes[-1]:02}"
        return ""
    if len(cron.minutes) != 1:
        return ""
    past = f" at minute {cron.minutes[0]}" if cron.minutes[0] else ""
    if hours is not None and hours < _HOURS:
        return f"every hour{past}" if hours == 1 else f"every {hours} hours{past}"
    if len(cron.hours) > MOST_TIMES and _is_run(cron.hours):
        return f"every hour from {cron.hours[0]:02}:{cron.minutes[0]:02} to {cron.hours[-1]:02}:{cron.minutes[0]:02}"
    return ""


def _day(cron: Cron) -> str:
    """On which days; empty where date and weekday must both fit."""
    weekdays = tuple(each for each in _WEEK if each in cron.weekdays)
    whole_week, whole_month = len(weekdays) == len(_WEEK), len(cron.days) == _LONGEST
    months = "" if len(cron.months) == len(MONTHS) else _and([MONTHS[month - 1] for month in cron.months])
    dates = f"on the {_and([_ordinal(day) for day in cron.days])} of {months or 'each month'}"
    names = _weekdays(weekdays) + (f" in {months}" if months else "")
    every = f"{EVERY_DAY} in {months}" if months else EVERY_DAY
    if cron.either:
        return every if whole_week or whole_month else f"{dates}, and {names},"
    if whole_month:
        return every if whole_week else names
    return dates if whole_week else ""


def _weekdays(days: Sequence[int]) -> str:
    if len(days) == 1:
        return f"on {WEEKDAYS[days[0]]}s"
    places = [_WEEK.index(day) for day in days]
    if len(days) > 2 and _is_run(places):
        return f"{WEEKDAYS[days[0]]} to {WEEKDAYS[days[-1]]}"
    return f"on {_and([f'{WEEKDAYS[day]}s' for day in days])}"


def _step(numbers: Sequence[int], whole: int) -> int | None:
    """The distance between numbers that go from 0 through the whole evenly; None for others."""
    step = whole // len(numbers)
    return step if tuple(numbers) == tuple(range(0, whole, step)) else None


def _is_run(numbers: Sequence[int]) -> bool:
    return len(numbers) > 1 and tuple(numbers) == tuple(range(numbers[0], numbers[-1] + 1))


def _ordinal(day: int) -> str:
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
