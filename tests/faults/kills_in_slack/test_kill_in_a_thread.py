"""`kill -9` of the daemon while it tells of a command in the thread of its card: each word and file is there once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slack_playground import Playground
from tests.support.programs.armed import armed, distinct
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

pytestmark = [pytest.mark.playground(patience=20), pytest.mark.sampled(of_file=1)]

OF_THE_WORD = ("message.post:before#2", "message.post:after#2", "jobs_t.done:before", "jobs_t.done:after")
"""The first post is the card's. Before the outcome is on disk, what is told is that the command was interrupted."""
OF_THE_DENIAL = ("votes_t.cast:before", "votes_t.cast:after", "message.post:before#2", "message.post:after#2")
OF_THE_FILE = ("message.upload:before", "message.upload:after")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", approvals={"required_for": ["restart"]}) as made:
        yield made


async def killed_and_started_again(home: SlackHome, slack: Playground, daemon: Any) -> None:
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await settled(home)


def thread(slack: Playground) -> list[dict[str, Any]]:
    """What stands below the only card."""
    card, *below = slack.channel("ops").messages()
    assert {each.get("thread_ts") for each in below} <= {card["ts"]}, slack.story()
    return list(below)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(OF_THE_WORD))
async def test_killed_while_it_told_who_is_concerned_they_are_told_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    card = await slack.user("operator").slash("/supervisor restart")
    await card.button("Approve").click(as_=slack.user("approver"), confirm=True)
    await killed_and_started_again(home, slack, daemon)
    (word,) = thread(slack)
    outcome = "Restart of OrionMX interrupted" if point == "jobs_t.done:before" else "OrionMX restarted"
    assert word["text"].startswith(f"<@U0OPERATOR> <@U0APPROVER> {outcome}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(OF_THE_DENIAL))
async def test_killed_while_it_told_of_a_denial_its_requester_is_told_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    operator, approver = slack.user("operator"), slack.user("approver")
    card = await operator.slash("/supervisor restart")
    await card.button("Deny").click(as_=approver)
    await (await approver.modal()).submit()
    await killed_and_started_again(home, slack, daemon)
    (word,) = thread(slack)
    assert word["text"].startswith("<@U0OPERATOR> Restart OrionMX: denied")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(OF_THE_FILE))
async def test_killed_while_it_shared_a_file_the_file_is_there_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    await slack.user("operator").slash("/supervisor diagnostics")
    await killed_and_started_again(home, slack, daemon)
    (report,) = thread(slack)
    assert [file["name"].startswith("diagnostics_OrionMX_") for file in report["files"]] == [True]
