"""`kill -9` of the daemon at every transition of an approval in Slack: one execution or none, the right one, on one
card, and written down."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.programs.armed import armed, distinct
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

pytestmark = [pytest.mark.playground(patience=20), pytest.mark.sampled(of_file=2)]

WHILE_ASKED = ("approvals_t.pending:before", "approvals_t.pending:after")
WHILE_VOTED = (
    "envelope.row:after#2",
    "envelope.ack:after#2",
    "votes_t.cast:before",
    "votes_t.cast:after",
    "approvals_t.executing:before",
    "approvals_t.executing:after",
    "envelopes_t.handled:before#2",
    "envelopes_t.handled:after#2",
    "jobs_t.claimed:before",
    "jobs_t.started:before",
    "jobs_t.done:after",
    "approvals_t.done:before",
    "approvals_t.done:after",
)
INTERRUPTED = ("handler:before", "handler:after")
WHILE_CANCELLED = ("approvals_t.cancelled:before", "approvals_t.cancelled:after")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", approvals={"required_for": ["restart"]}) as made:
        yield made


async def died(home: SlackHome, slack: Playground, point: str, press: str = "Approve") -> None:
    """Ask and press, and see the daemon die of it; then start it again."""
    daemon = await started(home, slack, armed(point))
    asking = point in WHILE_ASKED
    card = await slack.user("operator").slash("/supervisor restart hotfix")
    if not asking:
        who = "approver" if press == "Approve" else "operator"
        kept = not point.startswith("envelope.row")
        expect = "acked" if kept else "operation_timeout"
        await card.button(press).click(as_=slack.user(who), confirm=True, expect=expect)
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await settled(home)


def actions(home: SlackHome) -> list[tuple[str, str]]:
    return [(row["action"], row["outcome"]) for row in home.trail()]


async def shows_once(slack: Playground, text: str, words: int = 0) -> None:
    """One card, and below it so many words to those who are concerned."""
    await slack.channel("ops").shows(1 + words, text)
    assert len(slack.channel("ops").messages()) == 1 + words, slack.story()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", WHILE_ASKED)
async def test_killed_while_it_is_asked_for_it_is_asked_once(home: SlackHome, slack: Playground, point: str) -> None:
    await died(home, slack, point)
    await shows_once(slack, "Restart OrionMX?")
    assert actions(home) == [("APPROVAL_REQUESTED", "success")]
    card = await slack.channel("ops").shows("Approval needed")
    await card.button("Approve").click(as_=slack.user("approver"), confirm=True)
    await card.becomes("OrionMX restarted")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(WHILE_VOTED))
async def test_killed_between_the_vote_and_the_end_it_is_carried_out_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await died(home, slack, point)
    await shows_once(slack, "OrionMX restarted", words=1)
    expected = [("APPROVAL_REQUESTED", "success"), ("APPROVED", "success"), ("RESTART_WATCHER", "success")]
    assert actions(home) == expected
    assert [row["state"] for row in home.rows("select state from approvals_t")] == ["done"]
    assert len(home.running_copies("OrionMX")) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", INTERRUPTED)
async def test_killed_while_it_was_carried_out_it_is_interrupted_and_not_run_again(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await died(home, slack, point)
    await shows_once(slack, "Restart of OrionMX interrupted", words=1)
    assert actions(home)[-1] == ("RESTART_WATCHER", "interrupted")
    assert len(actions(home)) == 3
    assert [row["state"] for row in home.rows("select state from approvals_t")] == ["failed"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", WHILE_CANCELLED)
async def test_killed_while_it_was_cancelled_it_is_cancelled_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await died(home, slack, point, press="Cancel")
    await shows_once(slack, "Restart OrionMX: cancelled")
    assert actions(home) == [("APPROVAL_REQUESTED", "success"), ("CANCELLED", "success")]
    assert home.rows("select * from jobs_t") == []
