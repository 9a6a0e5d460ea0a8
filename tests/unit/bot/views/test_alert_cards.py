"""The message of an alert as people see it: golden files of every state, and whatever may be in it against the strict
checker.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_alert_cards.py`, then look at the difference.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.views.answers.alerts import mute_answer, open_alerts, unmute_answer
from bot.views.blocks import Content, blocks_of
from bot.views.buttons import list_page
from bot.views.cards.alert import (
    AlertDetails,
    alert_card,
    alert_reply,
    buttons,
    restart_line,
)
from slack_playground.blockkit.messages import check_message
from supervisor_core.alerts.grouping.rules import AlertMembers, after_members, digest
from supervisor_core.alerts.rules import Alert, AlertState, Reason
from supervisor_core.alerts.suppression.rows import Hush, Suppression
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.workers.conditions import Condition, Target
from tests.support.golden import are_as_last_seen
from tests.unit.bot.views.test_cards import job

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
OPERATOR = Issuer("slack:T0TEAM/U0OPER", "operator")
NORTH = Target("worker", "North")
HOSTILE = "<!channel> & <@U0OPER> `rm -rf` *bold* https://evil.example"

DOWN = Alert(
    "k3f9x2qa",
    NORTH,
    Condition.DOWN,
    "exited (code 1) after 5 min; not restarted (restart.policy: never)",
    NOW - timedelta(seconds=75),
    7,
    AlertState.OPEN,
    told=Condition.DOWN,
    told_occurrence=1,
    told_at=NOW - timedelta(seconds=75),
    due_at=NOW + HOUR,
    evidence=("2026-02-05T14:28:59Z item 17 done", "Traceback (most recent call last):", "KeyError: 'path'"),
    supervisor_id="OrionHost",
)
SEEN = AlertDetails(DOWN)
BEFORE = replace(
    job("North", "rollback_code", outcome=Outcome.done(message="rolled back")),
    finished_at=NOW - timedelta(minutes=3),
)


def hush(kind: Hush, reason: str = "") -> Suppression:
    return Suppression("task_1", NORTH, kind, NOW - HOUR, NOW + HOUR, OPERATOR, reason)


def told(**more: Any) -> AlertDetails:
    """The alert and what is known about it, with these differences."""
    of_told = {name: more.pop(name) for name in tuple(more) if name in AlertDetails.__dataclass_fields__}
    return replace(SEEN, alert=replace(DOWN, **more), **of_told)


MANY = [
    replace(DOWN, alert_id=f"a{number}", target=Target("worker", f"Watcher-{number:03}"), evidence=())
    for number in range(1000)
]
ALL = AlertMembers(
    1000, 1000, MANY[:15], {Condition.DOWN: 988, Condition.STALE: 12}, by_team={"archive": 700, "north & co": 300}
)
FEW = replace(ALL, holding=2, first=MANY[:2], by_condition={Condition.DOWN: 2}, by_team={"archive": 2})
DIGEST = replace(digest("s7k2m4xy", MANY, "OrionHost"), told=Condition.STORM, told_at=NOW, state=AlertState.OPEN)
STORM_OVER = replace(
    after_members(DIGEST, AlertMembers(1000, 0, cleared_at=NOW), NOW), state=AlertState.CLOSED, closed_at=NOW
)
DRIVE = {
    "target": Target("drive", "OrionHost"),
    "condition": Condition.DRIVE_UNREACHABLE,
    "evidence": (),
    "reason": "it hangs",
}


def storm(members: AlertMembers, **more: Any) -> AlertDetails:
    """The digest of many, with these differences."""
    return AlertDetails(replace(DIGEST, **more), members=members)


FOREIGN: dict[str, Any] = {
    "target": Target("alertmanager", "0a1b2c3d4e5f6789"),
    "condition": Condition.FIRING,
    "evidence": (),
    "reason": "HighErrorRate. 7.2 % of the requests to checkout fail with 5xx. Look at the dashboard",
}
FOREIGNERS = [
    replace(DOWN, **{**FOREIGN, "alert_id": f"a{number}", "reason": f"DiskFull{number}. /data on db-{number} is full"})
    for number in range(40)
]
FOREIGN_MEMBERS = AlertMembers(40, 38, FOREIGNERS[:15], {Condition.FIRING: 38}, noun="alert")

FOREIGN_DIGEST = replace(
    digest("s7k2m4xy", FOREIGNERS, "OrionHost"), state=AlertState.OPEN, told=Condition.STORM, told_at=NOW
)

OVER = {"state": AlertState.CLOSED, "closed_at": NOW, "closed_flip": 8, "due_at": None}
CASES: dict[str, Content] = {
    "with_all": alert_card(told(before=BEFORE), NOW),
    "acknowledged": alert_card(
        told(state=AlertState.ACKNOWLEDGED, acknowledged_by=OPERATOR, acknowledged_at=NOW, due_at=None), NOW
    ),
    "snoozed": alert_card(told(state=AlertState.SNOOZED, hushes=[hush(Hush.SNOOZE)]), NOW),
    "muted": alert_card(told(hushes=[hush(Hush.MUTE, "moving disks")]), NOW),
    "warning": alert_card(
        told(
            condition=Condition.DEGRADED,
            severity=Condition.DEGRADED.severity,
            reason="reports an error: no space left",
            evidence=(),
        ),
        NOW,
    ),
    "came_back": alert_card(told(occurrences=3, evidence=()), NOW),
    "passing": alert_card(told(cleared_at=NOW, evidence=()), NOW),
    "over": alert_card(
        told(**OVER, acknowledged_by=OPERATOR, acknowledged_at=NOW, ended="running, heartbeat 0 s ago"), NOW
    ),
    "over_before_it_was_told": alert_card(told(**OVER, new=True), NOW),
    "of_the_drive": alert_card(told(**DRIVE), NOW),
    "of_the_drive_and_its_workers": alert_card(told(**DRIVE, members=FEW), NOW),
    "of_the_drive_over": alert_card(told(**DRIVE, **OVER), NOW),
    "part_of_the_drives": alert_card(told(condition=Condition.STALE, parent=told(**DRIVE).alert, evidence=()), NOW),
    "storm": alert_card(storm(ALL), NOW),
    "storm_over": alert_card(AlertDetails(STORM_OVER, members=AlertMembers(1000)), NOW),
    "part_of_a_storm": alert_card(told(parent=DIGEST, link="https://t.slack.com/archives/C1/p1", evidence=()), NOW),
    "storm_still_holds": alert_reply(
        {"reason": "reminder_due", "condition": "storm", "words": DIGEST.reason}, "The storm"
    ),
    "list_with_a_storm": open_alerts(list_page([storm(ALL), SEEN, *[SEEN] * 20], 10, 0), 1001, {}, NOW, nonce="n1"),
    "from_elsewhere": alert_card(told(**FOREIGN), NOW),
    "from_elsewhere_about_a_worker": alert_card(told(**FOREIGN, names="web-1/checkout", before=BEFORE), NOW),
    "from_elsewhere_over": alert_card(told(**FOREIGN, **OVER, names="North", ended="resolved in Alertmanager"), NOW),
    "from_elsewhere_storm": alert_card(AlertDetails(FOREIGN_DIGEST, members=FOREIGN_MEMBERS), NOW),
    "hostile": alert_card(
        told(
            reason=HOSTILE,
            evidence=(HOSTILE, "```", "<https://evil.example|click>"),
            hushes=[replace(hush(Hush.MUTE, HOSTILE), by=Issuer("cli:<!here>", HOSTILE))],
            supervisor_id=HOSTILE,
        ),
        NOW,
    ),
    "worse": alert_reply({"reason": "worse", "condition": "down", "words": DOWN.reason}, "North"),
    "restarted_itself": restart_line(replace(DOWN, closed_at=NOW), 3),
    "list": open_alerts(
        list_page([SEEN, told(alert_id="b", target=Target("worker", "South"))], 10, 0),
        2,
        {"North": hush(Hush.MUTE, "disks")},
        NOW,
    ),
    "list_of_none": open_alerts(list_page([], 10, 0), 0, {}, NOW),
    "list_of_recovered": open_alerts(
        list_page([], 10, 0), 0, {}, NOW, recovered=[replace(DOWN, closed_at=DOWN.opened_at + timedelta(seconds=75))]
    ),
    "mute": mute_answer([hush(Hush.MUTE, "moving disks")], "North", NOW, said=False),
    "unmute": unmute_answer(["North"], ["North", "South"], "<@U0OPER>", NOW),
}


def names(told: AlertDetails) -> list[str]:
    return [str(each["text"]["text"]) for each in buttons(told)]


def test_the_buttons_are_those_that_make_sense() -> None:
    assert names(SEEN) == ["Acknowledge", "Restart", "Why?", "Snooze 1h"]
    assert names(told(state=AlertState.ACKNOWLEDGED, acknowledged_by=OPERATOR)) == ["Restart", "Why?", "Snooze 1h"]
    assert names(told(state=AlertState.SNOOZED)) == ["Restart", "Why?"]
    assert names(told(hushes=[hush(Hush.MUTE)])) == ["Acknowledge", "Unmute", "Restart", "Why?", "Snooze 1h"]
    assert names(told(condition=Condition.CLOCK_SKEW)) == ["Acknowledge", "Why?", "Snooze 1h"]
    assert names(told(target=Target("drive", "Host"))) == ["Acknowledge", "Snooze 1h"]


def test_the_excerpt_leaves_out_the_marks_below_a_traceback() -> None:
    lines = (
        "Traceback (most recent call last):",
        "  x = 1 / 0",
        "      ~~^~~",
        "",
        "ZeroDivisionError: division by zero",
    )
    (block,) = [each for each in blocks_of(alert_card(told(evidence=lines), NOW)) if "```" in str(each)]
    shown = block["text"]["text"].strip("`").split("\n")
    assert shown == [lines[0], lines[1], lines[4]]


def test_the_last_change_of_code_can_be_undone_from_the_alert() -> None:
    changed = Outcome.done(message="m", before="a" * 40, after="b" * 40)
    update = replace(BEFORE, handler="update_code", outcome=changed)
    assert names(told(before=update)) == ["Acknowledge", "Restart", "Undo update…", "Why?", "Snooze 1h"]
    (button,) = [each for each in buttons(told(before=update, undo_asks=True)) if each["action_id"] == "command:undo"]
    assert update.task_id in button["value"]
    assert "approval" in button["confirm"]["text"]["text"]
    undone = told(before=update, undone=True)
    assert "Undo update…" not in names(undone)
    assert "`update` by <@U0OPER>, undone" in str(alert_card(undone, NOW)["attachments"])
    unchanged = replace(update, outcome=Outcome.done(message="m", before="a" * 40, after="a" * 40))
    failed = replace(update, outcome=Outcome.failed("no"))
    for harmless in (unchanged, failed, replace(update, worker_id="South")):
        assert "Undo update…" not in names(told(before=harmless))
    assert "Undo update…" not in names(told(before=update, reason="crashed (SIGKILL) after 3 s"))


def test_a_restart_is_offered_anew_once_one_has_ended() -> None:
    (first,) = {each["value"] for each in buttons(SEEN) if each["action_id"] == "command:restart"}
    (again,) = {each["value"] for each in buttons(told(tries=1)) if each["action_id"] == "command:restart"}
    assert first != again
    assert first.startswith("alert.")


WORDS_OF_ANY_KIND = st.text(max_size=200) | st.sampled_from(
    ["`" * 4000, "&" * 5000, "<!channel>" * 900, "é\u0301" * 3000, "\n" * 4000]
)


@given(
    words=st.tuples(*[WORDS_OF_ANY_KIND] * 4),
    lines=st.lists(WORDS_OF_ANY_KIND, max_size=50),
    state=st.sampled_from(list(AlertState)),
    condition=st.sampled_from(list(Condition)),
    new=st.booleans(),
)
def test_whatever_is_in_it_slack_takes_it(
    words: tuple[str, ...], lines: list[str], state: AlertState, condition: Condition, *, new: bool
) -> None:
    reason, name, host, why = words
    by = Issuer(f"cli:{name}", name)
    seen = told(
        state=state,
        condition=condition,
        reason=reason,
        evidence=tuple(lines),
        supervisor_id=host,
        ended=why,
        new=new,
        closed_at=NOW,
        closed_flip=9,
        cleared_at=NOW,
        acknowledged_by=by,
        acknowledged_at=NOW,
        occurrences=10**9,
        hushes=[replace(hush(kind, why), by=by) for kind in Hush],
        before=replace(BEFORE, label=None, issuer=by),
        target=Target("worker", "W" * 64),
    )
    some = [replace(DOWN, target=Target("worker", f"{name}{number}")) for number in range(15)]
    many = AlertMembers(
        10**6, 10**6, some, dict.fromkeys(Condition, 10**6), by_team={f"{name}{n}": 10**6 for n in range(9)}
    )
    for other in (replace(seen, members=many, parent=seen.alert, link=""), replace(storm(many), hushes=seen.hushes)):
        assert check_message(alert_card(other, NOW), update=True) == []
    assert check_message(alert_card(seen, NOW), update=True) == []
    assert (
        check_message(open_alerts(list_page([seen] * 40, 10, 0), 40, {name: hush(Hush.MUTE, why)}, NOW), update=True)
        == []
    )
    said = {"reason": str(Reason.WORSE), "condition": str(condition), "words": reason}
    assert check_message(alert_reply(said, name), update=True) == []


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("alert", CASES)
