"""App Home with a real daemon: fresh when opened and when something changes; its buttons open filled forms."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.homes import ROOT, demo_command
from tests.support.slack.slack_home import SlackHome, a_slack_home, asked, sent_by_shell, settled, started

pytestmark = pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=15)

WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
FRAGILE = {**WORKER, "restart": {"policy": "never"}}

LATE_SECONDS = 3.0
"""From a change on the host until it is on the pages of those who look."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    workers = {"North": WORKER, "South": FRAGILE}
    with a_slack_home(tmp_path / "home", workers, alert_channel="C0OPS") as made:
        yield made


async def test_a_page_follows_what_happens_on_the_host_and_its_buttons_open_the_forms_of_commands(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    page, looking = await operator.opens_home(), await viewer.opens_home()
    await page.shows("All 2 workers running")
    await page.shows("South running")
    await looking.shows("North running")
    await looking.button("Restart…").is_gone()

    (pid,) = home.running_copies("South")
    os.kill(pid, signal.SIGKILL)
    begun = time.monotonic()
    await page.shows("1 of 2 workers needs attention")
    await looking.shows("1 of 2 workers needs attention")
    assert time.monotonic() - begun < LATE_SECONDS

    await page.button("Resume… South").click()
    modal = await operator.modal("Resume a paused worker")
    await modal.shows("South")
    await modal.shows("Post in: [#ops]")
    await modal.submit()
    await slack.channel("ops").shows("South resumed")
    await page.shows("All 2 workers running")
    await page.shows("resume South")

    await sent_by_shell(home, "pause North")
    await page.shows("North paused")
    await page.shows("1 paused")
    await settled(home)
    rows = await asked(home, "audit")
    assert [(row["action"], row["target_id"]) for row in reversed(rows)] == [("RESUME", "South"), ("PAUSE", "North")]
    assert len(slack.calls("views.publish")) < 20


@pytest.fixture
def large(tmp_path: Path) -> Iterator[SlackHome]:
    many = {f"W{number:03}": {**WORKER, "enabled": False} for number in range(70)}
    workers = {**many, "North": FRAGILE}
    with a_slack_home(tmp_path / "home", workers, approvals={"required_for": ["pause"]}, channels=["C0OPS"]) as made:
        yield made


async def test_pages_are_turned_approvals_decided_and_all_of_it_outlasts_an_outage_and_a_kill(
    large: SlackHome, slack: Playground
) -> None:
    daemon = await started(large, slack)
    operator, approver = slack.user("operator"), slack.user("approver")
    page = await operator.opens_home()
    await page.shows("W000")
    await page.lacks("W069")
    await page.button("Page 2 of 2 ▶").click()
    await page.shows("W069")
    await page.lacks("W000")
    await page.menu("What to show").choose("trouble")
    await page.shows("No worker needs attention")

    await page.button("Pause…").click()
    modal = await operator.modal("nothing runs until an approver agrees")
    await modal.menu("Worker").choose("North")
    await modal.shows("Post in: [#ops]")
    await modal.submit()
    card = await slack.channel("ops").shows("Pause North?")
    theirs = await approver.opens_home()
    await theirs.shows("Needs your approval (1)")
    assert "Needs your approval" not in page.text
    await theirs.button("Decide…").click()
    vote = await approver.modal("Requested by @operator")
    await vote.fill("Your vote", "approve")
    await vote.fill("Why?", "it may rest")
    await vote.submit()
    await card.becomes("North paused")
    await theirs.lacks("Needs your approval")
    await theirs.shows("pause North")
    await settled(large)

    slack.fault("status", "views.publish", status=503, times=1000)
    await sent_by_shell(large, "resume North")
    (pid,) = large.running_copies("North")
    os.kill(pid, signal.SIGKILL)
    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
    slack.server.world.faults.clear()
    await started(large, slack)
    await page.shows("North stopped")
    await theirs.shows("1 of 71 workers needs attention")
    await settled(large)
    assert "W000" not in page.text, "the choice of those in trouble is kept"
