"""How workers were over time: their uptime, and one word about each week."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from bot.views.answers.alerts import open_alerts
from bot.views.buttons import list_page
from bot.views.cards.notices import weekly_summary
from slack_playground.blockkit.messages import check_message
from supervisor_core.alerts import flips as uptimes
from supervisor_core.alerts.flips import Uptime
from supervisor_core.alerts.rules import Alert
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.workers.conditions import Condition, Target
from supervisor_core.workers.health import WorkerState
from tests.support.alerts.alert_service import BEGINNING, AlertDesk, an_alert_desk

HOUR, DAY = 3600.0, 86400.0
QUIET: dict[str, Any] = {"alerts": {"renotify_minutes": 0, "quiet_hours": [{"from": "02:00", "to": "03:00"}]}}
"""With a zone, which is UTC: so it does not depend on the host when it is Monday morning."""


def shares(desk: AlertDesk, name: str) -> list[float | None]:
    found = desk.ledger.read(
        lambda connection: uptimes.uptimes_of_workers(connection, "TestHost", [name, "nobody"], desk.now + timedelta(0))
    )
    assert [each.share for each in found["nobody"]] == [None] * 3
    return [each.share and round(each.share, 3) for each in found[name]]


def test_uptime_is_of_the_time_in_which_somebody_wanted_it_to_run(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, **QUIET) as desk:
        desk.well("North")
        assert shares(desk, "North") == [None] * 3, "no time has gone by"
        desk.wait(10 * DAY)
        assert shares(desk, "North") == [1.0] * 3, "what did not change within a span is known all the same"
        desk.down("North")
        desk.wait(6 * HOUR)
        desk.well("North")
        assert shares(desk, "North") == [0.75, 0.964, 0.976]
        desk.look(desk.status("North", WorkerState.STOPPED, inactive_reason="paused by ann"))
        desk.wait(DAY)
        assert shares(desk, "North")[0] is None, "it was paused"
        desk.degraded("North")
        desk.wait(DAY)
        assert shares(desk, "North")[0] == 1.0, "degraded is at work"


def test_a_quiet_week_is_one_line_on_monday_morning_once(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, **QUIET) as desk:
        desk.well("North", "South")
        desk.wait(4 * DAY - 1)
        assert desk.heard() == [], "nobody was here on the Monday before"
        desk.wait(1)
        (line,) = desk.heard()
        assert line.startswith("post: :calendar: A quiet week on TestHost, ")
        assert line.endswith("no alerts, 2 workers, uptime 100% of 4 d")
        assert f"{desk.now:%a %H:%M}" == "Mon 09:00"
        desk.restart()
        desk.work()
        desk.wait(DAY)
        assert desk.heard() == []
        head = desk.ledger.audit(AuditEntry("cli:anna", "PAUSE", "North"), desk.now)
        desk.full = True
        desk.wait(6 * DAY)
        (line,) = desk.heard()
        assert head.hash in line, "where nobody on the host can change it"


def test_a_week_with_alerts_names_who_was_longest_in_trouble(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, **QUIET) as desk:
        desk.well("North", "South")
        for name, hours in (("North", 1), ("South", 6), ("North", 2)):
            desk.down(name)
            desk.wait(hours * HOUR)
            desk.well(name)
        desk.heard()
        desk.full = True
        desk.wait(4 * DAY)
        (text,) = desk.heard()
        assert "*3 alerts this week*" in text
        assert "2 workers, uptime 95.3% of 4 d" in text
        assert "*Longest problems* / • South: 1 alert, 6 h; uptime 93.8% of 4 d / • North: 2 alerts, 3 h" in text


def test_who_was_away_on_monday_tells_of_it_later_and_not_when_it_is_old(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, **QUIET) as desk:
        desk.well("North")
        desk.now += timedelta(days=5)
        desk.restart()
        desk.work()
        assert len(desk.heard()) == 1
        desk.now += timedelta(days=9)
        desk.restart()
        desk.work()
        assert desk.heard() == []


def test_in_quiet_hours_it_waits_until_they_are_over(tmp_path: Path) -> None:
    settings = {"alerts": {"quiet_hours": [{"days": "mon", "from": "08:00", "to": "11:00"}]}}
    with an_alert_desk(tmp_path, **settings) as desk:
        desk.well("North")
        desk.wait(4 * DAY + 2 * HOUR - 1)
        assert desk.heard() == []
        desk.wait(1)
        assert len(desk.heard()) == 1


def test_the_longest_there_can_be_fits_into_a_message() -> None:
    names = [f"{'<!channel>&' * 5}{number}" for number in range(200)]
    alerts = [
        Alert(f"a{number}", Target("worker", name), Condition.DOWN, "x" * 500, BEGINNING, number)
        for number, name in enumerate(names)
    ]
    part = Uptime(timedelta(hours=1), down=timedelta(minutes=7))
    made = weekly_summary(
        "<@U0EVIL>" * 10, BEGINNING, BEGINNING + timedelta(days=7), alerts, dict.fromkeys(names, part)
    )
    assert check_message(made) == []
    assert "<!channel>" not in str(made)
    assert "<@U0EVIL>" not in str(made)
    of_all = open_alerts(list_page([], 10, 0), 0, {}, BEGINNING, worked=dict.fromkeys(names, (part, part, part)))
    assert check_message(of_all) == []
    assert "<!channel>" not in str(of_all)
    assert "and 190 more" in str(of_all)
