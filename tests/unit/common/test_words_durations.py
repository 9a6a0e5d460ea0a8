"""Durations and dates as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.common.times import format_duration, parse_duration, parse_since, since_moment
from tests.support.sampling import examples

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("2h", 7200),
        ("2H", 7200),
        ("1d12h", 129600),
        ("1w", 604800),
        ("90m", 5400),
        ("0m", 0),
        ("90s", 90),
        ("1m30s", 90),
    ],
)
def test_a_duration_is_numbers_with_units(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2x", "2h ", "-2h", "2.5h", "2h1d", "1s2m", "²h", "٣h", "1234567h"])
def test_anything_else_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@given(st.integers(0, 10**7))
@settings(max_examples=examples(100))
def test_a_duration_survives_being_written(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2d", "2d"),
        ("48h", "2d"),
        ("30s", "30s"),
        ("Yesterday", "yesterday"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T10:00", "2026-01-31T10:00:00Z"),
        ("2026-01-31t10:00:05z", "2026-01-31T10:00:05Z"),
        ("2026-01-31T10:00+02:00", "2026-01-31T08:00:00Z"),
        ("0001-01-02", "0001-01-02"),
    ],
)
def test_since_takes_a_duration_or_an_iso_date(text: str, canonical: str) -> None:
    assert parse_since(text) == canonical
    assert parse_since(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "0m",
        "3651d",
        "2026-02-30",
        "20260131",
        "2026-W01-1",
        "0001-01-01T00:00+10:00",
        "2026-01-31T25:00",
    ],
)
def test_since_takes_nothing_else(text: str) -> None:
    assert parse_since(text) is None


def test_since_means_a_moment_in_utc() -> None:
    assert since_moment("2d", NOW) == NOW - timedelta(days=2)
    assert since_moment("2026-01-31", NOW) == datetime(2026, 1, 31, tzinfo=UTC)
    assert since_moment("2026-01-31T08:00:00Z", NOW) == datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert since_moment("yesterday", NOW) == datetime(2026, 2, 4, tzinfo=UTC)
    east = timezone(timedelta(hours=10))
    assert since_moment("today", NOW, east) == datetime(2026, 2, 6, tzinfo=east)
    elsewhere = NOW.astimezone(timezone(timedelta(hours=9)))
    assert since_moment("1h", elsewhere) == NOW - timedelta(hours=1)
    assert since_moment("1h", elsewhere).tzinfo is UTC
