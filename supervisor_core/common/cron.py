"""Cron expressions by cronsim, whose rules are Debian's, and a few words in their place. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from supervisor_core.common.errors import UsageError

MAX_LENGTH = 100  # characters of an expression
EXAMPLE = '"0 3 * * 1-5", or words such as "daily 03:00", "weekdays 08:30", "every 15 minutes"'

_CLOCK = re.compile(r"(?:(.+?) )?(?:at )?(?:([01]?[0-9]|2[0-3]):([0-5][0-9])|noon|midnight)", re.ASCII)
_EVERY = re.compile(r"every ([1-9][0-9]?) ?(minute|min|m|hour|h)s?", re.ASCII)
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAYS = {
    "daily": "* * *",
    "every day": "* * *",
    "weekdays": "* * 1-5",
    "weekends": "* * 0,6",
    "weekly": "* * 1",
    "monthly": "1 * *",
    **{f"{day}{ending}": f"* * {number}" for number, day in enumerate(_WEEKDAYS) for ending in ("s", "")},
}
_OFTEN = {"hourly": "0 * * * *", "every hour": "0 * * * *", "every minute": "* * * * *"}


class CronError(UsageError):
    """The cron expression isn't valid."""


def parse_cron(text: str) -> str:
    """The five fields of an expression or of its words."""
    from cronsim import CronSim, CronSimError

    if len(text) > MAX_LENGTH:
        raise CronError(f"The cron expression has {len(text)} characters; at most {MAX_LENGTH} are allowed.")
    phrase = " ".join(text.lower().removeprefix("@").split())
    expression = _parse_phrase(phrase) or " ".join(text.split())
    if expression.count(" ") != 4:
        raise CronError(
            f"{text[:40]!a} isn't a schedule. Use five fields (minute, hour, day, month, weekday). Example: {EXAMPLE}."
        )
    try:
        next(CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ").replace("-", " ")
        raise CronError(f"The {field} of {expression!a} isn't valid.") from None
    except StopIteration:
        raise CronError(f"{expression!a} never comes.") from None
    return expression


def cron_in_words(expression: str) -> str:
    """`at 03:00 on Monday through Friday`; the expression itself if words would be long."""
    from cronsim import CronSim

    if expression == "0 * * * *":
        return "every hour"
    if step := re.fullmatch(r"(\*/([0-9]+) \*|0 \*/([0-9]+)) \* \* \*", expression):
        return f"every {step[2]} minutes" if step[2] else f"every {step[3]} hours"
    phrase = CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC)).explain()
    return f"{phrase[:1].lower()}{phrase[1:]}" if len(phrase) <= MAX_LENGTH else expression


def _parse_phrase(phrase: str) -> str | None:
    if phrase in _OFTEN:
        return _OFTEN[phrase]
    if phrase in _DAYS:
        return f"0 0 {_DAYS[phrase]}"
    if every := _EVERY.fullmatch(phrase):
        number, is_hours = int(every[1]), every[2].startswith("h")
        divisors = [divisor for divisor in range(1, 24 if is_hours else 60) if (24 if is_hours else 60) % divisor == 0]
        if number not in divisors:
            raise CronError(
                f"{phrase.capitalize()} doesn't divide {'a day' if is_hours else 'an hour'} evenly. "
                f"Use {', '.join(map(str, divisors))}."
            )
        step = "*" if number == 1 else f"*/{number}"
        return f"0 {step} * * *" if is_hours else f"{step} * * * *"
    clock = _CLOCK.fullmatch(phrase)
    if clock is None or clock[1] not in _DAYS:
        return None
    hour = int(clock[2]) if clock[2] else 12 if phrase.endswith("noon") else 0
    return f"{int(clock[3] or 0)} {hour} {_DAYS[clock[1]]}"
