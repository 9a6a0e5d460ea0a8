"""`kill -9` while a schedule is added in Slack: it is there once, with one card, whatever was done before."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.programs.armed import armed
from tests.support.slack.slack_home import a_slack_home, settled, started

pytestmark = pytest.mark.playground(patience=20)


@pytest.mark.parametrize("point", ["schedules_t.added:before", "schedules_t.added:after"])
async def test_killed_while_it_was_added_it_is_added_once(tmp_path: Path, slack: Playground, point: str) -> None:
    with a_slack_home(tmp_path / "home") as home:
        daemon = await started(home, slack, armed(point))
        await slack.user("operator").slash('/supervisor schedule add nightly "daily 03:00" restart OrionMX')
        assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
        await started(home, slack)
        await slack.channel("ops").shows(1, "Schedule nightly")
        await settled(home)
        await slack.channel("ops").shows(1, "messages")
        assert [row["action"] for row in home.trail()] == ["SCHEDULE_ADDED"]
        assert len(home.rows("select name from schedules_t")) == 1
