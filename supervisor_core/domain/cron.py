"""A cron expression, read into the numbers that it means; and the few words that may stand in its place. Pure.

Weekdays are cron's: 0 and 7 are Sunday. Where both the day of the month and the weekday are restricted, either will do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from supervisor_core.domain.errors import UsageError
from supervisor_core.domain.nearest import nearest

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
    """It is no cron expression."""

    def __init__(self, message: str, nearest: str | None = None) -> None:
        super().__init__(message)
        self.nearest = nearest
        """The nearest that is one, where there is one."""


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
        """Whether a day of the month or a weekday will do; else both must fit."""
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
    """The expression in this text, or the one that its words mean; `CronError` says which part is wrong."""
    if len(text) > MOST:
        raise CronError(f"A cron expression has at most {MOST} characters; this one has {len(text)}.")
    said = " ".join(text.lower().removeprefix("@").split())
    meant = _from_words(said)
    fields = (meant or said).split(" ")
    if len(fields) != len(_FIELDS):
        raise _not_five(said, fields)
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
        raise CronError(f"There is no day {min(days)} in {_listed(months)}: it would never come.", " ".join(fields))
    return cron


def _numbers(index: int, fields: Sequence[str]) -> tuple[int, ...]:
    """What one field means."""
    field, found = _FIELDS[index], set[int]()
    for part in fields[index].split(","):
        try:
            found |= _part(field, part)
        except CronError as error:
            whole = None
            if error.nearest is not None:
                mended = ",".join(error.nearest if each == part else each for each in fields[index].split(","))
                whole = " ".join((*fields[:index], mended, *fields[index + 1 :]))
            raise CronError(error.message, whole) from None
    return tuple(sorted(found))


def _part(field: _Field, part: str) -> set[int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise CronError(f"{part[:20]!a} is no {field.name}: {_expected(field)}.", ANY if part == "?" else None)
    step = int(match[4] or 1)
    if not 1 <= step <= field.high:
        raise CronError(f"A step of {step} is none for the {field.name}.", f"{match[1]}/{field.high}")
    if match[1] == ANY:
        return set(range(field.low, min(field.high, 6 if field.name == "weekday" else field.high) + 1, step))
    low = _number(field, match[2])
    if match[3] is None:
        if match[4]:
            raise CronError(f"From {low} up to where? A step needs a range.", f"{low}-{field.high}/{step}")
        return {low}
    high = _number(field, match[3])
    if field.name == "weekday" and high == 0 < low:
        high = 7  # Saturday to Sunday
    if high < low:
        raise CronError(
            f"{part} goes backwards. Write it as two: {low}-{field.high},{field.low}-{high}.",
            f"{low}-{field.high},{field.low}-{high}",
        )
    return set(range(low, high + 1, step))


def _number(field: _Field, word: str) -> int:
    """A number, or the name of a month or a weekday, of which three letters do."""
    if word.isdigit():
        if field.low <= int(word) <= field.high:
            return int(word)
        closest = str(max(field.low, min(field.high, int(word))))
        raise CronError(f"{word[:20]} is no {field.name}: {_expected(field)}.", closest)
    for number, name in enumerate(field.names):
        if name and len(word) >= 3 and name.startswith(word):
            return number
    found = nearest(word, [form for name in field.names if name for form in (name[:3], name)])
    raise CronError(f"{word[:20]!a} is no {field.name}: {_expected(field)}.", found and found[:3])


def _expected(field: _Field) -> str:
    names = f", or {field.names[1][:3]} and so on" if field.names else ""
    return f"{field.low} to {field.high}{names}"


def _from_words(said: str) -> str | None:
    """The five fields that words mean; None where they are no such words."""
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
        raise CronError(f"{day[:20]!a} is no day that I know: {_words()}.", f"{found} {time}" if found else None)
    if int(clock[1]) > 23 or int(clock[2]) > 59:
        raise CronError(f"{time} is no time of day: 00:00 to 23:59.")
    return f"{int(clock[2])} {int(clock[1])} {_DAYS[day]}"


def _every(number: int, *, hours: bool) -> str:
    whole, what = (24, "hours") if hours else (60, "minutes")
    fitting = [each for each in range(1, whole) if whole % each == 0]
    if number not in fitting:
        closest = min(fitting, key=lambda each: abs(each - number))
        raise CronError(
            f"Every {number} {what} does not come out even with {'a day' if hours else 'an hour'}: "
            f"it can be every {', '.join(map(str, fitting))}.",
            f"every {closest} {what}",
        )
    step = ANY if number == 1 else f"*/{number}"
    return f"0 {step} * * *" if hours else f"{step} * * * *"


def _words() -> str:
    return "daily, weekdays, weekends, mondays to sundays, weekly, monthly"


def _not_five(said: str, fields: Sequence[str]) -> CronError:
    known = (*_OFTEN, *_DAYS)
    found = nearest(said, known)
    if found is None and len(fields) == 2 and _TIME.fullmatch(fields[1]):
        found = nearest(fields[0], _DAYS)
        found = found and f"{found} {fields[1]}"
    if found is None and len(fields) == len(_FIELDS) + 1:
        return CronError(
            f"These are six fields, and there are no seconds here: such as {EXAMPLE}.", " ".join(fields[1:])
        )
    return CronError(
        f"When it runs is five fields (minute, hour, day, month, weekday), such as {EXAMPLE}; not {said[:40]!a}.", found
    )


def _listed(months: Sequence[int]) -> str:
    return " or ".join(MONTHS[month - 1] for month in months)
