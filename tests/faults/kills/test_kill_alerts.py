"""`kill -9` of the daemon at every step of an alert's road: it is posted once, and ends with what is true."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.homes import demo_command
from tests.support.programs.armed import armed, distinct
from tests.support.slack.slack_home import SlackHome, a_slack_home, is_well, settled, started

pytestmark = pytest.mark.playground(patience=20)

CHANNEL = "C0OPS"

# The first transaction is that of the worker's first look, the second that of its end, the third of what was decided
# about its restart: so each of them is met.
OF_THE_FLIP = (
    "flips_t.written:before#2",
    "flips_t.written:after#2",
    "flips_t.written:before#3",
    "flips_t.written:after#3",
)
OF_THE_POST = ("message.post:before", "message.post:after", "outbox_t.sent:before", "outbox_t.sent:after")
OF_A_PERSON = (
    "envelope.ack:after",
    "alerts_t.acknowledged:before",
    "alerts_t.acknowledged:after",
    "envelopes_t.handled:before",
    "envelopes_t.handled:after",
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    worker = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": {"policy": "never"}}
    with a_slack_home(tmp_path / "home", {"OrionMX": worker}, alert_channel=CHANNEL) as made:
        yield made


async def once(home: SlackHome, slack: Playground) -> None:
    """It was posted once, whatever happened; and it is one alert, begun by one flip."""
    about = [each for each in slack.channel("ops").messages() if "OrionMX" in str(each) and not each.get("thread_ts")]
    assert len(about) == 1, slack.story()
    rows = home.rows("select * from alerts_t where decided != 'healed'")
    assert [row["condition"] for row in rows] == ["down"]
    assert len(home.rows("select * from flips_t where new = 'down'")) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(OF_THE_FLIP + OF_THE_POST))
async def test_killed_between_the_flip_and_the_post_it_is_told_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    await is_well(home, "OrionMX")
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGKILL)
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    card = await slack.channel("ops").shows("OrionMX is down")
    await settled(home)
    await once(home, slack)
    await card.button("Restart").click(as_=slack.user("operator"), confirm=True)
    await card.becomes("OrionMX recovered after")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(OF_A_PERSON))
async def test_killed_while_somebody_acknowledged_it_that_counts_once(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    await is_well(home, "OrionMX")
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGKILL)
    card = await slack.channel("ops").shows("OrionMX is down")
    await card.button("Acknowledge").click(as_=slack.user("operator"))
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    await card.becomes("Acknowledged")
    await card.becomes("@operator ·")
    await settled(home)
    await once(home, slack)
    assert [row["action"] for row in home.trail()] == ["ALERT_ACKNOWLEDGED"]
