"""The bot introduces itself once in each channel: when it connects, and when it is invited."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from slack_playground import Playground
from slack_playground.testing.people import ChannelView
from tests.support.homes import ROOT, demo_command
from tests.support.slack.slack_home import a_slack_home, is_well, sent_by_shell, settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=20)

WELCOME = "posts the alerts of"
WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}


def introductions(place: ChannelView) -> list[str]:
    """The texts of all messages there."""
    return [str(each["text"]) for each in place.messages()]


async def test_the_alert_channel_is_welcomed_once_whatever_ends_the_daemon(tmp_path: Path, slack: Playground) -> None:
    ops = slack.channel("ops")
    with a_slack_home(tmp_path, {"North": WORKER}, welcome=True, alert_channel=ops.id, announce=False) as home:
        daemon = await started(home, slack)
        card = await ops.shows(1, WELCOME)
        for words in ("Five things to try", "/supervisor why North", "/invite @", "/supervisor help"):
            await card.shows(words)
        await settled(home)
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait()
        await started(home, slack)
        await slack.user("operator").slash("/supervisor status", in_="ops")
        await slack.user("operator").sees("North running")
        await settled(home)
        assert sum(WELCOME in each for each in introductions(ops)) == 1


async def test_a_new_alert_channel_is_welcomed_and_the_old_one_is_not_again(tmp_path: Path, slack: Playground) -> None:
    ops, night = slack.channel("ops"), slack.channel("night")
    with a_slack_home(tmp_path, {"North": WORKER}, welcome=True, alert_channel=ops.id, announce=False) as home:
        for place in (ops, night, ops):
            home.config.write_text(home.config.read_text().replace(night.id, ops.id).replace(ops.id, place.id))
            daemon = await started(home, slack)
            await place.shows(1, WELCOME)
            await asyncio.to_thread(home.supervisor, "daemon", "stop")
            daemon.wait()
        assert sum(WELCOME in each for each in introductions(ops)) == 1


async def test_who_invites_the_bot_is_told_what_it_is_and_nobody_else_who_joins(
    tmp_path: Path, slack: Playground
) -> None:
    ops, team = slack.channel("ops"), slack.channel("team").without_bot()
    with a_slack_home(tmp_path, {"North": WORKER}, welcome=True, alert_channel=ops.id, announce=False) as home:
        await started(home, slack)
        await ops.shows(1, WELCOME)
        team.invite()
        card = await team.shows(1, "I manage the workers on")
        await card.shows("Alerts are posted in #ops")
        team.invite(slack.user("newcomer"))
        team.without_bot().invite()
        await settled(home)
        assert len(introductions(team)) == 1


async def test_a_bot_that_was_not_in_its_alert_channel_is_welcome_there_when_it_is_invited(
    tmp_path: Path, slack: Playground
) -> None:
    ops, general = slack.channel("ops").without_bot(), slack.channel("general")
    settings = {"welcome": True, "alert_channel": ops.id, "fallback_channel": general.id, "announce": False}
    with a_slack_home(tmp_path, {"North": WORKER}, **settings) as home:
        await started(home, slack)
        await slack.user("operator").slash("/supervisor status", in_="general")
        await slack.user("operator").sees("North running", in_="general")
        assert not any(WELCOME in each for each in introductions(general))
        ops.invite()
        await ops.shows(1, WELCOME)
        await settled(home)
        assert sum(WELCOME in each for each in introductions(ops)) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["archived", "without the bot"])
async def test_an_introduction_that_has_to_wait_holds_back_no_alert(
    tmp_path: Path, slack: Playground, how: str
) -> None:
    ops, night = slack.channel("ops"), slack.channel("night")
    if how == "archived":
        ops.archive()
    else:
        ops.without_bot()
    settings = {"welcome": True, "alert_channel": ops.id, "fallback_channel": night.id, "announce": False}
    with a_slack_home(tmp_path, {"North": {**WORKER, "restart": {"policy": "never"}}}, **settings) as home:
        await started(home, slack)
        query = "select 1 from outbox_t where kind = 'welcome' and attempts > 0"
        await asyncio.to_thread(wait_until, lambda: home.rows(query), 20, "the introduction was refused")
        await is_well(home, "North")
        (pid,) = home.running_copies("North")
        os.kill(pid, signal.SIGKILL)
        card = await night.shows("North is down")
        assert home.slack_service()["health"] == "degraded"
        printed = (await asyncio.to_thread(home.supervisor, "status")).stdout
        assert f"slack.alert_channel: can't post in {ops.id}" in " ".join(printed.split())
        diagnosis = (await asyncio.to_thread(home.supervisor, "doctor")).stdout
        assert ops.id in diagnosis, diagnosis
        await slack.user("operator").slash("/supervisor status", in_="night")
        await slack.user("operator").sees(f"can't post in {ops.id}", in_="night")
        if how == "without the bot":
            ops.invite()
            await ops.shows(1, WELCOME)
            await asyncio.to_thread(
                wait_until, lambda: home.slack_service()["health"] == "healthy", 20, "the channel takes messages"
            )
        await sent_by_shell(home, "restart North")
        await card.becomes("North recovered after")


async def test_without_the_setting_the_bot_says_nothing(tmp_path: Path, slack: Playground) -> None:
    ops, team = slack.channel("ops"), slack.channel("team").without_bot()
    with a_slack_home(tmp_path, {"North": WORKER}, welcome=False, alert_channel=ops.id, announce=False) as home:
        await started(home, slack)
        team.invite()
        await slack.user("operator").slash("/supervisor status", in_="ops")
        await slack.user("operator").sees("North running")
        await settled(home)
        assert introductions(ops) == introductions(team) == []
