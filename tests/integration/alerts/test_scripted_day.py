"""A scripted day and the weekend after it: the exact list of messages that people saw, as a golden file.

A change that is meant: `UPDATE_GOLDEN=1` before the test, then read the difference as the people in the channel would.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from supervisor_core.alerts.rules import AlertState
from tests.support.alerts.scripted_day import Day

GOLDEN = Path(__file__).parents[1] / "golden" / "scripted_day.txt"


@pytest.fixture
def day(tmp_path: Path, slack: Playground) -> Iterator[Day]:
    ops, boss = slack.channel("ops"), slack.channel("boss")
    ben = slack.user("ben")
    alerts = {
        "flapping": {"flips": 4, "within_minutes": 10},
        "escalation": [{"after_minutes": 10, "to": [ben.id]}, {"after_minutes": 30, "to": [boss.id]}],
        "quiet_hours": [{"from": "22:00", "to": "07:00"}],
        "maintenance": [{"target": "West", "cron": "0 3 * * *", "minutes": 30}],
    }
    made = Day(tmp_path, slack, "North", "South", "West", slack={"alert_channel": ops.id}, alerts=alerts)
    try:
        yield made
    finally:
        made.close()


def acknowledge(day: Day, name: str) -> None:
    day.note(f"(ann acknowledges {name})")
    day.alerts.acknowledge(day.one(name).alert_id, day.request(), day.now)
    day.work()


def test_what_people_see_of_a_day_is_as_it_was_last_read(day: Day) -> None:
    day.well("North", "South", "West")
    _escalation(day)
    _flaps(day)
    _mute_and_snooze(day)
    _slack_away(day)
    _night(day)
    day.at("09:01", days=3)
    assert {alert.state for alert in day.all_alerts()} == {AlertState.CLOSED}
    seen = "\n".join(day.lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(seen)
    assert seen == GOLDEN.read_text()


def _escalation(day: Day) -> None:
    day.at("09:10")
    day.down("North")
    day.at("09:15")
    day.restart_and_go_on()
    day.at("09:20")
    day.restart_and_go_on()
    day.at("09:25")
    acknowledge(day, "North")
    day.at("09:45")
    day.well("North")


def _flaps(day: Day) -> None:
    for minute in ("00", "02", "04", "06"):
        day.at(f"10:{minute}")
        day.degraded("South")
        if minute == "04":
            day.restart_and_go_on()
        day.wait(60)
        day.well("South")
    day.at("10:30")


def _mute_and_snooze(day: Day) -> None:
    day.at("12:00")
    day.note("(ann mutes West for an hour)")
    day.alerts.mute(["West"], 3600, day.request("moving disks"), day.now)
    day.work()
    day.at("12:10")
    day.down("West")
    day.restart_and_go_on()
    day.at("13:05")
    day.note("(ann snoozes West)")
    day.alerts.snooze(day.one("West").alert_id, day.request(), now=day.now)
    day.restart_and_go_on()
    day.at("14:06")
    acknowledge(day, "West")
    day.at("14:10")
    day.well("West")


def _slack_away(day: Day) -> None:
    day.at("15:00")
    day.slack_goes()
    day.at("15:05")
    day.down("North")
    day.at("15:10")
    day.down("South")
    day.at("15:20")
    day.well("North")
    day.at("15:30")
    day.restart_and_go_on()
    day.at("16:00")
    day.slack_comes_back()
    day.at("16:05")
    acknowledge(day, "South")
    day.at("16:10")
    day.well("South")


def _night(day: Day) -> None:
    day.at("22:30")
    day.degraded("North")
    day.at("23:00")
    day.degraded("South")
    day.at("23:20")
    day.well("South")
    day.at("23:30")
    day.restart_and_go_on()
    day.at("02:00", days=1)
    day.down("West")
    day.at("02:15")
    acknowledge(day, "West")
    day.at("02:30")
    day.well("West")
    day.at("03:10")
    day.down("West")
    day.restart_and_go_on()
    day.at("03:20")
    day.well("West")
    day.at("06:59")
    day.restart_and_go_on()
    day.at("07:05")
    acknowledge(day, "North")
    day.at("07:30")
    day.well("North")
