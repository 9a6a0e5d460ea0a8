"""Cron expressions, and a few words in their place, as the numbers that they mean; and back into words. Pure.

Weekdays are cron's: 0 and 7 are Sunday. Where both the day of the month and the weekday are restricted, either will do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import nearest

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days

MOST = 100  # characters of an expression
ANY = "*"
EXAMPLE = '"0 3 * * 1-5", or words such as "daily 03:00", "weekdays 08:30", "every 15 minutes"'

_PART = re.compile(r"(\*|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:/([0-9]{1,2}))?", re.ASCII)
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})", re.ASCII)
_EVERY = re.compile(r"every ([0-9]{1,2}) ?(minutes?|mins?|m|hours?|h)", re.ASCII)

_DAYS = {
    "daily": "* * *",
    "every day": "* * *",
    "weekdays": "* * 1-5",
    "weekends": "* * 0,6",
    "weekly": "* * 1",
    "monthly": "1 * *",
    **{f"{day.lower()}{ending}": f"* * {index}" for index, day in enumerate(WEEKDAYS) for ending in ("s", "")},
}
_OFTEN = {"hourly": "0 * * * *", "every hour": "0 * * * *", "every minute": "* * * * *"}
_TIMES = {"midnight": "00:00", "noon": "12:00"}


class CronError(UsageError):
    """The cron expression isn't valid."""


@dataclass(frozen=True, slots=True)
class Cron:
    """One expression; all numbers in order."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    """0 is Sunday, 6 is Saturday."""
    any_hour: bool
    """The hour is left open: then what counts is the time that goes by, also while clocks are set back."""
    any_day: bool
    any_weekday: bool

    @property
    def either(self) -> bool:
        """True if a day of the month or a weekday is enough; else both must match."""
        return not self.any_day and not self.any_weekday


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, ("", *(month.lower() for month in MONTHS))),
    _Field("weekday", 0, 7, (*(day.lower() for day in WEEKDAYS), "sunday")),
)


def parse_cron(text: str) -> Cron:
    """Parse an expression or its words; `CronError` names the wrong part."""
    if len(text) > MOST:
        raise CronError(f"The cron expression has {len(text)} characters; at most {MOST} are allowed.")
    said = " ".join(text.lower().removeprefix("@").split())
    meant = _from_words(said)
    fields = (meant or said).split(" ")
    if len(fields) != len(_FIELDS):
        if len(fields) == len(_FIELDS) + 1:
            raise CronError(f"A schedule has five fields, without seconds. Example: {EXAMPLE}.")
        raise CronError(
            f"{said[:40]!a} isn't a schedule. Use five fields (minute, hour, day, month, weekday). Example: {EXAMPLE}."
        )
    read = [_numbers(index, fields) for index in range(len(_FIELDS))]
    minutes, hours, days, months, weekdays = read
    cron = Cron(
        text=meant or " ".join(text.split()),
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=tuple(sorted({number % 7 for number in weekdays})),
        any_hour=fields[1] == ANY,
        any_day=fields[2].startswith(ANY),
        any_weekday=fields[4].startswith(ANY),
    )
    longest = max(LONGEST_MONTHS[month - 1] for month in months)
    if min(days) > longest and not cron.either:
        fields[2] = str(longest)
        raise CronError(f"Day {min(days)} doesn't exist in {_month_names(months)}.")
    return cron


def _numbers(index: int, fields: Sequence[str]) -> tuple[int, ...]:
    field, found = _FIELDS[index], set[int]()
    for part in fields[index].split(","):
        found |= _part(field, part)
    return tuple(sorted(found))


def _part(field: _Field, part: str) -> set[int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise CronError(f"{part[:20]!a} isn't a valid {field.name}. Use {_expected(field)}.")
    step = int(match[4] or 1)
    if not 1 <= step <= field.high:
        raise CronError(f"A step of {step} isn't valid for the {field.name}. Use 1 to {field.high}.")
    if match[1] == ANY:
        return set(range(field.low, min(field.high, 6 if field.name == "weekday" else field.high) + 1, step))
    low = _number(field, match[2])
    if match[3] is None:
        if match[4]:
            raise CronError(f"A step needs a range, such as {low}-{field.high}/{step}.")
        return {low}
    high = _number(field, match[3])
    if field.name == "weekday" and high == 0 < low:
        high = 7  # Saturday to Sunday
    if high < low:
        raise CronError(
            f"The range {part} is backwards. Write it as two ranges: {low}-{field.high},{field.low}-{high}."
        )
    return set(range(low, high + 1, step))


def _number(field: _Field, word: str) -> int:
    """Parse a number, or the name of a month or weekday by its first three letters."""
    if word.isdigit():
        if field.low <= int(word) <= field.high:
            return int(word)
        raise CronError(f"{field.name.capitalize()} must be {_expected(field)}, not {word[:20]}.")
    for number, name in enumerate(field.names):
        if name and len(word) >= 3 and name.startswith(word):
            return number
    raise CronError(f"{word[:20]!a} isn't a valid {field.name}. Use {_expected(field)}.")


def _expected(field: _Field) -> str:
    names = f", or a name such as {field.names[1][:3]}" if field.names else ""
    return f"{field.low}–{field.high}{names}"


def _from_words(said: str) -> str | None:
    """Return the five fields that the words mean; None for other words."""
    if said in _OFTEN:
        return _OFTEN[said]
    if every := _EVERY.fullmatch(said):
        return _every(int(every[1]), hours=every[2].startswith("h"))
    day, _, time = said.replace(" at ", " ").rpartition(" ")
    if said in _DAYS:
        day, time = said, "00:00"
    clock = _TIME.fullmatch(_TIMES.get(time, time))
    if clock is None:
        return None
    if day not in _DAYS:
        found = nearest(day, _DAYS)
        question = f"Which days? {day[:20]!a} isn't one. Try" if day else "Which days? Try"
        raise CronError(f"{question} “{found or 'daily'} {time}”.")
    if int(clock[1]) > 23 or int(clock[2]) > 59:
        raise CronError(f"{time} isn't a time of day. Use 00:00 to 23:59.")
    return f"{int(clock[2])} {int(clock[1])} {_DAYS[day]}"


def _every(number: int, *, hours: bool) -> str:
    whole, what = (24, "hours") if hours else (60, "minutes")
    fitting = [each for each in range(1, whole) if whole % each == 0]
    if number not in fitting:
        raise CronError(
            f"Every {number} {what} doesn't divide {'a day' if hours else 'an hour'} evenly. "
            f"Use {', '.join(map(str, fitting))}."
        )
    step = ANY if number == 1 else f"*/{number}"
    return f"0 {step} * * *" if hours else f"{step} * * * *"


def _month_names(months: Sequence[int]) -> str:
    return " or ".join(MONTHS[month - 1] for month in months)


MOST_TIMES = 4
"""The most times of day that are listed in words."""

EVERY_DAY = "every day"

_MINUTES, _HOURS = 60, 24
_LONGEST = 31
_WEEK = (1, 2, 3, 4, 5, 6, 0)
"""The weekdays from Monday on."""


def cron_in_words(cron: Cron) -> str:
    """Describe the times in words; empty if that is less clear than the expression."""
    often, day = _often(cron), _day(cron)
    if often and day:
        return often if day == EVERY_DAY else f"{often}, {day}"
    if not day or len(cron.minutes) * len(cron.hours) > MOST_TIMES:
        return ""
    times = [f"{hour:02}:{minute:02}" for hour in cron.hours for minute in cron.minutes]
    return f"{day} at {_and(times)}"


def _often(cron: Cron) -> str:
    """Describe even intervals within a day."""
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
    """Describe the days; empty if date and weekday must both match."""
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
