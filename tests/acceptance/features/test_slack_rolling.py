"""A rolling change in Slack: its card counts the workers, and operators pause, continue and abort it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.daemon.daemon_homes import SLEEPER
from tests.support.slack.slack_home import SlackHome, a_slack_home, asked, started

WORKERS = ("North", "South", "West")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path, dict.fromkeys(WORKERS, SLEEPER)) as made:
        yield made


@pytest.mark.playground(patience=20)
async def test_operators_pause_continue_and_abort_it_from_its_card(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    card = await operator.slash("/supervisor restart all --batch 1 --healthy 1d hotfix")
    await card.becomes("Restart of all: 1 of 3 done, batch 1 of 3")
    await card.shows("2 batches to go")
    await card.shows("Batch 1 must stay healthy for 1 d before the next one")
    await card.button("Pause").click(as_=viewer, confirm=True)
    await viewer.sees("limited to operators")
    await card.button("Pause").click(as_=operator, confirm=True)
    await card.becomes("Restart of all paused")
    await card.button("Continue").click(as_=operator, confirm=True)
    await card.button("Pause").click(as_=operator, confirm=True)
    await card.becomes("Restart of all paused")
    await card.button("Abort").click(as_=operator, confirm=True)
    await card.becomes("Restart of all aborted")
    await card.shows("2 not started")
    await card.button("Continue").is_gone()
    rows = await asked(home, "audit")
    decided = [(row["action"], row["actor"].rpartition("/")[2]) for row in reversed(rows) if "ROLLING" in row["action"]]
    assert decided[1:] == [
        (f"ROLLING_{action}", "U0OPERATOR") for action in ("PAUSED", "CONTINUED", "PAUSED", "ABORTED")
    ]


async def test_what_is_no_rolling_change_is_said_to_be_none(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    await operator.slash("/supervisor rolling pause task_20260205_001")
    await operator.sees("There's no rolling change 'task_20260205_001'")
