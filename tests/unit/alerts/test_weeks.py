"""Monday morning, wherever it is and whatever the clocks do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.alerts.weekly import last_monday, next_monday

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "last", "following"),
    [
        ("2026-02-05T09:00", "2026-02-02T08:00", "2026-02-09T08:00"),
        ("2026-02-09T07:59", "2026-02-02T08:00", "2026-02-09T08:00"),
        ("2026-02-09T08:00", "2026-02-09T08:00", "2026-02-16T08:00"),
        ("2026-03-28T12:00", "2026-03-23T08:00", "2026-03-30T07:00"),  # the clocks are set forward
        ("2026-10-24T12:00", "2026-10-19T07:00", "2026-10-26T08:00"),  # and back
    ],
)
def test_it_is_nine_by_the_clocks_of_the_zone(now: str, last: str, following: str) -> None:
    assert last_monday(utc(now), BERLIN) == utc(last)
    assert next_monday(utc(now), BERLIN) == utc(following)


@given(
    now=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(lambda each: each.replace(tzinfo=UTC)),  # noqa: DTZ001
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Auckland", "America/Los_Angeles", "Asia/Kolkata"]),
)
def test_every_moment_is_between_two_of_them(now: datetime, zone: str) -> None:
    last, following = last_monday(now, ZoneInfo(zone)), next_monday(now, ZoneInfo(zone))
    assert last <= now < following
    assert abs(following - last - timedelta(days=7)) <= timedelta(hours=1)
