"""An alert that nobody acknowledges reaches more people, step by step, each once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.alerts.alert_service import AlertDesk, an_alert_desk

MINUTE = 60.0
STEPS = [
    {"after_minutes": 30, "to": ["S0LEADS", "C0BOSS"]},
    {"after_minutes": 10, "to": ["U0BEN", "S0NIGHT"]},
]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path, alerts={"escalation": STEPS, "renotify_minutes": 0}) as made:
        made.well("North", "South")
        yield made


def called(desk: AlertDesk) -> list[str]:
    """Whom what was said calls: those in the thread, and other channels."""
    calls = [each for each in desk.heard() if ":rotating_light:" in each]
    return sorted(re.split(r" (?:North|South|East|West) is ", each)[0] for each in calls)


def test_each_step_comes_at_its_time_and_once(desk: AlertDesk) -> None:
    desk.down("North")
    first = desk.now
    assert len(desk.heard()) == 1
    desk.wait(10 * MINUTE - 1)
    assert desk.heard() == []
    desk.wait(1)
    edit, reply = desk.heard()
    assert edit.startswith("edit: North is down")
    assert reply.startswith("reply: :rotating_light: <@U0BEN> <!subteam^S0NIGHT> North is down since")
    assert desk.one("North").decided == "escalated"
    desk.work()
    desk.restart()
    desk.work()
    assert desk.heard() == []
    desk.wait(20 * MINUTE)
    assert called(desk) == ["post: :rotating_light:", "reply: :rotating_light: <!subteam^S0LEADS>"]
    assert (desk.now - first).total_seconds() == 30 * MINUTE
    desk.wait(600 * MINUTE)
    assert desk.heard() == []


def test_who_acknowledges_it_ends_it_and_what_waits_to_be_told_is_not_told(desk: AlertDesk) -> None:
    desk.down("North", "South")
    desk.wait(MINUTE)
    desk.alerts.acknowledge(desk.one("South").alert_id, desk.request(), desk.now)
    desk.work()
    desk.away = True
    desk.wait(9 * MINUTE)
    desk.alerts.acknowledge(desk.one("North").alert_id, desk.request(), desk.now)
    desk.away = False
    desk.work()
    desk.wait(60 * MINUTE)
    assert called(desk) == []
    assert desk.one("North").escalated == 1


def test_a_snooze_and_a_mute_stop_it_and_after_them_the_time_begins_anew(desk: AlertDesk) -> None:
    desk.down("North")
    desk.wait(5 * MINUTE)
    desk.alerts.snooze(desk.one("North").alert_id, desk.request(), now=desk.now)
    desk.work()
    desk.heard()
    desk.wait(60 * MINUTE)
    assert [each.split(":")[1] for each in desk.heard()] == [" North is down", " "], "the end of the snooze, no call"
    desk.wait(10 * MINUTE - 1)
    assert desk.heard() == []
    desk.wait(1)
    assert called(desk) == ["reply: :rotating_light: <@U0BEN> <!subteam^S0NIGHT>"]
    desk.alerts.mute(["North"], 3600, desk.request(), desk.now)
    desk.work()
    desk.heard()
    desk.wait(59 * MINUTE)
    assert desk.heard() == []
    desk.wait(1 * MINUTE)
    desk.heard()
    desk.wait(29 * MINUTE)
    assert called(desk) == []
    desk.wait(1 * MINUTE)
    assert called(desk) == ["post: :rotating_light:", "reply: :rotating_light: <!subteam^S0LEADS>"]


def test_steps_that_came_due_while_nobody_was_there_reach_everybody_once(desk: AlertDesk) -> None:
    desk.down("North")
    desk.heard()
    desk.now += timedelta(minutes=45)
    desk.restart()
    desk.work()
    assert called(desk) == [
        "post: :rotating_light:",
        "reply: :rotating_light: <@U0BEN> <!subteam^S0NIGHT> <!subteam^S0LEADS>",
    ]


def test_in_quiet_hours_only_what_is_critical_is_escalated(tmp_path: Path) -> None:
    night = {"from": "09:00", "to": "17:00"}
    with an_alert_desk(tmp_path, alerts={"escalation": STEPS, "quiet_hours": [night], "renotify_minutes": 0}) as desk:
        desk.well("North", "South")
        desk.degraded("North")
        desk.down("South")
        desk.heard()
        desk.wait(7 * 60 * MINUTE)
        assert len(called(desk)) == 3
        assert (desk.one("North").escalated, desk.one("South").escalated) == (0, 2)
        desk.wait(60 * MINUTE)
        assert len(desk.heard()) == 2, "the morning's summary, and its first word"
        desk.wait(10 * MINUTE)
        assert called(desk) == ["reply: :rotating_light: <@U0BEN> <!subteam^S0NIGHT>"]
