"""App Home with a real daemon: fresh when opened, refreshed or acted on; its buttons open filled forms."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.homes import ROOT, demo_command
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

pytestmark = pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=15)

WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
FRAGILE = {**WORKER, "restart": {"policy": "never"}}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    workers = {"North": WORKER, "South": FRAGILE}
    with a_slack_home(tmp_path / "home", workers, alert_channel="C0OPS") as made:
        yield made


async def test_a_page_is_published_when_it_s_opened_refreshed_or_acted_on_and_its_buttons_open_the_forms_of_commands(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    page, other = await operator.opens_home(), await viewer.opens_home()
    await page.shows("All 2 workers running")
    await page.shows("South running")
    await other.shows("North running")
    await other.button("Restart…").is_gone()

    (pid,) = home.running_copies("South")
    os.kill(pid, signal.SIGKILL)
    await slack.channel("ops").shows("South")  # its alert
    await page.button("Refresh").click()
    await page.shows("1 of 2 workers needs attention")

    await page.button("Resume… South").click()
    modal = await operator.modal("Resume a paused worker")
    await modal.shows("South")
    await modal.shows("Post in: [#ops]")
    await modal.submit()
    await slack.channel("ops").shows("South resumed")
    await page.shows("All 2 workers running")
    await page.shows("resume South")
    await settled(home)
    assert len(slack.calls("views.publish")) == 4
    assert "resume South" not in other.text


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
    await page.button("Refresh").click()
    await slack.eventually(lambda: large.rows("select 1 from outbox_t where kind = 'home' and attempts > 0"), "tried")
    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
    await asyncio.to_thread(large.supervisor, "send", "resume North")
    slack.server.world.faults.clear()
    await started(large, slack)
    await page.shows("pause North")
    await settled(large)
    assert "W000" not in page.text, "the choice of those in trouble is kept"
