"""A trouble of the host in Slack, with a real daemon: the drive goes away and comes back; many workers end at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.homes import a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, asked, settled, started

pytestmark = pytest.mark.playground(patience=20)

CHANNEL = "C0OPS"
NAMES = ("East", "North", "South", "West")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    worker = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": {"policy": "never"}}
    settings = {
        "supervisor": {"id": "TestHost", "state_dir": "var", "reconcile_seconds": 1},
        "slack": {"enabled": True, "access": ACCESS, "alert_channel": CHANNEL},
        "alerts": {"storm_threshold": 3, "storm_window_seconds": 5},
    }
    with a_home(tmp_path, dict.fromkeys(NAMES, worker), make=SlackHome, **settings) as made:
        assert isinstance(made, SlackHome)
        yield made


async def test_the_drive_goes_and_comes_back_and_a_storm_begins_and_ends(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator, ops = slack.user("operator"), slack.channel("ops")
    nas = home.folder / "nas"
    nas.rename(nas.with_name("elsewhere"))
    drive = await ops.shows("The drive of TestHost can't be reached")
    nas.with_name("elsewhere").rename(nas)
    await drive.becomes("The drive of TestHost recovered after")
    await drive.shows("isn't a folder")
    for pid in [pid for name in NAMES for pid in home.running_copies(name)]:
        os.kill(pid, signal.SIGKILL)
    digest = await ops.shows("4 workers have problems")
    about = [each for each in ops.messages() if "down" in each["text"] and not each.get("thread_ts")]
    assert len(about) <= 2, slack.story()
    listed = [each for each in await asked(home, "alerts") if each["target_type"] == "worker"]
    assert {each["target_id"] for each in listed} == set(NAMES)
    await digest.button("Acknowledge").click(as_=operator)
    await digest.becomes("Acknowledged")
    await digest.shows("@operator")
    await asyncio.to_thread(home.json, "send", "restart all", "--wait")
    await digest.becomes("All workers recovered after")
    await digest.shows("4 workers were unhealthy")
    await digest.button("Acknowledge").is_gone()
    await settled(home)
    assert [each for each in await asked(home, "alerts") if each["target_type"] == "worker"] == []
