"""A worker that comes and goes: one alert that says how often, and the single ones folded into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.alerts.rules import Alert, AlertState
from supervisor_core.workers.conditions import FLAPPING, Severity, Target
from supervisor_core.workers.health import WorkerState
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.storage.ledger_rows import alerts_of

MINUTE = 60.0
RULES = {"flapping": {"flips": 4, "within_minutes": 10}, "renotify_minutes": 0}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path, alerts=RULES) as made:
        made.well("North", "South")
        yield made


def flap(desk: AlertDesk, times: int = 1) -> None:
    for _ in range(times):
        desk.wait(MINUTE)
        desk.down("North")
        desk.wait(MINUTE)
        desk.well("North")


def of_flapping(desk: AlertDesk) -> list[Alert]:
    return desk.ledger.read(lambda connection: alerts_of(connection, Target(FLAPPING, "North")))


def test_so_many_changes_are_one_alert_and_each_further_one_an_edit_of_it(desk: AlertDesk) -> None:
    flap(desk)
    desk.wait(MINUTE)
    desk.down("North")
    assert [each.split(":")[0] for each in desk.heard()] == ["post", "edit", "post"]
    desk.wait(MINUTE)
    desk.well("North")
    over, flapping = desk.heard()
    assert over.startswith("edit: North recovered after 1 min"), "what was told is ended"
    assert flapping.startswith("post: Flapping: 4 changes in 3 min · North, now healthy")
    assert [each.severity for each in of_flapping(desk)] == [Severity.CRITICAL]
    desk.wait(MINUTE)
    desk.down("North")
    assert desk.one("North").decided == "folded"
    assert desk.one("North").parent_id == of_flapping(desk)[0].alert_id
    desk.wait(MINUTE)
    desk.well("North")
    assert [each.split(" in ")[0] for each in desk.heard()] == [
        "edit: Flapping: 5 changes",
        "edit: Flapping: 6 changes",
    ]
    desk.wait(10 * MINUTE - 1)
    assert desk.heard() == []
    desk.wait(1)
    assert desk.heard() == ["edit: North recovered after 15 min"]
    flap(desk)
    assert [each.split(":")[0] for each in desk.heard()] == ["post", "edit"], "an alert as any other"


def test_a_worker_that_stays_down_has_not_recovered_and_has_an_alert_of_its_own(desk: AlertDesk) -> None:
    flap(desk, 2)
    desk.down("North")
    assert desk.heard()[-1].startswith("edit: Flapping: 5 changes in 3 min · North, now down")
    desk.wait(10 * MINUTE)
    over, first = desk.heard()
    assert over == "edit: North is no longer flapping but down"
    assert first == "post: North is down: exited (code 1) after 5 min"
    assert desk.one("North").parent_id is None


def test_who_was_told_to_be_down_before_it_is_said_to_be_so_afterwards(desk: AlertDesk) -> None:
    flap(desk)
    desk.wait(MINUTE)
    desk.degraded("North")
    desk.wait(MINUTE)
    desk.heard()
    desk.down("North")
    folded, flapping = desk.heard()
    assert flapping.startswith("post: Flapping: ")
    assert folded.startswith("edit: North is down")
    desk.wait(10 * MINUTE)
    kinds = [each.split(":")[0] for each in desk.heard()]
    assert kinds == ["edit", "edit", "reply"]
    assert desk.one("North").decided == "worse"


def test_flapping_that_ends_in_quarantine_says_that_the_worker_is_down_for_good(desk: AlertDesk) -> None:
    flap(desk, 2)
    desk.down("North")
    desk.heard()
    desk.wait(MINUTE)
    desk.look(desk.status("North", WorkerState.QUARANTINED, quarantine="quarantined after 5 restarts in an hour"))
    edit, reply = desk.heard()
    assert edit.startswith("edit: North is down: quarantined after 6 state changes in 4 min")
    assert reply.startswith(
        "reply: :small_red_triangle: Escalated: North was quarantined after 6 state changes in 4 min"
    )
    desk.wait(60 * MINUTE)
    assert desk.heard() == [], "it stays open"
    desk.well("North")
    assert desk.heard() == ["edit: North recovered after 1 h 4 min"]


def test_who_is_paused_flaps_no_more_at_once(desk: AlertDesk) -> None:
    flap(desk, 2)
    desk.heard()
    desk.look(desk.status("North", WorkerState.STOPPED, inactive_reason="paused by ann"))
    assert desk.heard() == ["edit: North recovered after 3 min"]
    assert [each.state for each in of_flapping(desk)] == [AlertState.CLOSED]


def test_pauses_are_no_changes_of_health(desk: AlertDesk) -> None:
    for _ in range(6):
        desk.look(desk.status("North", WorkerState.STOPPED, inactive_reason="paused by ann"))
        desk.wait(10)
        desk.well("North")
        desk.wait(10)
    assert desk.heard() == []
    assert of_flapping(desk) == []


def test_a_restart_of_the_daemon_goes_on_with_it_and_ends_it_in_time(desk: AlertDesk) -> None:
    flap(desk, 2)
    desk.heard()
    desk.restart()
    desk.well("North")
    desk.wait(MINUTE)
    desk.down("North")
    assert [each.split(" in ")[0] for each in desk.heard()] == ["edit: Flapping: 5 changes"]
    desk.wait(MINUTE)
    desk.well("North")
    desk.restart()
    desk.heard()
    desk.now += 20 * (desk.now - desk.flips("North")[-2].at)
    desk.work()
    assert [each.split(" after ")[0] for each in desk.heard()] == ["edit: North recovered"]


def test_a_warning_that_comes_and_goes_waits_for_the_morning(tmp_path: Path) -> None:
    night = {"from": "09:00", "to": "17:00"}
    with an_alert_desk(tmp_path, alerts={**RULES, "quiet_hours": [night]}) as desk:
        desk.well("North", "South")
        for _ in range(3):
            desk.degraded("North")
            desk.wait(10)
            desk.well("North")
        assert desk.heard() == []
        assert of_flapping(desk)[0].decided == "quiet_hours"
