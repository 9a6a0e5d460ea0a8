"""Once: however often Slack delivers something or people press a button, it is one run, one card, one audit row."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.views.blocks import blocks_of
from slack_playground import Playground
from slack_playground.values import Timings
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

pytestmark = pytest.mark.playground(patience=20)

BOTH = {"operators": ["U0OPERATOR", "U0APPROVER"]}
AT_ONCE_AGAIN = Timings(redelivery=(0.0, 0.0, 0.0))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", access=BOTH) as made:
        yield made


def envelopes(slack: Playground, kind: str) -> list[dict[str, Any]]:
    """The envelopes of one kind that were sent, oldest first."""
    return [entry for entry in slack.journal("envelope") if entry["type"] == kind]


async def delivered_again(slack: Playground, envelope: dict[str, Any]) -> None:
    """What was sent once is sent again, in an envelope with an id of its own."""
    outcome = await slack.server.sockets.deliver(envelope["type"], envelope["payload"], answers=True)
    assert outcome.outcome == "acked"


async def was_done_once(home: SlackHome, slack: Playground, *actions: str) -> None:
    """Each of these was carried out once, in this order, and has one card in #ops."""
    await settled(home)
    assert [(row["action"], row["outcome"]) for row in home.trail()] == [(action, "success") for action in actions]
    assert len({row["task_id"] for row in home.trail()}) == len(actions)
    assert len(home.rows("select * from jobs_t")) == len(actions)
    cards = [message for message in slack.channel("ops").messages() if "task_" in str(blocks_of(message))]
    assert len(cards) == len(actions), slack.story()


async def test_an_envelope_that_comes_four_times_on_two_connections_is_one_command(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    await slack.disconnect("warning")
    await slack.connected(2)
    slack.fault("duplicate", "socket", times=2)
    await slack.user("operator").slash("/supervisor pause hotfix")
    await delivered_again(slack, envelopes(slack, "slash_commands")[0])
    sent = envelopes(slack, "slash_commands")
    assert (len(sent), len({each["connection"] for each in sent})) == (4, 2)
    await was_done_once(home, slack, "PAUSE")


async def test_a_command_that_comes_again_much_later_is_not_done_again(home: SlackHome, slack: Playground) -> None:
    """Under another envelope id, after another command, and after the next start of the daemon."""
    daemon = await started(home, slack)
    operator = slack.user("operator")
    await operator.slash("/supervisor pause")
    pause = envelopes(slack, "slash_commands")[0]
    await operator.slash("/supervisor resume")
    await delivered_again(slack, pause)
    await was_done_once(home, slack, "PAUSE", "RESUME")
    daemon.kill()
    await asyncio.to_thread(daemon.wait)
    await slack.connected(0)
    await started(home, slack)
    await delivered_again(slack, pause)
    await was_done_once(home, slack, "PAUSE", "RESUME")
    assert not home.worker("OrionMX")["paused"]


async def test_a_command_kept_before_a_crash_and_delivered_again_after_it_is_done_once(
    home: SlackHome, slack: Playground
) -> None:
    daemon = await started(home, slack, armed("envelope.row:after"))
    await slack.user("operator").slash("/supervisor pause", expect="operation_timeout")
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL
    await started(home, slack)
    await delivered_again(slack, envelopes(slack, "slash_commands")[0])
    await was_done_once(home, slack, "PAUSE")


@pytest.mark.playground(patience=20, timings=AT_ONCE_AGAIN)
async def test_an_event_that_is_delivered_again_is_one_command(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    slack.fault("redeliver", "socket", times=2)  # a message and a mention: two events, and both come again
    await slack.user("operator").says("@bot pause hotfix")
    await slack.eventually(lambda: len(mentions(slack)) > 1, "the mention was not delivered again")
    await was_done_once(home, slack, "PAUSE")
    assert {each["retry_attempt"] for each in mentions(slack)} == {0, 1}


def mentions(slack: Playground) -> list[dict[str, Any]]:
    return [each for each in envelopes(slack, "events_api") if each["payload"]["event"]["type"] == "app_mention"]


async def test_a_button_that_is_pressed_twice_at_once_is_one_command(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    button = (await slack.user("operator").slash("/supervisor")).button("Pause")
    await asyncio.gather(button.click(confirm=True), button.click(confirm=True))
    clicks = [each["payload"]["actions"][0] for each in envelopes(slack, "interactive")]
    assert len({click["action_ts"] for click in clicks}) == 2
    assert len({click["value"] for click in clicks}) == 1
    await was_done_once(home, slack, "PAUSE")


async def test_a_button_that_two_people_press_at_once_is_one_command(home: SlackHome, slack: Playground) -> None:
    """On an overview that was asked for by a mention in a thread, where everybody sees it."""
    await started(home, slack)
    operator, approver, ops = slack.user("operator"), slack.user("approver"), slack.channel("ops")
    begun = await approver.says("who is on call?")
    overview = await operator.says("@bot", thread=begun.said)
    button = overview.button("Pause")
    await asyncio.gather(button.click(approver, confirm=True), button.click(operator, confirm=True))
    await was_done_once(home, slack, "PAUSE")
    (row,) = home.trail()
    assert row["actor"].endswith(("/U0OPERATOR", "/U0APPROVER"))
    card = await ops.shows(1, "OrionMX paused")
    assert (await card.message())["thread_ts"] == begun.said


async def test_what_one_person_sends_within_a_moment_is_done_in_that_order(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    words = ["pause one", "resume two", "pause three", "resume four", "pause five"]
    await asyncio.gather(*(operator.slash(f"/supervisor {each}") for each in words))
    await was_done_once(home, slack, "PAUSE", "RESUME", "PAUSE", "RESUME", "PAUSE")
    assert labels(home) == ["one", "two", "three", "four", "five"]
    assert home.worker("OrionMX")["paused"]
    assert home.running_copies("OrionMX") == []


async def test_what_was_acknowledged_before_a_crash_is_done_in_the_order_in_which_it_was_sent(
    home: SlackHome, slack: Playground
) -> None:
    daemon = await started(home, slack, armed("envelope.ack:after#4"))
    slow = slack.fault("delay", "users.info", seconds=3, times=0)  # so that all are acknowledged, and none is done
    operator = slack.user("operator")
    words = ["pause one", "resume two", "pause three", "resume four"]
    await asyncio.gather(*(operator.slash(f"/supervisor {each}") for each in words))
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL
    assert home.rows("select * from jobs_t") == []
    slack.server.world.faults.clear(slow.id)
    await slack.connected(0)
    await started(home, slack)
    await was_done_once(home, slack, "PAUSE", "RESUME", "PAUSE", "RESUME")
    assert labels(home) == ["one", "two", "three", "four"]
    assert not home.worker("OrionMX")["paused"]


def labels(home: SlackHome) -> list[str]:
    return [row["label"].rpartition(" - ")[2] for row in home.trail()]


def armed(point: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.support.programs.armed", point)
