"""`kill -9` of the daemon at every step of a command's road in Slack: it runs once, and is told on one card."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.views.blocks import blocks_of
from slack_playground import Playground
from slack_playground.testing.cards import Card
from tests.faults.kills.test_kill_at_every_step import IN_THE_HANDLER
from tests.support.homes import ROOT, demo_command
from tests.support.programs.armed import BESIDE, armed, distinct
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.playground(patience=20), pytest.mark.sampled(of_file=4)]

TIMED_OUT = "operation_timeout"
"""What Slack tells whoever gave a command that nobody acknowledged."""

STOPS_IN_SECONDS = 0.6
"""The worker ignores TERM for so long, so that the card is posted well before the handler is done."""

# Every crash point on the road of a slash command that pauses a worker. `test_no_point_is_forgotten` holds these
# lists against what the program really passes.
NOT_KEPT = ("envelope.row:before",)
NOT_ACKNOWLEDGED = ("envelope.row:after",)
BEFORE_THE_HANDLER = (
    "envelope.ack:after",
    "command.file:before",
    "command.file:after",
    "jobs_t.claimed:before",
    "jobs_t.claimed:after",
    "jobs_t.started:before",
)
AFTER_THE_HANDLER = (
    "jobs_t.done:after",
    "result.file:before",
    "result.file:written",
    "result.file:after",
    "outbox_t.dropped:before",  # of a reply that would add nothing to the card
    "outbox_t.dropped:after",
)
# These are passed while the command goes on beside them.
BESIDE_THE_HANDLER = (
    "envelopes_t.handled:before",
    "envelopes_t.handled:after",
    "message.post:before",
    "message.post:after",
    "message.edit:before",
    "message.edit:after",
    "outbox_t.sent:before",
    "outbox_t.sent:after",
)
# What is left to do once the outcome is written: the result file, and the card's last edit.
OF_THE_OUTCOME = (
    "message.edit:before",
    "message.edit:after",
    "outbox_t.sent:before",
    "outbox_t.sent:after",
    "outbox_t.sent:before#2",
    "outbox_t.sent:after#2",
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    slow = {"command": demo_command("--misbehave", "ignore-term"), "stop_timeout_seconds": STOPS_IN_SECONDS}
    with a_slack_home(tmp_path / "home", {"OrionMX": {**slow, "start_grace_seconds": 0.2}}) as made:
        yield made


async def crash_at(home: SlackHome, slack: Playground, point: str, text: str = "pause hotfix test") -> None:
    """Start an armed daemon, give the command, and see the daemon die of it."""
    daemon = await started(home, slack, armed(point))
    kept = point not in NOT_KEPT + NOT_ACKNOWLEDGED
    await slack.user("operator").slash(f"/supervisor {text}", expect="acked" if kept else TIMED_OUT)
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()


async def told_once(home: SlackHome, slack: Playground, most_cards: int = 1) -> str:
    """Start the daemon again; the outcome as it was told, once in each place."""
    await started(home, slack)
    await settled(home)
    (row,) = home.trail()
    assert (row["action"], row["target_id"]) == ("PAUSE", "OrionMX")
    assert row["actor"].endswith("/U0OPERATOR")
    assert row["label"].endswith(" - hotfix test")
    (job,) = home.rows("select task_id, success from jobs_t")
    assert (row["task_id"], row["outcome"] == "success") == (job["task_id"], bool(job["success"]))
    result = home.result("pause", row["task_id"])
    assert result is not None
    worker = home.worker("OrionMX")
    if row["outcome"] == "success":
        assert worker["paused"]
        assert home.running_copies("OrionMX") == []
    else:
        # What it says about then is true now as well: paused or not, running or not, and never two copies.
        assert result["details"]["paused"] == worker["paused"]
        assert home.running_copies("OrionMX") == ([worker["pid"]] if worker["pid"] else [])
    said = {"success": "OrionMX paused", "interrupted": "Pause of OrionMX interrupted"}[row["outcome"]]
    await slack.channel("ops").shows(1, said)
    assert 1 <= len(slack.channel("ops").messages()) <= most_cards, slack.story()
    return str(row["outcome"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", NOT_KEPT)
async def test_killed_before_it_was_kept_its_sender_is_told_by_slack_and_nothing_happens(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await crash_at(home, slack, point)
    await started(home, slack)
    await settled(home)
    assert home.trail() == home.rows("select * from jobs_t") == slack.channel("ops").messages() == []
    assert len(home.running_copies("OrionMX")) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(NOT_ACKNOWLEDGED + BEFORE_THE_HANDLER))
async def test_killed_before_the_handler_began_it_is_run_once(home: SlackHome, slack: Playground, point: str) -> None:
    await crash_at(home, slack, point)
    assert await told_once(home, slack) == "success"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(IN_THE_HANDLER))
async def test_killed_while_the_handler_was_at_work_it_is_reported_as_interrupted(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await crash_at(home, slack, point)
    assert await told_once(home, slack) == "interrupted"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(AFTER_THE_HANDLER))
async def test_killed_after_the_outcome_was_written_it_is_told_all_the_same(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await crash_at(home, slack, point)
    assert await told_once(home, slack) == "success"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(BESIDE_THE_HANDLER))
async def test_killed_while_it_told_of_it_the_one_card_ends_with_what_is_true(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await crash_at(home, slack, point)
    assert await told_once(home, slack) in ("success", "interrupted")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(OF_THE_OUTCOME))
async def test_killed_again_while_it_told_the_outcome_it_is_still_told_on_one_card(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await crash_at(home, slack, "jobs_t.done:after")
    second = await asyncio.to_thread(home.start_daemon, program=armed(point), wait=False)
    assert await asyncio.to_thread(second.wait, 30) == -signal.SIGKILL, home.daemon_log()
    assert await told_once(home, slack) == "success"


def without_history() -> dict[str, Any]:
    """The manifest as somebody installed it who left the optional scopes out."""
    manifest: dict[str, Any] = yaml.safe_load((ROOT / "manifest.yml").read_text())
    scopes = manifest["oauth_config"]["scopes"]
    left = set(scopes.pop("bot_optional"))
    assert "channels:history" in left
    scopes["bot"] = [scope for scope in scopes["bot"] if scope not in left]
    return manifest


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["message.post:after", "outbox_t.sent:before"])
@pytest.mark.playground(manifest=without_history(), patience=20)
async def test_a_card_that_may_not_be_looked_for_is_there_twice_at_most_and_the_log_says_so(
    home: SlackHome, slack: Playground, point: str
) -> None:
    await crash_at(home, slack, point)
    await told_once(home, slack, most_cards=2)
    assert "may be posted twice" in home.whole_log()


# A mistake is answered to whoever made it, and to nobody else.

OF_A_MISTAKE = (
    "envelope.row:before",
    "envelope.row:after",
    "envelope.ack:after",
    "envelopes_t.handled:before",
    "envelopes_t.handled:after",
    "outbox_t.sent:before",
    "outbox_t.sent:after",
)
MAYBE_TOLD = ("envelopes_t.handled:after", "outbox_t.sent:before")
"""Slack may have it, and nobody can look: it is told once more rather than never."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(OF_A_MISTAKE[1:]))
async def test_whoever_made_a_mistake_is_told_after_a_crash(home: SlackHome, slack: Playground, point: str) -> None:
    await crash_at(home, slack, point, "puase")
    await started(home, slack)
    await settled(home)
    operator = slack.user("operator")
    await operator.sees("Did you mean /supervisor pause")
    times = slack.channel("ops").conversation(operator).count("Did you mean /supervisor pause")
    assert times in ((1, 2) if point in MAYBE_TOLD else (1,))
    assert slack.channel("ops").messages() == []
    assert home.trail() == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["envelopes_t.handled:before", "envelopes_t.handled:after"])
async def test_a_refusal_is_told_and_is_written_down_once(home: SlackHome, slack: Playground, point: str) -> None:
    daemon = await started(home, slack, armed(point))
    viewer = slack.user("viewer")
    await viewer.slash("/supervisor pause")
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await settled(home)
    await viewer.sees("pause is limited to operators")
    times = slack.channel("ops").conversation(viewer).count("pause is limited to operators")
    assert times in ((1, 2) if point in MAYBE_TOLD else (1,))
    assert [(row["action"], row["outcome"]) for row in home.trail()] == [("REFUSED", "failure")]
    assert len(home.running_copies("OrionMX")) == 1


# A button of the overview. Its daemon passes some points before it is pressed: while the overview is asked for.

OF_A_BUTTON = (
    "envelope.row:after#2",
    "envelope.ack:after#2",
    "command.file:before",
    "command.file:after",
    "envelopes_t.handled:before#2",
    "envelopes_t.handled:after#2",
    "jobs_t.started:before",
    "handler:after",
    "jobs_t.done:after",
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(OF_A_BUTTON))
async def test_killed_after_a_button_was_pressed_its_command_ran_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    overview = await slack.user("operator").slash("/supervisor")
    button, shown = overview.button("Pause"), await value_of_the_button(overview)
    kept = not point.startswith(NOT_ACKNOWLEDGED)
    await button.click(confirm=True, expect="acked" if kept else TIMED_OUT)
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await settled(home)
    (row,) = home.trail()
    ends = {"handler:after": ("interrupted",), "envelopes_t.handled": ("success", "interrupted")}
    assert row["action"] == "PAUSE"
    assert row["outcome"] in ends.get(point, ends.get(point.partition(":")[0], ("success",)))
    said = {"success": "OrionMX paused", "interrupted": "Pause of OrionMX interrupted"}[row["outcome"]]
    await slack.channel("ops").shows(1, said)
    assert len(slack.channel("ops").messages()) == 1
    assert await value_of_the_button(overview) != shown, "whoever pressed it was answered with a new overview"


async def value_of_the_button(overview: Card) -> str:
    """What the first button of an overview carries; another one in each overview."""
    message = await overview.message()
    return str(next(block["elements"][0]["value"] for block in blocks_of(message) if block["type"] == "actions"))


async def passed(home: SlackHome, slack: Playground, trace: Path, text: str) -> set[str]:
    """The points that a slash command passes, until nothing waits."""
    before = len(points_in(trace))
    await slack.user("operator").slash(text)
    await settled(home)
    told = lambda: "outbox_t.sent:after" in points_in(trace)[before:]  # noqa: E731
    await asyncio.to_thread(wait_until, told, 5, "the last point is passed")
    return set(points_in(trace)[before:]) - BESIDE


def points_in(trace: Path) -> list[str]:
    return trace.read_text().split()


async def test_no_point_is_forgotten(home: SlackHome, slack: Playground, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    await started(home, slack, (sys.executable, "-m", "tests.support.programs.armed", f"trace:{trace}"))
    assert await passed(home, slack, trace, "/supervisor puase") == set(OF_A_MISTAKE)
    handled = BEFORE_THE_HANDLER + IN_THE_HANDLER + AFTER_THE_HANDLER + BESIDE_THE_HANDLER
    assert await passed(home, slack, trace, "/supervisor pause hotfix test") == {
        *NOT_KEPT,
        *NOT_ACKNOWLEDGED,
        *handled,
    }
