"""`kill -9` of the daemon while a form is opened and sent: what was taken is done once, the rest can be sent again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.views.forms import SHORTCUT
from slack_playground import Playground
from slack_playground.testing.cards import Modal
from tests.support.homes import demo_command
from tests.support.programs.armed import armed
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

pytestmark = [pytest.mark.playground(patience=20), pytest.mark.sampled(of_file=2)]

TIMED_OUT = "operation_timeout"
"""What Slack knows of a submission that nobody acknowledged; its form stays open, and can be sent again."""

SHORTCUT_IS, CHOICE_IS, SUBMISSION_IS = "", "#2", "#3"
"""Which envelope of its daemon each is."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", {"OrionMX": {"command": demo_command(), "start_grace_seconds": 0.2}}) as made:
        yield made


async def form_of_pause(slack: Playground) -> Modal:
    operator = slack.user("operator")
    await operator.shortcut(SHORTCUT, in_="ops")
    modal: Modal = await operator.modal("Choose a command")
    await modal.menu("Choose a command").choose("Pause")
    await modal.becomes("Stop a worker and keep it stopped")
    await modal.fill("Label", "hotfix test")
    return modal


async def paused_once(home: SlackHome, slack: Playground) -> None:
    await settled(home)
    (row,) = home.trail()
    assert (row["action"], row["outcome"]) == ("PAUSE", "success")
    assert row["label"].endswith(" - hotfix test")
    await slack.channel("ops").shows(1, "OrionMX paused")
    assert len(slack.channel("ops").messages()) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["envelope.row:before", "envelope.row:after"])
async def test_killed_before_it_was_acknowledged_it_can_be_sent_again_and_is_one_command(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point + SUBMISSION_IS))
    modal = await form_of_pause(slack)
    await modal.submit(expect=TIMED_OUT)
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await settled(home)
    assert len(home.trail()) == (1 if point.endswith("after") else 0)
    await modal.submit()
    await modal.is_closed()
    await paused_once(home, slack)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "point",
    ["envelope.ack:after", "command.file:before", "command.file:after", "envelopes_t.handled:before"],
)
async def test_killed_after_it_was_acknowledged_it_is_done_once(home: SlackHome, slack: Playground, point: str) -> None:
    its = "" if point.startswith("command") else SUBMISSION_IS
    daemon = await started(home, slack, armed(point + its))
    modal = await form_of_pause(slack)
    await modal.submit()
    await modal.is_closed()
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await paused_once(home, slack)


async def test_killed_before_the_form_was_opened_whoever_wanted_it_is_told_once_slack_opens_it_no_more(
    home: SlackHome, slack: Playground
) -> None:
    daemon = await started(home, slack, armed("envelope.ack:after" + SHORTCUT_IS))
    operator = slack.user("operator")
    await operator.shortcut(SHORTCUT, in_="ops")
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    slack.advance(10)
    await started(home, slack)
    await operator.dm().shows("The form couldn't be opened")
    await settled(home)
    assert "expired_trigger_id" in home.whole_log()
    await operator.has_no_modal()


async def test_killed_before_the_choice_was_shown_the_form_comes_after_all(home: SlackHome, slack: Playground) -> None:
    daemon = await started(home, slack, armed("envelope.ack:after" + CHOICE_IS))
    operator = slack.user("operator")
    await operator.shortcut(SHORTCUT, in_="ops")
    modal = await operator.modal("Choose a command")
    await modal.menu("Choose a command").choose("Pause")
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await modal.becomes("Stop a worker and keep it stopped")
