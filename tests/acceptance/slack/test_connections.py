"""Connections to Slack: many calls share a few of them, and a stop closes them all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.slack.relay import Network
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

COMMANDS, PEOPLE = 12, 20
MOST = 6
"""The socket, and as many for calls as are ever under way together."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home") as made:
        yield made


async def test_many_calls_share_a_few_connections_which_a_stop_closes(home: SlackHome, slack: Playground) -> None:
    async with Network(slack) as network:
        daemon = await started(home, slack)
        operator = slack.user("operator")
        for _ in range(COMMANDS):
            card = await operator.says("@bot status", in_="ops")
            await card.shows("OrionMX running")
        await settled(home)
        assert len(slack.journal("api")) > COMMANDS
        assert network.connections <= MOST
        daemon.terminate()
        assert await asyncio.to_thread(daemon.wait, 30) == 0
    assert "Unclosed" not in home.whole_log()


async def test_doctor_shares_its_connections_too(tmp_path: Path, slack: Playground) -> None:
    people = [slack.user(f"u{number}").id for number in range(PEOPLE)]
    with a_slack_home(tmp_path / "home", access={"operators": people}) as home:
        async with Network(slack) as network:
            home.slack = slack.environment
            told = await asyncio.to_thread(home.supervisor, "doctor")
            assert len(slack.calls("users.info")) == PEOPLE, told.stdout
            assert network.connections < PEOPLE
    assert "Unclosed" not in told.stderr
