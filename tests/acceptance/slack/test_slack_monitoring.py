"""Monitoring from Slack: somebody has the supervisor rest and work again, and a team's new worker is known at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slack_playground import Playground
from tests.support.homes import Home, a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, asked, started


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home", make=SlackHome, slack={"access": ACCESS, "alert_channel": "C0OPS"}) as made:
        yield made


async def test_an_operator_has_the_supervisor_rest_and_work_again(home: Home, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    await operator.slash("/supervisor monitoring pause")
    await slack.channel("ops").shows("Monitoring is paused, also across restarts")
    await slack.channel("ops").shows("Resume it with /supervisor monitoring resume")
    assert home.status()["supervisor"]["status"] == "PAUSED"
    for words in ("/supervisor", "/supervisor status"):
        shown = await slack.user("viewer").slash(words)
        await shown.shows("Monitoring is paused: paused by ")
    page = await slack.user("viewer").opens_home()
    await page.shows("/supervisor monitoring resume")
    await operator.slash("/supervisor monitoring resume")
    await slack.channel("ops").shows("Monitoring is active again")
    assert home.status()["supervisor"]["status"] == "ACTIVE"
    await page.button("Refresh").click()
    await page.lacks("Monitoring is paused")
    rows = await asked(home, "audit")
    assert [(row["action"], row["target_type"]) for row in rows] == [("UNMUTED", "supervisor"), ("MUTED", "supervisor")]
    assert all(row["actor"].endswith("/U0OPERATOR") for row in rows)


async def test_a_worker_that_is_added_to_the_configuration_can_be_commanded_at_once(
    home: Home, slack: Playground
) -> None:
    await started(home, slack)
    document = yaml.safe_load(home.config.read_text())
    document["workers"]["Beta"] = {"command": demo_command(), "start_grace_seconds": 0.2}
    home.config.write_text(yaml.safe_dump(document, sort_keys=False))
    await home_knows(home, "Beta")
    slack.patience = 30  # the card says so once the worker has run for a while
    await slack.channel("ops").shows("Beta: added")
    card = await slack.user("operator").slash("/supervisor pause Beta")
    await card.becomes("Beta paused")


async def home_knows(home: Home, worker_id: str) -> None:
    """Wait until the daemon runs it."""
    async with asyncio.timeout(20):
        while True:
            status = await asyncio.to_thread(home.status)
            if any(each["id"] == worker_id and each["state"] == "running" for each in status["workers"]):
                return
            await asyncio.sleep(0.1)
