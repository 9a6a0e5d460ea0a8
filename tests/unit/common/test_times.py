"""Times: aware or refused, one written form that sorts, and nothing but `ValueError` for what is no time."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.common.times import clock_time, compact, format_ago, from_text, require_aware, to_text

moments = st.datetimes(timezones=st.just(UTC))


@given(moments, moments)
def test_the_written_form_comes_back_and_sorts_as_the_moments_do(one: datetime, other: datetime) -> None:
    assert from_text(to_text(one)) == one
    assert (to_text(one) < to_text(other)) == (one < other)
    assert len(to_text(one)) == 27


def test_another_zone_is_written_in_utc() -> None:
    moment = datetime(2026, 2, 5, 15, 30, 15, 234567, timezone(timedelta(hours=1)))
    assert to_text(moment) == "2026-02-05T14:30:15.234567Z"
    assert compact(moment) == "20260205T143015Z"


def test_a_naive_time_is_refused() -> None:
    for use in (require_aware, to_text, compact):
        with pytest.raises(ValueError, match="no time zone"):
            use(datetime(2026, 2, 5))  # noqa: DTZ001


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-02-05", "2026-02-05T14:30:15", "2026-13-01T00:00:00Z", "\ud800", "\0", "9" * 5000),
        *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59"),
    ],
)
def test_what_is_no_time_in_utc_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (whatever its words: callers turn it into their own)
        from_text(text)


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        from_text(text)


NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, "just now"), (40, "40 s ago"), (133, "2 min ago"), (3 * 3600 + 310, "3 h 5 min ago"), (2 * 86400, "2 d ago")],
)
def test_a_recent_moment_is_told_relative_to_now(seconds: int, words: str) -> None:
    assert format_ago(NOW - timedelta(seconds=seconds), NOW) == words


def test_a_clock_time_has_its_date_only_on_another_day() -> None:
    assert clock_time(NOW - timedelta(minutes=4), NOW) == "14:26 UTC"
    assert clock_time(NOW, NOW.astimezone(ZoneInfo("Asia/Tokyo")), seconds=True) == "14:30:15 UTC"
    assert clock_time(NOW - timedelta(days=1), NOW) == "2026-02-04 14:30 UTC"
    assert clock_time(NOW) == "2026-02-05 14:30 UTC"
