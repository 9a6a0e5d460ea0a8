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
from supervisor_core.common.time_zones import next_after, next_times

BERLIN, NEW_YORK, KOLKATA, LORD_HOWE = "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"


def times(text: str, zone: str, since: str, count: int) -> list[str]:
    """The next times, as the clocks of the zone show them."""
    start = datetime.fromisoformat(since).replace(tzinfo=ZoneInfo(zone))
    found = next_times(parse_cron(text), zone, start, count)
    assert all(each.tzinfo is UTC for each in found)
    return [each.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M %z") for each in found]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 3 * * *", "every day at 03:00"),
        ("0 3,15 * * *", "every day at 03:00 and 15:00"),
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0,15,30,45 * * * *", "every 15 minutes"),
        ("*/10 8-17 * * 1-5", "every 10 minutes from 08:00 to 17:50, Monday to Friday"),
        ("0 * * * *", "every hour"),
        ("7 * * * *", "every hour at minute 7"),
        ("0 */2 * * *", "every 2 hours"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("30 8 * * 1-5", "Monday to Friday at 08:30"),
        ("30 8 * * MON-FRI", "Monday to Friday at 08:30"),
        ("0 7 * * 1", "on Mondays at 07:00"),
        ("0 7 * * 0", "on Sundays at 07:00"),
        ("0 7 * * 7", "on Sundays at 07:00"),
        ("0 7 * * sat-sun", "on Saturdays and Sundays at 07:00"),
        ("0 0 1 * *", "on the 1st of each month at 00:00"),
        ("0 0 2,3,11,22 * *", "on the 2nd, 3rd, 11th and 22nd of each month at 00:00"),
        ("0 0 1 1 *", "on the 1st of January at 00:00"),
        ("0 0 13 * 5", "on the 13th of each month, and on Fridays, at 00:00"),
        ("0 6 * dec *", "every day in December at 06:00"),
        ("7,23 */3 * * *", ""),
        ("0 0 */2 * 1", ""),
    ],
)
def test_an_expression_is_said_in_words_or_not_at_all(text: str, said: str) -> None:
    assert cron_in_words(parse_cron(text)) == said


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("daily 03:00", "0 3 * * *"),
        ("Every day at 3:05", "5 3 * * *"),
        ("weekdays 08:30", "30 8 * * 1-5"),
        ("weekends at noon", "0 12 * * 0,6"),
        ("mondays 07:00", "0 7 * * 1"),
        ("sunday midnight", "0 0 * * 0"),
        ("weekly", "0 0 * * 1"),
        ("monthly 06:00", "0 6 1 * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("every 1 minute", "* * * * *"),
        ("every 2 hours", "0 */2 * * *"),
    ],
)
def test_a_few_words_stand_for_an_expression(said: str, text: str) -> None:
    assert parse_cron(said).text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dayly 03:00", "Which days? 'dayly' isn't one. Try “daily 03:00”."),
        ("03:00", "Which days? Try “daily 03:00”."),
        ("daily 24:00", "isn't a time of day"),
        ("every 7 minutes", "doesn't divide an hour evenly"),
        ("hurly", "five fields"),
        ("* * *", "five fields"),
        ("0 0 3 * * *", "five fields, without seconds"),
        ("60 3 * * *", "Minute must be 0–59, not 60."),
        ("0 24 * * *", "Hour must be 0–23, not 24."),
        ("0 3 * * mno", "'mno' isn't a valid weekday"),
        ("0 22-2 * * *", "is backwards"),
        ("5/15 * * * *", "A step needs a range"),
        ("*/0 * * * *", "A step of 0"),
        ("0 3 ? * 1", "'?' isn't a valid day of the month"),
        ("0 3 * * 1#2", "isn't a valid weekday"),
        ("0 0 31 2,4 *", "Day 31 doesn't exist in February or April"),
        ("٣ 3 * * *", "isn't a valid minute"),
        ("1 " * 200, "at most 100 are allowed"),
    ],
)
def test_what_is_none_says_why(text: str, message: str) -> None:
    with pytest.raises(CronError, match=message.replace("?", r"\?")):
        parse_cron(text)


def test_weekdays_are_those_of_cron_and_not_of_the_library() -> None:
    assert times("0 7 * * 0", KOLKATA, "2027-03-01 00:00", 2) == ["03-07 07:00 +0530", "03-14 07:00 +0530"], "Sundays"
    assert times("0 7 * * 1", KOLKATA, "2027-03-01 00:00", 1) == ["03-01 07:00 +0530"], "a Monday"
    assert times("0 7 * * 5-7", KOLKATA, "2027-03-01 00:00", 3) == [f"03-0{day} 07:00 +0530" for day in (5, 6, 7)]


def test_of_a_date_and_a_weekday_either_will_do_unless_one_of_them_is_a_star() -> None:
    assert times("0 0 13 * 5", KOLKATA, "2027-03-08 00:00", 3) == [f"03-{day} 00:00 +0530" for day in (12, 13, 19)]
    assert times("0 0 */2 * 1", KOLKATA, "2027-03-02 00:00", 2) == ["03-15 00:00 +0530", "03-29 00:00 +0530"]


def test_a_time_that_the_clocks_leave_out_comes_as_much_later_as_they_were_set_forward() -> None:
    assert times("30 2 * * *", BERLIN, "2027-03-27 12:00", 3) == [
        "03-28 03:30 +0200",
        "03-29 02:30 +0200",
        "03-30 02:30 +0200",
    ]
    assert times("30 2 * * *", NEW_YORK, "2027-03-13 12:00", 2) == ["03-14 03:30 -0400", "03-15 02:30 -0400"]
    assert times("0 3 * * *", BERLIN, "2027-03-27 12:00", 2) == ["03-28 03:00 +0200", "03-29 03:00 +0200"]
    assert times("0,30 2,3 * * *", BERLIN, "2027-03-27 12:00", 3) == [
        "03-28 03:00 +0200",
        "03-28 03:30 +0200",
        "03-29 02:00 +0200",
    ], "and what is there already does not come twice"


def test_a_time_that_the_clocks_show_twice_comes_once() -> None:
    assert times("30 2 * * *", BERLIN, "2027-10-30 12:00", 2) == ["10-31 02:30 +0200", "11-01 02:30 +0100"]
    assert times("30 1 * * *", NEW_YORK, "2027-11-06 12:00", 2) == ["11-07 01:30 -0400", "11-08 01:30 -0500"]
    between = datetime(2027, 10, 31, 0, 45, tzinfo=UTC)  # 02:45 for the first time; 02:30 will be shown again
    assert next_after(parse_cron("30 2 * * *"), BERLIN, between) == datetime(2027, 11, 1, 1, 30, tzinfo=UTC)
    assert times("0 */2 * * *", BERLIN, "2027-10-31 00:30", 3) == [f"10-31 {each}" for each in (
        "02:00 +0200", "04:00 +0100", "06:00 +0100")]  # fmt: skip


@pytest.mark.parametrize(("day", "zone"), [("2027-03-28", BERLIN), ("2027-10-31", BERLIN), ("2027-11-07", NEW_YORK)])
def test_what_comes_every_so_many_minutes_goes_on_evenly_while_clocks_are_set(day: str, zone: str) -> None:
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    found = next_times(parse_cron("*/15 * * * *"), zone, start, 24)
    assert {later - sooner for sooner, later in itertools.pairwise(found)} == {timedelta(minutes=15)}


def test_clocks_may_be_set_by_half_an_hour() -> None:
    assert times("15,30 2 * * *", LORD_HOWE, "2027-10-02 12:00", 3) == [
        "10-03 02:30 +1100",
        "10-03 02:45 +1100",
        "10-04 02:15 +1100",
    ]


def test_a_zone_that_never_sets_its_clocks_is_plain() -> None:
    assert times("30 2 * * *", KOLKATA, "2027-03-27 12:00", 2) == ["03-28 02:30 +0530", "03-29 02:30 +0530"]


def test_a_day_that_is_rare_is_found_years_ahead() -> None:
    found = next_after(parse_cron("0 0 29 2 *"), "UTC", datetime(2096, 3, 1, tzinfo=UTC))
    assert found == datetime(2104, 2, 29, tzinfo=UTC), "2100 has no such day"


@given(
    minute=st.sampled_from(["0", "30", "*/20", "7"]),
    hour=st.sampled_from(["*", "2", "1-3", "*/2"]),
    zone=st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, KOLKATA]),
    start=st.datetimes(datetime(2027, 3, 10), datetime(2027, 11, 12)),  # noqa: DTZ001 (in UTC, said below)
)
def test_times_rise_and_none_is_left_out_whenever_one_asks(minute: str, hour: str, zone: str, start: datetime) -> None:
    cron, begin = parse_cron(f"{minute} {hour} * * *"), start.replace(tzinfo=UTC)
    found = next_times(cron, zone, begin, 6)
    assert found == sorted(set(found))
    assert found[0] > begin
    for sooner, later in itertools.pairwise(found):
        assert next_after(cron, zone, sooner + (later - sooner) / 2) == later


def test_a_zone_that_is_none_is_refused_and_the_hosts_own_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Europe/Nowhere", "../../etc/passwd", "", "Europe"):
        assert not zones.is_zone(name)
    monkeypatch.setenv("TZ", ":Europe/Berlin")
    assert zones.host_zone() == BERLIN
    monkeypatch.setenv("TZ", "nonsense")
    assert zones.is_zone(zones.host_zone())
