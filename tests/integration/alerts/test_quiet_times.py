"""Quiet hours and maintenance: what is filed when, what people hear meanwhile and afterwards."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from supervisor_core.alerts.rules import AlertState
from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.rows import Hush, Suppression
from supervisor_core.workers.conditions import Condition, Reading, Target
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk

NIGHT = {"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"}  # in winter, 21:00 to 06:00 UTC
DRIVE = Target("drive", "TestHost")
BACKUP = {"target": "North", "cron": "0 3 * * *", "minutes": 60}


def at(desk: AlertDesk, text: str) -> None:
    """The story goes on to this time of day, the next one there is."""
    hour, minute = map(int, text.split(":"))
    then = desk.now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    then += timedelta(days=1) if then <= desk.now else timedelta()
    desk.wait((then - desk.now).total_seconds())


def filed(desk: AlertDesk, *kinds: Hush) -> list[Suppression]:
    wanted = kinds or (Hush.QUIET, Hush.MAINTENANCE)
    return desk.ledger.read(lambda connection: suppressions.of_kinds(connection, "TestHost", wanted))


def test_a_night_lets_through_what_is_critical_and_says_in_the_morning_what_it_kept_back(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, "North", "South", "West", alerts={"quiet_hours": [NIGHT]}) as desk:
        desk.well("North", "South", "West")
        at(desk, "22:00")
        desk.degraded("North")
        desk.down("West")
        assert desk.heard() == ["post: West is down: exited (code 1) after 5 min"]
        assert desk.one("North").decided == "quiet_hours"
        for _ in range(2):
            desk.degraded("South")
            desk.wait(600)
            desk.well("South")
        desk.well("West")
        desk.heard()
        at(desk, "05:59")
        assert desk.heard() == []
        at(desk, "06:00")
        morning, first = desk.heard()
        assert morning.startswith("post: Quiet hours ended: 3 alerts held back")
        assert first == "post: North is degraded: reports an error: no space left"
        desk.wait(60)
        assert desk.heard() == []
        assert filed(desk) == []


def test_the_summary_has_what_holds_and_what_came_and_went(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, alerts={"quiet_hours": [NIGHT]}) as desk:
        desk.well("North", "South")
        at(desk, "23:00")
        desk.degraded("North")
        for _ in range(2):
            desk.degraded("South")
            desk.wait(600)
            desk.well("South")
        desk.full = True
        at(desk, "06:00")
        text = desk.heard()[0]
        assert "*Still open* / • North is degraded since" in text
        assert "*Recovered* / • South: degraded twice, for 20 min in total" in text


def test_a_night_in_which_nothing_was_kept_back_ends_without_a_word(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, alerts={"quiet_hours": [NIGHT]}) as desk:
        desk.well("North", "South")
        at(desk, "22:00")
        desk.down("North")
        desk.well("North")
        desk.heard()
        at(desk, "07:00")
        assert desk.heard() == []


def test_a_reminder_of_a_warning_waits_until_morning(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, alerts={"quiet_hours": [NIGHT]}) as desk:
        desk.well("North")
        at(desk, "20:30")
        desk.degraded("North")
        desk.heard()
        at(desk, "05:59")
        assert desk.heard() == []
        at(desk, "06:00")
        told = desk.heard()
        assert [each.split(":")[0] for each in told] == ["edit", "reply"], "it was told: no summary has it again"
        assert "Still open" in told[1]


def test_a_restart_in_the_night_and_a_daemon_that_was_away_in_the_morning_change_nothing(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, alerts={"quiet_hours": [NIGHT]}) as desk:
        desk.well("North")
        at(desk, "22:00")
        desk.degraded("North")
        (before,) = filed(desk)
        desk.restart()
        desk.work()
        assert filed(desk) == [before]
        desk.restart()
        desk.now += timedelta(hours=12)  # nobody was there in the morning
        desk.work()
        assert len(desk.heard()) == 2
        desk.restart()
        desk.work()
        assert desk.heard() == []


def test_in_maintenance_nobody_hears_and_at_its_end_what_holds_is_said(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, alerts={"maintenance": [BACKUP], "renotify_minutes": 0}) as desk:
        desk.well("North", "South")
        at(desk, "03:00")
        (window,) = filed(desk)
        assert (window.target.id, window.until - window.since) == ("North", timedelta(hours=1))
        assert desk.alerts.muted(desk.now)["North"].kind is Hush.MAINTENANCE
        desk.down("North", "South")
        assert [each.split(" is ")[0] for each in desk.heard()] == ["post: South"]
        assert (desk.one("North").decided, desk.one("North").state) == ("in_maintenance", AlertState.OPEN)
        at(desk, "03:59")
        assert desk.heard() == []
        at(desk, "04:00")
        assert [each.split(" is ")[0] for each in desk.heard()] == ["post: North"]
        assert desk.alerts.muted(desk.now) == {}


def test_maintenance_of_all_is_about_the_host_too_and_of_a_pattern_about_its_workers(tmp_path: Path) -> None:
    rules = [{**BACKUP, "target": "all"}, {**BACKUP, "target": "*o*", "minutes": 5}, {**BACKUP, "target": "nobody*"}]
    with an_alert_desk(tmp_path, "North", "South", "West", alerts={"maintenance": rules}) as desk:
        desk.well("North")
        at(desk, "03:00")
        assert {each.target for each in filed(desk)} == {("worker", "North"), ("worker", "South"), ("all", "*")}
        desk.down("North")
        desk.alerting.observe(DRIVE, Reading(Condition.DRIVE_UNREACHABLE, "it hangs", desk.now))
        desk.work()
        assert desk.heard() == []


def test_unmute_ends_a_maintenance_for_this_time(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, alerts={"maintenance": [BACKUP]}) as desk:
        desk.well("North")
        at(desk, "03:00")
        desk.down("North")
        assert desk.alerts.unmute(["North"], desk.request(), desk.now) == ["North"]
        desk.work()
        assert len(desk.heard()) == 1
        desk.restart()
        desk.wait(600)
        assert desk.heard() == []
