"""When quiet hours are, by clocks that are set forward and back, across midnight and weeks."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.alerts.suppression.quiet_hours import QuietSchedule, QuietWindow

BERLIN, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")
EVERY = frozenset(range(7))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def hours(start: str, end: str, zone: ZoneInfo = BERLIN, days: frozenset[int] = EVERY) -> QuietSchedule:
    return QuietSchedule(days, time.fromisoformat(start), time.fromisoformat(end), zone)


@pytest.mark.parametrize(
    ("of", "day", "since", "until"),
    [
        (hours("22:00", "07:00"), "2026-02-05", "2026-02-05T21:00", "2026-02-06T06:00"),
        (hours("22:00", "07:00"), "2026-03-28", "2026-03-28T21:00", "2026-03-29T05:00"),  # an hour less
        (hours("22:00", "07:00"), "2026-10-24", "2026-10-24T20:00", "2026-10-25T06:00"),  # an hour more
        (hours("02:30", "04:00"), "2026-03-29", "2026-03-29T01:30", "2026-03-29T02:00"),  # begins at a time left out
        (hours("01:00", "02:30"), "2026-03-29", "2026-03-29T00:00", "2026-03-29T01:30"),  # ends at a time left out
        (hours("02:30", "04:00"), "2026-10-25", "2026-10-25T00:30", "2026-10-25T03:00"),  # begins at the first of two
        (hours("01:00", "02:30"), "2026-10-25", "2026-10-24T23:00", "2026-10-25T01:30"),  # ends at the second of two
        (hours("00:00", "00:00"), "2026-02-05", "2026-02-04T23:00", "2026-02-05T23:00"),
        (hours("22:00", "06:30", KOLKATA), "2026-02-05", "2026-02-05T16:30", "2026-02-06T01:00"),
    ],
)
def test_they_are_what_the_clocks_on_the_wall_show(of: QuietSchedule, day: str, since: str, until: str) -> None:
    window = of.on(datetime.fromisoformat(day).date())
    assert window == QuietWindow(utc(since), utc(until))
    assert of.at(window.since) == window
    assert of.at(window.until - timedelta(microseconds=1)) == window
    assert of.at(window.since - timedelta(microseconds=1)) != window
    assert of.at(window.until) != window


def test_they_begin_on_the_days_that_are_named_and_may_end_on_the_next() -> None:
    weekdays = hours("22:00", "07:00", days=frozenset(range(5)))
    assert weekdays.at(utc("2026-02-07T02:00")), "the night from Friday to Saturday"
    assert weekdays.at(utc("2026-02-07T22:00")) is None, "Saturday's evening"
    assert weekdays.at(utc("2026-02-09T02:00")) is None, "the night from Sunday to Monday"
    assert weekdays.next_after(utc("2026-02-07T12:00")) == utc("2026-02-09T21:00")
    only = hours("22:00", "07:00", days=frozenset({3}))
    assert only.next_after(utc("2026-02-05T21:00")) == utc("2026-02-12T21:00"), "the same day a week later"


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(lambda naive: naive.replace(tzinfo=UTC))  # noqa: DTZ001
CLOCK = st.builds(time, st.integers(0, 23), st.sampled_from([0, 15, 30, 45]))


@given(now=MOMENTS, start=CLOCK, end=CLOCK, days=st.frozensets(st.integers(0, 6), min_size=1))
def test_what_holds_has_begun_and_what_comes_next_holds_then(
    now: datetime, start: time, end: time, days: frozenset[int]
) -> None:
    of = QuietSchedule(days, start, end, BERLIN)
    window, following = of.at(now), of.next_after(now)
    assert window is None or window.since <= now < window.until
    assert now < following <= now + timedelta(days=8)
    if following != of.on(following.astimezone(BERLIN).date()).until:
        then = of.at(following)
        assert then is not None or of.on(following.astimezone(BERLIN).date()).until <= following
