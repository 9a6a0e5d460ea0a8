"""`kill -9` of the daemon while an alert is escalated: more people are called, and each of them once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.homes import a_home, demo_command
from tests.support.programs.armed import armed, distinct
from tests.support.slack.slack_home import ACCESS, SlackHome, asked, settled, started

pytestmark = pytest.mark.playground(patience=20)

# The alert opens with its flip: what is decided later is its escalation, and the second post is what is said of it.
POINTS = ("alerts_t.decided:before", "alerts_t.decided:after", "message.post:before#2", "message.post:after#2")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    demo = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": {"policy": "never"}}
    other = {"command": ["sleep", "100000"], "start_grace_seconds": 0.1, "heartbeat_max_age_seconds": 0}
    settings = {
        "slack": {"enabled": True, "access": ACCESS, "alert_channel": "C0OPS"},
        "alerts": {
            "escalation": [{"after_minutes": 0.02, "to": ["U0BEN", "S0NIGHT"]}],
            "maintenance": [{"target": "Other", "cron": "0 * * * *", "minutes": 90}],
        },
    }
    with a_home(tmp_path, {"OrionMX": demo, "Other": other}, make=SlackHome, **settings) as made:
        assert isinstance(made, SlackHome)
        yield made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(POINTS))
async def test_killed_while_it_was_escalated_people_are_called_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    (other,) = [worker for worker in (await asked(home, "status"))["workers"] if worker["id"] == "Other"]
    assert other["muted_for"] == "maintenance"
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGKILL)
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await slack.channel("ops").shows("OrionMX is down")
    await slack.eventually(lambda: calls(slack) != [], "somebody was called")
    await settled(home)
    (call,) = calls(slack)
    assert call["text"].startswith(":rotating_light: <@U0BEN> <!subteam^S0NIGHT> *")
    assert call["thread_ts"]
    (alert,) = home.rows("select * from alerts_t where state != 'closed'")
    assert alert["escalated"] == 1


def calls(slack: Playground) -> list[dict[str, str]]:
    """What is said to those who are called."""
    return [each for each in slack.channel("ops").messages() if "nobody has acknowledged it" in str(each["text"])]
