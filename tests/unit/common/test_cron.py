"""Cron expressions: what they mean, in words and in time."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.common import time_zones as zones
from supervisor_core.common.cron import CronError, cron_in_words, parse_cron
from supervisor_core.common.time_zones import next_after

BERLIN, NEW_YORK, KOLKATA, LORD_HOWE = "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"


def next_times(text: str, zone: str, start: datetime, count: int) -> list[datetime]:
    times = [next_after(parse_cron(text), zone, start)]
    while len(times) < count:
        times.append(next_after(parse_cron(text), zone, times[-1]))
    return times


def times(text: str, zone: str, since: str, count: int) -> list[str]:
    """The next times, as the clocks of the zone show them."""
    start = datetime.fromisoformat(since).replace(tzinfo=ZoneInfo(zone))
    found = next_times(text, zone, start, count)
    return [each.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M %z") for each in found]


@pytest.mark.parametrize(
    ("words", "text", "description"),
    [
        ("hourly", "0 * * * *", "every hour"),
        ("@daily", "0 0 * * *", "at 00:00 every day"),
        ("daily 03:00", "0 3 * * *", "at 03:00 every day"),
        ("Every day at 3:05", "5 3 * * *", "at 03:05 every day"),
        ("weekdays 08:30", "30 8 * * 1-5", "at 08:30 on Monday through Friday"),
        ("weekends at noon", "0 12 * * 0,6", "at 12:00 on Sunday and Saturday"),
        ("sunday midnight", "0 0 * * 0", "at 00:00 on Sunday"),
        ("monthly 06:00", "0 6 1 * *", "at 06:00 on the first day of every month"),
        ("every 15 minutes", "*/15 * * * *", "every 15 minutes"),
        ("every 1 minute", "* * * * *", "every minute"),
        ("every 2 hours", "0 */2 * * *", "every 2 hours"),
        ("30  8 * * MON-FRI", "30 8 * * MON-FRI", "at 08:30 on Monday through Friday"),
    ],
)
def test_an_expression_or_a_few_words_for_it_are_understood_and_described(
    words: str, text: str, description: str
) -> None:
    assert parse_cron(words) == text
    assert cron_in_words(text) == description


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dayly 03:00", "five fields"),
        ("daily 24:00", "five fields"),
        ("every 7 minutes", "doesn't divide an hour evenly"),
        ("0 0 3 * * *", "five fields"),
        ("60 3 * * *", "The minute of '60 3"),
        ("0 3 * * mno", "The day of week"),
        ("0 22-2 * * *", "The hour"),
        ("0 0 31 2,4 *", "The day of month"),
        ("٣ 3 * * *", "The minute"),
        ("1 " * 200, "at most 100 are allowed"),
    ],
)
def test_what_is_none_says_why(text: str, message: str) -> None:
    with pytest.raises(CronError, match=message):
        parse_cron(text)


def test_of_a_date_and_a_weekday_either_will_do_unless_one_of_them_is_a_star() -> None:
    assert times("0 0 13 * 5", KOLKATA, "2027-03-08 00:00", 3) == [f"03-{day} 00:00 +0530" for day in (12, 13, 19)]
    assert times("0 0 */2 * 1", KOLKATA, "2027-03-02 00:00", 2) == ["03-15 00:00 +0530", "03-29 00:00 +0530"]


def test_a_time_that_the_clocks_leave_out_comes_right_after_the_gap_and_once() -> None:
    assert times("30 2 * * *", BERLIN, "2027-03-27 12:00", 2) == ["03-28 03:00 +0200", "03-29 02:30 +0200"]
    assert times("0,30 2,3 * * *", BERLIN, "2027-03-27 12:00", 3) == [
        "03-28 03:00 +0200",
        "03-28 03:30 +0200",
        "03-29 02:00 +0200",
    ]
    assert times("15,30 2 * * *", LORD_HOWE, "2027-10-02 12:00", 2) == ["10-03 02:30 +1100", "10-04 02:15 +1100"]


def test_a_time_that_the_clocks_show_twice_comes_once() -> None:
    assert times("30 2 * * *", BERLIN, "2027-10-30 12:00", 2) == ["10-31 02:30 +0200", "11-01 02:30 +0100"]
    for minute in (45, 75):  # 02:45 for the first time, and 02:15 for the second
        between = datetime(2027, 10, 31, tzinfo=UTC) + timedelta(minutes=minute)
        assert next_after("30 2 * * *", BERLIN, between) == datetime(2027, 11, 1, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(("day", "zone"), [("2027-03-28", BERLIN), ("2027-10-31", BERLIN), ("2027-11-07", NEW_YORK)])
def test_what_comes_every_so_many_minutes_goes_on_evenly_while_clocks_are_set(day: str, zone: str) -> None:
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    found = next_times("*/15 * * * *", zone, start, 24)
    assert {later - sooner for sooner, later in itertools.pairwise(found)} == {timedelta(minutes=15)}


@given(
    minute=st.sampled_from(["0", "30", "*/20", "7"]),
    hour=st.sampled_from(["*", "2", "1-3", "*/2"]),
    zone=st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, KOLKATA]),
    start=st.datetimes(datetime(2027, 3, 10), datetime(2027, 11, 12)),  # noqa: DTZ001 (in UTC, said below)
)
def test_times_rise_and_none_is_left_out_whenever_one_asks(minute: str, hour: str, zone: str, start: datetime) -> None:
    cron, begin = f"{minute} {hour} * * *", start.replace(tzinfo=UTC)
    found = next_times(cron, zone, begin, 6)
    assert found == sorted(set(found))
    assert found[0] > begin
    for sooner, later in itertools.pairwise(found):
        assert next_after(cron, zone, sooner + (later - sooner) / 2) == later


def test_a_zone_that_is_none_is_refused_and_the_hosts_own_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Europe/Nowhere", "../../etc/passwd", "", "Europe"):
        assert zones.known_zone(name) == "UTC"
    monkeypatch.setenv("TZ", ":Europe/Berlin")
    assert zones.host_zone() == BERLIN
    monkeypatch.setenv("TZ", "nonsense")
    assert zones.known_zone(zones.host_zone()) == zones.host_zone()
