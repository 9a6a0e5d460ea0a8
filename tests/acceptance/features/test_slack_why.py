"""`why` and `history` in Slack: the cause with the buttons of its reader, and the uptime as squares."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slack_playground import Playground
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.workers.conditions import Condition
from tests.support.alerts.condition_changes import flip_to, hours
from tests.support.homes import demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, a_slack_home, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(patience=20)

DIES = "import time; print('reading'); time.sleep(0.5); raise ValueError('no such archive <!channel>')"
LIVES = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
WORKERS: dict[str, Any] = {
    "North": LIVES,
    "West": LIVES,
    "South": {
        "command": ["{python}", "-IS", "-u", "-c", DIES, "--worker-id", "{worker_id}"],
        "start_grace_seconds": 0.1,
        "heartbeat_max_age_seconds": 0,
        "restart": {"policy": "on-failure", "max_per_hour": 1, "backoff_seconds": 0},
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", WORKERS, access={**ACCESS, "viewers": ["U0VIEWER"]}) as made:
        yield made


async def test_why_names_the_cause_and_offers_what_its_reader_may_do(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    (pid,) = home.running_copies("West")
    os.kill(pid, signal.SIGSTOP)  # that it's frozen is known ten seconds later
    operator, viewer = slack.user("operator"), slack.user("viewer")
    await asyncio.to_thread(wait_until, lambda: home.worker("South")["quarantined"], 20, "it is given up")

    told = await operator.slash("/supervisor why South")
    await told.is_private()
    await told.shows("South was quarantined")
    await told.shows("ValueError: no such archive <!channel>")
    await told.shows("Recent events")
    await told.button("Restart").click(as_=operator, confirm=False)

    card = await operator.slash("/supervisor pause North the disk is moved")
    await card.becomes("North paused")
    told = await viewer.slash("/supervisor why North")
    await told.shows("North is paused by @operator since")
    await told.shows("with the label “the disk is moved”")
    await told.button("Resume").is_gone()
    told = await operator.slash("/supervisor why North")
    await told.button("Resume").click(confirm=True)
    await slack.channel("ops").shows("North resumed")
    await asyncio.to_thread(wait_until, lambda: home.worker("West")["health"] == "frozen", 20, "it is frozen")
    everybody = await operator.slash("/supervisor why all")
    await everybody.shows("2 of 3 workers need attention")
    await everybody.shows("West is frozen")
    await everybody.shows(f"kill -CONT {pid}")
    os.kill(pid, signal.SIGCONT)


async def test_history_is_a_bar_of_squares_with_the_percent(home: SlackHome, slack: Playground) -> None:
    now = datetime.now(UTC)
    with opened_ledger(load_supervisor_config(home.config)) as ledger:
        changes = hours(now, (30, Condition.WELL), (6.5, Condition.STALE), (5.5, Condition.WELL))
        flip_to(ledger, "TestHost", "North", *changes)
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    answer = await operator.slash("/supervisor history North")
    await answer.is_private()
    await answer.shows("North in the last 24 hours: healthy 95.8% of the time")
    green, red = ":large_green_square:", ":large_red_square:"
    await answer.shows(f"{green * 8}{red * 2}{green * 2} 95.8%")

    refused = await viewer.slash("/supervisor history North 7d")
    await refused.shows("history is limited to operators")
    direct = await operator.says("history all 7d", in_=operator.dm())
    await direct.shows("3 workers in the last 7 days")
    await direct.shows("North 9")
