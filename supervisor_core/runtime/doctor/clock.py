"""The check of the clock against somebody else's: audit rows, expiries and schedules are no better than it."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from supervisor_core.runtime.doctor.checks import Check

NAME = "clock"
SKEW_SECONDS = 5.0
HALF_A_SECOND = 0.5
"""A Date header is cut to the second; on average that much is missing from it."""


def compared(date: str, asked: datetime, answered: datetime, whose: str = "Slack") -> Check:
    """Compare with the Date header of an answer; the way there and back is allowed for."""
    try:
        told = parsedate_to_datetime(date)
    except ValueError:
        return not_compared(f"{whose} did not tell the time")
    theirs = told.replace(tzinfo=UTC).timestamp() if told.tzinfo is None else told.timestamp()
    way = (answered - asked).total_seconds() / 2
    skew = (asked.timestamp() + way) - (theirs + HALF_A_SECOND)
    if abs(skew) <= SKEW_SECONDS + HALF_A_SECOND + way:
        return Check(NAME, True, f"it agrees with {whose}'s to within {SKEW_SECONDS:g} s")
    direction = "ahead of" if skew > 0 else "behind"
    remedy = "Let the system keep its time: timedatectl set-ntp true (Windows: w32tm /resync)."
    return Check(NAME, False, f"it is {abs(skew):.0f} s {direction} {whose}'s", remedy)


def not_compared(why: str) -> Check:
    """A warning, and no pass: whether the clock is right isn't known. Another check fails where Slack is away."""
    message = f"not compared, so whether it is right isn't known: {why}"
    return Check(NAME, True, message, "Compare it by hand: timedatectl (Windows: w32tm /stripchart).")
