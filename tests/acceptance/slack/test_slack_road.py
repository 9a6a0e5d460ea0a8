"""The first road in Slack: a slash command, a stopped process, one card that keeps itself up to date, an audit row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.homes import Home, a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, asked, started


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home", make=SlackHome, slack={"access": ACCESS}) as made:
        yield made


async def test_a_slash_command_stops_a_real_worker_and_one_card_says_so(home: Home, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    card = await operator.slash("/supervisor pause hotfix test")
    await card.becomes("OrionMX paused")
    await card.shows("OrionMX paused: hotfix test")
    await slack.channel("ops").shows(1, "message")
    assert home.running_copies("OrionMX") == []
    (row,) = await asked(home, "audit")
    assert (row["action"], row["outcome"]) == ("PAUSE", "success")
    assert row["actor"].endswith("/U0OPERATOR")
    assert row["label"].endswith(" - hotfix test")


@pytest.mark.playground(patience=20)
async def test_while_it_goes_on_the_card_says_what_is_being_done_and_afterwards_what_came_of_it(
    tmp_path: Path, slack: Playground
) -> None:
    stubborn = {"command": demo_command("--misbehave", "ignore-term"), "stop_timeout_seconds": 4}
    workers = {"OrionMX": {**stubborn, "start_grace_seconds": 0.2}}
    with a_home(tmp_path / "home", workers, make=SlackHome, slack={"access": ACCESS}) as home:
        await started(home, slack)
        (old,) = home.running_copies("OrionMX")
        card = await slack.user("operator").slash("/supervisor restart")
        await card.becomes(f"stopping OrionMX (pid {old})")
        await card.shows("Restarting OrionMX")
        await card.becomes("OrionMX restarted")
        await card.lacks("stopping OrionMX")
        await slack.channel("ops").shows(1, "message")


async def test_whoever_may_not_is_told_alone_and_nothing_happens(home: Home, slack: Playground) -> None:
    await started(home, slack)
    viewer = slack.user("viewer")
    await viewer.slash("/supervisor pause")
    await viewer.sees("pause is limited to operators")
    await slack.user("operator").does_not_see("is limited to operators")
    assert len(home.running_copies("OrionMX")) == 1
    (row,) = await asked(home, "audit")
    assert (row["action"], row["outcome"]) == ("REFUSED", "failure")


async def test_mistakes_help_and_status_are_answered_to_the_asker_alone(home: Home, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    await operator.slash("/supervisor puase")
    await operator.sees("Did you mean /supervisor pause")
    await operator.slash("/supervisor status")
    await operator.sees("OrionMX running")
    viewer = slack.user("viewer")
    await viewer.slash("/supervisor help")
    await viewer.sees("status [target]")
    await viewer.does_not_see("pause [target]")
    await slack.channel("ops").shows(0, "messages")


async def test_the_same_envelope_twice_is_one_command_with_one_card(home: Home, slack: Playground) -> None:
    await started(home, slack)
    slack.fault("duplicate", "socket")
    card = await slack.user("operator").slash("/supervisor pause")
    await card.becomes("OrionMX paused")
    await slack.channel("ops").shows(1, "message")
    assert len(await asked(home, "audit")) == 1


async def test_slack_away_while_it_happens_hears_of_it_afterwards(home: Home, slack: Playground) -> None:
    await started(home, slack)
    slack.fault("status", "chat.postMessage", times=2, status=503)
    card = await slack.user("operator").slash("/supervisor pause")
    await card.becomes("OrionMX paused")
    await slack.channel("ops").shows(1, "message")


async def test_a_post_whose_answer_was_lost_is_found_again_and_not_posted_twice(home: Home, slack: Playground) -> None:
    await started(home, slack)
    slack.fault("drop_after", "chat.postMessage")
    card = await slack.user("operator").slash("/supervisor pause")
    await card.becomes("OrionMX paused")
    await slack.channel("ops").shows(1, "message")


async def test_a_card_that_somebody_deleted_is_posted_anew(home: Home, slack: Playground) -> None:
    await started(home, slack)
    slack.fault("error", "chat.update", error="message_not_found")
    await slack.user("operator").slash("/supervisor pause")
    await slack.channel("ops").shows("OrionMX paused")
