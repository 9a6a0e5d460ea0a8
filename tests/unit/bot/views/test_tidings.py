"""What is told beside the one message of each alert, as people see it: golden files, and the longest there can be."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from bot.views.answers.alerts import open_alerts
from bot.views.blocks import Content
from bot.views.buttons import list_page
from bot.views.cards.alert import alert_card
from bot.views.cards.notices import escalation, escalation_elsewhere, quiet_hours_summary, weekly_summary
from slack_playground.blockkit.messages import check_message
from supervisor_core.alerts.flips import Uptime
from supervisor_core.alerts.rules import AlertState
from supervisor_core.alerts.suppression.rows import CONFIGURATION, EVERYTHING, Hush
from supervisor_core.workers.conditions import FLAPPING, Condition, Severity, Target
from tests.support.golden import are_as_last_seen
from tests.unit.bot.views.test_alert_cards import DOWN, HOSTILE, HOUR, NOW, OVER, SEEN, hush, told

DAY = timedelta(days=1)
SOUTH = Target("worker", "South")
DEGRADED = replace(
    DOWN, condition=Condition.DEGRADED, severity=Severity.WARNING, reason="reports an error: no space left"
)
GONE = replace(DEGRADED, target=SOUTH, state=AlertState.CLOSED, opened_at=NOW - HOUR, closed_at=NOW - HOUR / 2)
FLAPS = {
    "target": Target(FLAPPING, "North"),
    "condition": Condition.FLAPPING,
    "reason": "6 changes in 25 min, worst: down",
    "evidence": (),
}
WELL = Uptime(DAY * 6.9, down=DAY * 0.1)
ALL = Uptime(DAY * 7)
IN_MAINTENANCE = replace(hush(Hush.MAINTENANCE), by=CONFIGURATION)
IN_QUIET_HOURS = replace(hush(Hush.QUIET), by=CONFIGURATION)

CASES: dict[str, Content] = {
    "morning": quiet_hours_summary([DEGRADED, GONE, GONE, replace(GONE, target=DOWN.target)], NOW - 9 * HOUR, NOW),
    "morning_of_one": quiet_hours_summary([GONE], NOW - 9 * HOUR, NOW),
    "call": escalation(DOWN, ["U0BEN", "S0LEADS"]),
    "call_of_hostile": escalation(replace(DOWN, reason=HOSTILE), ["U0BEN"]),
    "call_elsewhere": escalation_elsewhere(DOWN, "C0OPS", "https://team.example/archives/C0OPS/p1770302940000100"),
    "call_elsewhere_before_it_is_told": escalation_elsewhere(DOWN, "C0OPS", ""),
    "week": weekly_summary("OrionHost", NOW - 7 * DAY, NOW, [GONE, GONE, DOWN], {"North": WELL, "South": ALL}),
    "week_quiet": weekly_summary("OrionHost", NOW - 7 * DAY, NOW, [], {"North": ALL, "South": ALL}),
    "flapping": alert_card(told(**FLAPS), NOW),
    "flapping_over": alert_card(told(**FLAPS, **OVER, ended="it has not changed for 30 min, and is well now"), NOW),
    "folded": alert_card(told(parent_id="p1", parent=told(**FLAPS).alert, evidence=()), NOW),
    "in_maintenance": alert_card(told(hushes=[IN_MAINTENANCE], evidence=()), NOW),
    "in_quiet_hours": alert_card(told(severity=Severity.WARNING, hushes=[IN_QUIET_HOURS], evidence=()), NOW),
    "list": open_alerts(
        list_page([SEEN], 10, 0),
        1,
        {"North": hush(Hush.MUTE, "disks"), "South": IN_MAINTENANCE, EVERYTHING.id: IN_MAINTENANCE},
        NOW,
        worked={"North": (WELL, WELL, ALL), "South": (ALL, ALL, ALL), "New": (Uptime(), Uptime(), Uptime())},
    ),
}


def test_the_longest_and_the_worst_there_can_be_is_taken_by_slack_and_calls_nobody_else() -> None:
    evil = replace(DOWN, reason=HOSTILE * 20, target=Target("worker", "W" * 64))
    others = [replace(evil, target=Target("worker", f"{number}" * 32)) for number in range(10, 99)]
    over = [replace(each, state=AlertState.CLOSED, closed_at=NOW + 90 * DAY) for each in others]
    people = [f"U{number:010}" for number in range(200)]
    worked = {each.target.id: WELL for each in others}
    for made in (
        quiet_hours_summary([*others, *over], NOW, NOW),
        escalation(evil, people),
        escalation_elsewhere(evil, "C0OPS", "https://team.example/" + "x" * 200),
        weekly_summary(HOSTILE * 9, NOW, NOW, [*others, *over], worked),
    ):
        assert check_message(made, update=True) == []
        assert "<!channel>" not in str(made)
        assert "<@U0OPER>" not in str(made)


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("tidings", CASES)
