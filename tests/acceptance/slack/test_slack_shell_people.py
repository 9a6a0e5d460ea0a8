"""One person in the shell and in Slack: nobody approves in one what they requested in the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from slack_playground.testing.cards import Card
from tests.support.homes import demo_command
from tests.support.programs.logins import logged_in_as
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

PROGRAM, ANNA = logged_in_as("daemon")
BOTH = ["U0ANNA", "U0BERT"]
WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    access = {"operators": BOTH, "approvers": BOTH, "people": {ANNA: "U0ANNA"}}
    approvals = {"required_for": ["pause"], "doors": ["slack", "cli"]}
    slack = {"access": access, "approvals": approvals, "alert_channel": "C0OPS"}
    with a_slack_home(tmp_path / "home", {"OrionMX": WORKER}, **slack) as made:
        yield made


async def as_anna(home: SlackHome, *words: str) -> tuple[int, str]:
    done = await asyncio.to_thread(home.supervisor, *words, program=PROGRAM)
    return done.returncode, done.stdout + done.stderr


async def test_a_request_from_the_shell_is_not_approved_by_the_same_person_in_slack(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    code, _ = await as_anna(home, "send", "pause hotfix")
    assert code == 0
    anna, bert = slack.user("U0ANNA"), slack.user("U0BERT")
    card = Card(slack, anna.user, slack.channel("ops").channel, "")
    await card.shows(" @bert can approve")
    await card.button("Approve").click(as_=anna, confirm=True)
    await anna.sees("You requested it")
    assert home.worker("OrionMX")["state"] == "running"
    await card.button("Approve").click(as_=bert, confirm=True)
    await card.shows("OrionMX paused")
    await settled(home)
    assert [row["actor"] for row in home.audit() if row["action"] == "PAUSE"] == [f"cli:{ANNA}"]


async def test_a_request_from_slack_is_not_approved_by_the_same_person_in_the_shell(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    card = await slack.user("U0ANNA").slash("/supervisor pause hotfix")
    await card.shows("Approval needed")
    (waiting,) = await asyncio.to_thread(home.json, "approvals")
    code, words = await as_anna(home, "approvals", "approve", waiting["approval_id"])
    assert code == 1
    assert "You requested it" in words
    assert home.worker("OrionMX")["state"] == "running"
