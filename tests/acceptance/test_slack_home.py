"""App Home with a real daemon: fresh when opened and when something changes; its buttons open filled forms."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.playground import Playground
from tests.support.homes import ROOT, demo_command
from tests.support.slack_home import SlackHome, a_slack_home, asked, sent_by_shell, settled, started

pytestmark = pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=15)

WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
FRAGILE = {**WORKER, "restart": {"policy": "never"}}


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
    await page.shows("2 workers, all is well")
    await page.shows("South running, healthy")
    await looking.shows("North running, healthy")
    await looking.button("Restart…").is_gone()

    (pid,) = home.running_copies("South")
    os.kill(pid, signal.SIGKILL)
    await page.shows("2 workers, 1 needs a look")
    await looking.shows("2 workers, 1 needs a look")

    await page.button("Resume… South").click()
    modal = await operator.modal("Resumes a paused worker")
    await modal.shows("South")
    await modal.shows("Where its card goes: [#ops]")
    await modal.submit()
    await slack.channel("ops").shows("South: running again")
    await page.shows("2 workers, all is well")
    await page.shows("resume South: done")

    await sent_by_shell(home, "pause North")
    await page.shows("North paused")
    await page.shows("1 paused")
    await settled(home)
    rows = await asked(home, "audit")
    assert [(row["action"], row["target_id"]) for row in reversed(rows)] == [("RESUME", "South"), ("PAUSE", "North")]
    assert len(slack.calls("views.publish")) < 20
