"""Many workers in trouble at once: one message that grows and shrinks in place, and nothing is lost in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection

from bot.outbound.content import MessageComposer
from bot.outbound.delivery import Delivery
from bot.outbound.rate_limits import Pace
from bot.outbound.sender import MessageSender
from bot.views.blocks import blocks_of
from slack_playground.blockkit.messages import check_message
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.actions import AlertOver
from supervisor_core.alerts.grouping.rules import STORM
from supervisor_core.alerts.rules import LIVE, Alert, AlertState
from supervisor_core.workers.conditions import Condition, Target
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.alerts.delivery import whole_round
from tests.support.slack.counting_slack import Clock, CountingSlack

NAMES = [f"W{number}" for number in range(1, 10)]
MANY = [f"W{number}" for number in range(1000)]
HOUR = 3600.0
WINDOW = 30.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path, *NAMES) as made:
        made.well(*NAMES)
        yield made


def digests(desk: AlertDesk) -> list[Alert]:
    """Every digest there ever was."""
    ids = {each.parent_id for each in desk.all_alerts() if each.parent_id}

    def look(connection: Connection) -> list[Alert | None]:
        return [alerts.find(connection, each) for each in sorted(ids)]

    return [each for each in desk.ledger.read(look) if each is not None and each.target.kind == STORM]


def storm(desk: AlertDesk) -> Alert:
    (one,) = digests(desk)
    return one


def test_the_first_goes_out_at_once_and_those_that_follow_a_second_later(desk: AlertDesk) -> None:
    desk.down("W1")
    desk.wait(0.3)
    desk.down("W2", "W3")
    assert [line.split(":")[1] for line in desk.heard()] == [" W1 is down"]
    assert [desk.one(name).decided for name in ("W2", "W3")] == ["gathered"] * 2
    desk.wait(0.6)
    assert desk.heard() == []
    desk.wait(0.1)
    assert [line.split(":")[1] for line in desk.heard()] == [" W2 is down", " W3 is down"]
    desk.wait(1)
    desk.down("W4")
    assert len(desk.heard()) == 1, "nobody was told within the last second"


def test_messages_that_were_posted_become_members_and_say_so(desk: AlertDesk) -> None:
    for name in NAMES[:5]:
        desk.down(name)
        desk.wait(4)
    assert len(desk.heard()) == 5
    desk.down("W6")
    lines = desk.heard()
    assert [line.split(":")[0] for line in lines] == ["edit"] * 5 + ["post"]
    assert lines[-1] == "post: 6 workers have problems: 6 down"
    assert {each.parent_id for each in desk.all_alerts()} == {storm(desk).alert_id}
    assert {each.decided for each in desk.all_alerts()} == {"storm"}
    card = desk.shown("W1")
    assert f"Part of the alert for several workers `{storm(desk).alert_id}`" in str(card)
    assert [block["type"] for block in blocks_of(card)].count("actions") == 0


def test_seen_in_one_look_they_are_one_message_from_the_start_to_the_end(desk: AlertDesk) -> None:
    desk.down(*NAMES[:7])
    assert desk.heard() == ["post: 7 workers have problems: 7 down"]
    desk.wait(3)
    desk.down("W8")
    assert desk.heard() == ["edit: 8 workers have problems: 8 down"]
    desk.degraded("W1")
    assert desk.heard() == ["edit: 8 workers have problems: 7 down · 1 degraded"]
    desk.wait(57)
    desk.well(*NAMES[:5])
    assert desk.heard() == ["edit: 3 workers have problems: 3 down · 5 recovered"]
    desk.well(*NAMES)
    assert desk.heard() == ["edit: All workers recovered after 1 min"]
    assert storm(desk).state is AlertState.CLOSED
    assert {each.state for each in desk.all_alerts()} == {AlertState.CLOSED}
    desk.wait(HOUR * 3)
    assert desk.heard() == []


def test_a_digest_whose_members_are_well_takes_more_until_the_window_is_over(desk: AlertDesk) -> None:
    desk.down(*NAMES[:6])
    desk.wait(5)
    desk.well(*NAMES[:6])
    assert desk.heard()[-1] == "edit: All workers recovered after 5.0 s"
    assert (storm(desk).state, storm(desk).decided) == (AlertState.OPEN, "close_after")
    desk.wait(5)
    desk.down("W7", "W1")
    assert desk.heard() == ["edit: 2 workers have problems: 2 down · 5 recovered"]
    desk.well("W7", "W1")
    desk.wait(WINDOW)
    assert storm(desk).state is AlertState.CLOSED
    assert desk.heard()[-1] == "edit: All workers recovered after 10 s"


def test_who_acknowledges_a_digest_looks_after_all_of_them(desk: AlertDesk) -> None:
    desk.down(*NAMES)
    asked = desk.request()
    for _ in range(2):
        desk.alerts.acknowledge(storm(desk).alert_id, asked, desk.now)
    desk.work()
    assert {each.state for each in [*desk.all_alerts(), storm(desk)]} == {AlertState.ACKNOWLEDGED}
    assert {each.acknowledged_by for each in desk.all_alerts()} == {asked.by}
    assert desk.trail() == [("ALERT_ACKNOWLEDGED", storm(desk).alert_id)]
    desk.heard()
    desk.wait(HOUR * 30)
    assert desk.heard() == []
    desk.well(*NAMES)
    with pytest.raises(AlertOver):
        desk.alerts.acknowledge(storm(desk).alert_id, desk.request(), desk.now)


def test_muted_workers_are_no_part_of_a_storm_and_a_storm_at_the_end_of_a_mute_is_one_message(desk: AlertDesk) -> None:
    desk.alerts.mute(NAMES, 600, desk.request(), desk.now)
    desk.down(*NAMES)
    assert (desk.heard(), digests(desk)) == ([], [])
    desk.wait(600)
    assert desk.heard() == ["post: 9 workers have problems: 9 down"]


def test_while_slack_was_away_a_storm_that_came_and_went_is_one_line(desk: AlertDesk) -> None:
    desk.away = True
    for name in NAMES:
        desk.down(name)
        desk.wait(0.1)
    desk.wait(60)
    desk.well(*NAMES)
    desk.wait(60)
    desk.away = False
    desk.tell()
    (line,) = desk.heard()
    assert line.startswith("post: All workers recovered after 1 min 1 s")


# --- a thousand, and Slack as it bears it


def test_a_thousand_down_and_back_are_at_most_three_messages_and_nothing_is_lost(tmp_path: Path) -> None:
    with an_alert_desk(tmp_path, *MANY) as desk:
        asyncio.run(_a_thousand(desk))


async def _a_thousand(desk: AlertDesk) -> None:
    clock = Clock()
    slack = CountingSlack(clock)
    delivery = Delivery(MessageSender(desk.ledger, slack, "supervisor", pace=Pace(clock.now)), clock=clock.now)
    desk.now = datetime.now(UTC) - timedelta(hours=2)  # all of it has been: nothing waits for the real clock
    desk.away = True  # what is told, Slack's own count tells
    begun = desk.now
    desk.well(*MANY)
    for name in MANY[:3]:  # the kernel tells of the first ones by themselves
        desk.down(name)
        await _goes_by(desk, delivery, clock, 0.05)
    for start in range(3, 1000, 331):
        desk.down(*MANY[start : start + 331])
        await _goes_by(desk, delivery, clock, 0.5)
    await _goes_by(desk, delivery, clock, 20.0)
    shown = desk.alerts.shown()
    assert {each.target.id for each in shown if each.target.kind == "worker"} == set(MANY)
    (one,) = [each for each in shown if each.target.kind == STORM]
    assert {each.parent_id for each in shown if each.target.kind == "worker"} == {one.alert_id}
    assert any("1,000 workers have problems" in content["text"] for content in slack.shown.values())
    assert any("… and 985 more: `/supervisor alerts`" in str(content) for content in slack.shown.values())
    (on_a_page,) = desk.ledger.read(MessageComposer().open_alerts)
    assert (on_a_page.subject, on_a_page.condition) == ("1,000 workers", "are unhealthy")
    for start in range(0, 1000, 100):
        desk.well(*MANY[start : start + 100])
        await _goes_by(desk, delivery, clock, 1.0)
    await _goes_by(desk, delivery, clock, 60.0)
    assert slack.refused == []
    assert len(slack.shown) <= 3
    assert slack.replies == []
    for content in slack.shown.values():
        assert check_message(content, update=True) == []
        assert "recovered" in content["text"]
    assert any("All workers recovered" in content["text"] for content in slack.shown.values())
    live = desk.ledger.read(lambda connection: alerts.in_states(connection, LIVE))
    assert live == []
    closed = [desk.one(name) for name in MANY[::100]]
    assert {each.state for each in closed} == {AlertState.CLOSED}
    assert all(each.opened_at >= begun for each in closed)


async def _goes_by(desk: AlertDesk, delivery: Delivery, clock: Clock, seconds: float) -> None:
    """So long, by the desk's clock and by Slack's."""
    until, began = clock.at + seconds, (desk.now, clock.at)
    while True:
        seconds = await whole_round(delivery)
        clock.at = min(clock.at + seconds, until)
        moment = began[0] + timedelta(seconds=clock.at - began[1])
        desk.wait((moment - desk.now).total_seconds())
        if clock.at >= until:
            return


# --- what follows from the host


def drive_is(desk: AlertDesk, *, away: bool) -> None:
    """The drive was looked at."""
    words = "the drive at /mnt/nas hangs" if away else "the drive answers"
    condition = Condition.DRIVE_UNREACHABLE if away else Condition.WELL
    desk.observe(Target("drive", "TestHost"), condition, words)


def test_while_the_drive_is_away_its_silent_workers_are_one_message_and_three_of_them_open_after(
    tmp_path: Path,
) -> None:
    names = [f"W{number}" for number in range(1, 41)]
    with an_alert_desk(tmp_path, *names) as desk:
        desk.well(*names)
        drive_is(desk, away=True)
        assert desk.heard() == ["post: The drive of TestHost can't be reached: the drive at /mnt/nas hangs"]
        desk.wait(300)
        desk.stale(*names)
        assert {line.split(":")[0] for line in desk.heard()} <= {"edit"}
        assert {each.decided for each in desk.all_alerts()} == {"folded"}
        desk.down("W40")
        assert desk.heard()[-1].startswith("post: W40 is down"), "that has nothing to do with the drive"
        desk.wait(60)
        drive_is(desk, away=False)
        desk.well(*names[3:])
        desk.heard()
        desk.wait(29)
        desk.stale(*names[:3])
        assert desk.heard() == [], "they have a while to be heard again"
        desk.wait(3)
        assert [line.split(":")[1] for line in desk.heard()] == [f" {name} is stale" for name in names[:3]]
        assert {each.parent_id for name in names[:3] for each in desk.of(name)} == {None}
        closed = [desk.one(name) for name in names[3:]]
        assert {each.state for each in closed} == {AlertState.CLOSED}


def test_what_was_told_just_before_the_drive_was_given_up_becomes_part_of_it(desk: AlertDesk) -> None:
    desk.degraded("W9")
    desk.wait(HOUR / 2)
    desk.stale("W1")
    desk.wait(5)
    desk.heard()
    drive_is(desk, away=True)
    edit, post = sorted(desk.heard())
    assert edit.startswith("edit: W1 is stale")
    assert post.startswith("post: The drive of TestHost can't be reached")
    drive = desk.one("W1").parent_id
    assert desk.one("W9").parent_id is None, "it began long before"
    assert f"Part of the drive's alert `{drive}`" in str(desk.shown("W1"))
    desk.wait(10)
    drive_is(desk, away=False)
    assert desk.one("W1").parent_id is None
    assert "Part of" not in str(desk.shown("W1"))
    desk.well("W1")
    assert desk.heard()[-1].startswith("edit: W1 recovered")
