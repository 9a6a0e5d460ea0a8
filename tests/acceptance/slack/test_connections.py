"""Connections to Slack: many calls share a few of them, and a stop closes them all."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slack_playground import Playground
from tests.support.daemon.fleets import free_port
from tests.support.slack.relay import Network
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started
from tests.support.waiting import wait_until

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


async def test_the_metrics_count_a_connection_that_slack_replaces(tmp_path: Path, slack: Playground) -> None:
    with a_slack_home(tmp_path / "home") as home:
        document = yaml.safe_load(home.config.read_text())
        address = f"127.0.0.1:{free_port()}"
        home.config.write_text(yaml.safe_dump({**document, "metrics": {"bind": address}}))
        await started(home, slack)
        await slack.disconnect("refresh", 1)

        def counted() -> bool:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            return {"supervisor_slack_connected 1.0", "supervisor_slack_connections_total 2.0"} <= set(lines)

        await asyncio.to_thread(wait_until, counted, 20.0, "the second connection is counted")
