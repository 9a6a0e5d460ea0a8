"""Slack away, slow or refusing: nothing is lost, nothing comes twice, and what waited is told in order afterwards."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slack_playground import Playground, Timings
from tests.support.homes import ROOT
from tests.support.sampling import rounds
from tests.support.slack.relay import Network
from tests.support.slack.slack_home import SlackHome, a_slack_home, sent_by_shell, settled, started
from tests.support.waiting import wait_until

PATIENCE = 45.0
"""The bot waits up to half a minute between two tries; more, and a slow machine."""

pytestmark = [pytest.mark.playground(patience=PATIENCE), pytest.mark.timeout(240)]

OUTAGE_SECONDS = rounds(60, sample=10)
DEAF = "was disconnected from Slack"

ALERTS = "C0ALERTS"
ELSEWHERE = "C0ELSEWHERE"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    access = {"operators": ["U0OPERATOR", "S0ONCALL"]}
    with a_slack_home(tmp_path / "home", access=access, alert_channel=ALERTS, fallback_channel=ELSEWHERE) as made:
        yield made


@pytest.fixture(autouse=True)
def _channels(slack: Playground) -> None:
    """The channels that the configuration names."""
    assert slack.channel("alerts").id == ALERTS
    assert slack.channel("elsewhere").id == ELSEWHERE
    assert slack.group("oncall", slack.user("approver")) == "S0ONCALL"


def said_in(slack: Playground, channel: str) -> list[str]:
    """What all see in a channel, each message as one text, in the order in which they read it."""
    return [json.dumps(message, ensure_ascii=False) for message in slack.channel(channel).messages()]


def says_in_order(slack: Playground, channel: str, *words: str) -> None:
    """Exactly these messages, in this order, each with its words."""
    said = said_in(slack, channel)
    assert len(said) == len(words), slack.story()
    for message, expected in zip(said, words, strict=True):
        assert expected in message, slack.story()


def gaps(home: SlackHome) -> list[tuple[datetime, datetime]]:
    """From when to when nothing was heard, as the channel was told."""
    rows = home.rows("select payload_json from outbox_t where kind = 'notice' and subject like 'deaf %'")
    told = [gap for row in rows for gap in json.loads(row["payload_json"])["gaps"]]
    return [(datetime.fromisoformat(since), datetime.fromisoformat(until)) for since, until in told]


async def test_slack_unreachable_at_the_start_is_waited_for(home: SlackHome, slack: Playground) -> None:
    async with Network(slack, up=False) as network:
        for name in home.named():
            slack.user(name)
        home.slack = slack.environment
        await asyncio.to_thread(home.start_daemon)
        await sent_by_shell(home, "pause first")
        await sent_by_shell(home, "resume second")
        assert "Slack can't be reached" in home.slack_service()["reason"]
        await network.comes_up()
        await slack.connected()
        await settled(home)
        says_in_order(slack, "alerts", "first", "second")
        card = await slack.user("operator").slash("/supervisor pause")
        await card.becomes("OrionMX paused")
        assert home.slack_service()["health"] == "healthy"


@pytest.mark.sampled
async def test_a_minute_without_a_network_loses_nothing_and_tells_it_in_order(
    home: SlackHome, slack: Playground
) -> None:
    async with Network(slack) as network:
        await started(home, slack)
        operator = slack.user("operator")
        await (await operator.slash("/supervisor pause before")).becomes("OrionMX paused")
        await operator.slash("/supervisor resume acknowledged")
        filed = lambda: home.rows("select * from jobs_t where label = 'acknowledged'")  # noqa: E731
        await slack.eventually(filed, "its sender was verified before the network is cut")
        network.cut()
        since, mended_at = datetime.now(UTC), time.monotonic() + OUTAGE_SECONDS
        await operator.slash("/supervisor pause unheard", expect="operation_timeout")
        for text in ("resume first", "pause second", "resume third", "pause fourth"):
            await sent_by_shell(home, text)
        assert home.worker("OrionMX")["paused"], "the host goes on without Slack"
        await asyncio.to_thread(
            wait_until, lambda: home.slack_service()["health"] == "degraded", 30, "status says that Slack is away"
        )
        await asyncio.sleep(max(mended_at - time.monotonic(), 0))
        until = datetime.now(UTC)
        network.mend()
        await slack.channel("alerts").shows(DEAF)
        await settled(home)
    says_in_order(slack, "alerts", "first", "second", "third", "fourth", DEAF)
    assert re.search(r"\(\d+ (s|min)", said_in(slack, "alerts")[-1])
    ((told_since, told_until),) = gaps(home)
    assert abs(told_since - since) < timedelta(seconds=5)
    assert told_until > until
    says_in_order(slack, "ops", "before", "acknowledged")
    await slack.channel("ops").shows(1, "OrionMX resumed")
    labels = [row["label"].rpartition(" - ")[2] for row in home.trail()]
    assert sorted(labels) == sorted(["before", "acknowledged", "first", "second", "third", "fourth"])
    assert {row["outcome"] for row in home.trail()} == {"success"}


@pytest.mark.playground(patience=PATIENCE, timings=Timings(redelivery=(0.0, 1.0, 2.0, 3.0)))
async def test_a_frozen_connection_is_replaced_and_the_channel_hears_of_the_gap_once(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    await (await operator.slash("/supervisor pause before")).becomes("OrionMX paused")
    await slack.disconnect("freeze")
    await operator.slash("/supervisor pause unheard", expect="operation_timeout")
    await operator.says("@bot resume said meanwhile")
    await slack.connected(2)
    await slack.disconnect("thaw", 1)  # now Slack has noticed as well, and delivers the mention again
    await slack.channel("ops").shows("OrionMX resumed")
    await settled(home)
    says_in_order(slack, "ops", "before", "@U0", "said meanwhile · ")
    assert [row["action"] for row in home.trail()] == ["PAUSE", "RESUME"]
    assert len([text for text in said_in(slack, "alerts") if DEAF in text]) == len(gaps(home)) == 1


# Slack asks us to wait, or answers nothing useful for a while.


WAIT_ASKED = 2
UNDER_WAY_SECONDS = 0.3
"""What is looked up for two people at once is called before the first of them hears of the 429."""


def not_earlier_than_asked(slack: Playground, method: str, under_way: float = 0.0) -> None:
    """After each 429 the method was left alone for as long as was asked."""
    calls = slack.calls(method)
    refused = [call["at"] for call in calls if call["status"] == 429]
    assert refused, f"{method} was never refused"
    assert calls[-1]["status"] == 200, f"{method} was not tried again"
    # The journal has when a call was answered; it was made before that.
    made = [call["at"] - call["ms"] / 1000 for call in calls]
    for at in refused:
        early = [moment - at for moment in made if under_way < moment - at < WAIT_ASKED - 0.05]
        assert not early, f"{method} was called again after {early} s"


async def test_a_storm_of_429_is_waited_out_as_asked(home: SlackHome, slack: Playground) -> None:
    asked = ("users.info", "usergroups.users.list")
    await started(home, slack)
    for method in (*asked, "chat.postMessage"):
        slack.fault("ratelimited", method, retry_after=WAIT_ASKED)
    slack.fault("ratelimited", "chat.postMessage", retry_after=WAIT_ASKED, after=1)
    await slack.user("operator").slash("/supervisor pause one")
    await slack.user("approver").slash("/supervisor pause two")
    await settled(home)
    slack.fault("ratelimited", "chat.update", retry_after=WAIT_ASKED)
    await slack.user("operator").slash("/supervisor resume three")
    slack.fault("status", "response_url", status=404, times=0)  # it has run out
    slack.fault("ratelimited", "chat.postEphemeral", retry_after=WAIT_ASKED)
    await slack.user("viewer").slash("/supervisor puase")
    await settled(home)
    await slack.user("viewer").sees("Did you mean /supervisor pause")
    for method in ("chat.postMessage", "chat.update", "chat.postEphemeral"):
        not_earlier_than_asked(slack, method)
    for method in asked:
        not_earlier_than_asked(slack, method, UNDER_WAY_SECONDS)
    await slack.channel("ops").shows(2, "OrionMX was paused")
    await slack.channel("ops").shows(1, "OrionMX resumed")
    await slack.channel("ops").shows(3, "messages")
    assert [row["outcome"] for row in home.trail()] == ["success"] * 3


async def test_a_storm_of_429_at_the_start_is_waited_out_as_asked(home: SlackHome, slack: Playground) -> None:
    for method in ("auth.test", "apps.connections.open"):
        slack.fault("ratelimited", method, retry_after=WAIT_ASKED)
    await started(home, slack)
    for method in ("auth.test", "apps.connections.open"):
        not_earlier_than_asked(slack, method)


async def test_a_post_that_takes_the_place_of_a_lost_card_waits_as_asked(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    slack.fault("error", "chat.update", error="message_not_found", times=0)
    slack.fault("ratelimited", "chat.postMessage", retry_after=WAIT_ASKED, after=1)
    await slack.user("operator").slash("/supervisor pause one")
    await settled(home)
    not_earlier_than_asked(slack, "chat.postMessage")
    await slack.channel("ops").shows(1, "OrionMX paused")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["users.info", "usergroups.users.list"])
async def test_a_command_whose_sender_can_not_be_named_is_done_once_slack_names_them(
    home: SlackHome, slack: Playground, method: str
) -> None:
    await started(home, slack)
    await slack.eventually(lambda: len(slack.calls("users.info")) >= len(home.named()), "whom it names is looked up")
    slack.fault("status", method, status=503, times=2)
    card = await slack.user("approver").slash("/supervisor pause")  # an operator by their group
    await card.becomes("OrionMX paused")
    await settled(home)
    statuses = [call["status"] for call in slack.calls(method)]
    assert (statuses.count(503), statuses[-1]) == (2, 200)
    await slack.channel("ops").shows(1, "message")
    assert [(row["action"], row["outcome"]) for row in home.trail()] == [("PAUSE", "success")]


# Where the bot may not speak, and where it is not alone.


@pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=PATIENCE)
async def test_where_the_bot_is_no_member_the_card_goes_to_the_sender_with_a_hint(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    slack.channel("ops").without_bot()
    await operator.slash("/supervisor pause")
    card = await operator.dm().shows(1, "OrionMX paused")
    await card.shows("/invite @supervisor")
    await settled(home)
    await operator.dm().shows(1, "message")
    await slack.channel("ops").shows(0, "messages")
    assert len(home.trail()) == 1


@pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=PATIENCE)
async def test_what_can_not_be_announced_in_the_alert_channel_goes_to_the_fallback_channel(
    home: SlackHome, slack: Playground
) -> None:
    slack.channel("alerts").without_bot()
    await started(home, slack)
    await sent_by_shell(home, "pause by hand")
    card = await slack.channel("elsewhere").shows(1, "OrionMX paused")
    await card.shows("/invite @supervisor")
    await settled(home)
    await slack.channel("elsewhere").shows(1, "isn't a member of slack.alert_channel")
    await slack.channel("elsewhere").shows(2, "messages")
    await slack.channel("alerts").shows(0, "messages")


async def test_socket_mode_switched_off_is_said_and_not_tried_again_at_once(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    await slack.disconnect("link_disabled")
    said = lambda: "Socket Mode is turned off" in home.slack_service()["reason"]  # noqa: E731
    await asyncio.to_thread(wait_until, said, 20, "the status says why")
    assert len(slack.calls("apps.connections.open")) == 1
