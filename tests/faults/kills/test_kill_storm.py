"""`kill -9` of the daemon while many alerts become one: none is lost, none is told twice, and one message is left."""

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
from tests.support.slack.slack_home import ACCESS, SlackHome, settled, started

pytestmark = pytest.mark.playground(patience=20)

CHANNEL = "C0OPS"
NAMES = ("East", "North", "South", "West")

POINTS = (
    "alerts_t.storm:before",
    "alerts_t.storm:after",
    "message.post:after#2",
    "outbox_t.sent:after#2",
)
"""Within the transaction in which the digest begins; and while it is posted, after the message of the first."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    worker = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": {"policy": "never"}}
    settings = {
        "slack": {"enabled": True, "access": ACCESS, "alert_channel": CHANNEL},
        "alerts": {"storm_threshold": 3},
    }
    with a_home(tmp_path, dict.fromkeys(NAMES, worker), make=SlackHome, **settings) as made:
        assert isinstance(made, SlackHome)
        yield made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(POINTS))
async def test_killed_while_a_storm_becomes_one_message_it_is_one_and_holds_all(
    home: SlackHome, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    pids = [pid for name in NAMES for pid in home.running_copies(name)]
    os.kill(pids[0], signal.SIGKILL)
    await slack.channel("ops").shows("East is down")
    for pid in pids[1:]:
        os.kill(pid, signal.SIGKILL)
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await started(home, slack)
    digest = await slack.channel("ops").shows("4 workers have problems")
    await settled(home)
    about = [each for each in slack.channel("ops").messages() if not each.get("thread_ts")]
    assert len([each for each in about if "have problems" in each["text"]]) == 1, slack.story()
    # The first, and those that were on record before the digest, where the start after the kill took over a second.
    alone = [each for each in about if "is down" in each["text"]]
    assert len(alone) <= 3, slack.story()
    assert all("Part of" in str(each["attachments"]) for each in alone), slack.story()
    rows = home.rows("select * from alerts_t where target_type = 'worker' and decided != 'healed'")
    assert sorted(row["target_id"] for row in rows) == sorted(NAMES)
    (one,) = home.rows("select * from alerts_t where target_type = 'storm'")
    assert {row["parent_id"] for row in rows} == {one["alert_id"]}
    await digest.button("Acknowledge").click(as_=slack.user("operator"))
    await digest.becomes("Acknowledged")
    rows = home.rows("select * from alerts_t where state != 'closed'")
    assert {row["state"] for row in rows} == {"acknowledged"}
