"""A restart cut off by `kill -9` of the daemon is one story: its card, and an alert only if the worker stays down."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.views.blocks import blocks_of
from slack_playground import Playground
from tests.support.homes import demo_command
from tests.support.programs.armed import armed
from tests.support.slack.slack_home import SlackHome, a_slack_home, is_well, settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(patience=20)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", {"OrionMX": worker()}, alert_channel="C0OPS") as made:
        yield made


@pytest.fixture
def slow_home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", {"OrionMX": worker("--misbehave", "ignore-term")}) as made:
        yield made


def worker(*options: str) -> dict[str, Any]:
    settings = {"start_grace_seconds": 0.2, "stop_timeout_seconds": 2, "restart": {"policy": "never"}}
    return {"command": demo_command(*options), **settings}


async def cut_off(home: SlackHome, slack: Playground, point: str) -> int:
    """The daemon dies of a restart at this point; the old worker's PID."""
    later = "#2" if point.startswith("worker.start") else ""
    daemon = await started(home, slack, armed(point + later))
    (old,) = home.running_copies("OrionMX")
    await slack.user("operator").slash("/supervisor restart hangs")
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL
    return old


async def told(home: SlackHome, slack: Playground) -> list[str]:
    """What the channel says once another daemon runs and all is told."""
    await started(home, slack)
    await settled(home)
    return said(slack)


def said(slack: Playground) -> list[str]:
    return [str(each["text"]) + str(blocks_of(each)) for each in slack.channel("ops").messages()]


def runs(home: SlackHome) -> bool:
    return len(home.running_copies("OrionMX")) == 1 and home.worker("OrionMX")["health"] == "healthy"


SAID = {
    "worker.stop:before": "is running (pid {old})",
    "worker.stop:after": "OrionMX is stopped. It restarts automatically.",
    "worker.start:after": "is running (pid {new})",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", SAID)
async def test_a_restart_cut_off_is_told_on_its_card_alone(home: SlackHome, slack: Playground, point: str) -> None:
    old = await cut_off(home, slack, point)
    (card,) = await told(home, slack)
    await asyncio.to_thread(wait_until, lambda: runs(home), 20, "the worker runs")
    (new,) = home.running_copies("OrionMX")
    assert ":x: *Restart of OrionMX interrupted*: The supervisor stopped while this was running" in card
    assert SAID[point].format(old=old, new=new) in card
    await is_well(home, "OrionMX")
    assert home.rows("select * from alerts_t") == []
    assert [row["new"] for row in home.rows("select new from flips_t where target_type = 'worker'")] == ["well"]


async def test_no_process_that_was_told_to_stop_is_said_to_run(slow_home: SlackHome, slack: Playground) -> None:
    home = slow_home
    daemon = await started(home, slack)
    (old,) = home.running_copies("OrionMX")
    await slack.user("operator").slash("/supervisor restart hangs")
    record = home.state_dir / "workers" / "OrionMX.json"
    await asyncio.to_thread(wait_until, lambda: '"what": "stop"' in record.read_text(), 10, "its stop is ordered")
    daemon.kill()
    await asyncio.to_thread(daemon.wait)
    (card,) = await told(home, slack)
    assert ":x: *Restart of OrionMX interrupted*: The supervisor stopped while this was running" in card
    assert f"OrionMX is still stopping (pid {old})." in card
    assert "It restarts automatically once it has exited." in card
    assert home.rows("select * from alerts_t") == []


async def test_a_worker_that_stays_down_after_it_has_one_alert_beside_the_card(
    home: SlackHome, slack: Playground
) -> None:
    await cut_off(home, slack, "worker.stop:after")
    home.config.write_text(home.config.read_text().replace("supervisor_core.demo.worker", "no_such_module"))
    await started(home, slack)
    await slack.channel("ops").shows("OrionMX is down")
    await settled(home)
    card, alert = said(slack)
    assert ":x: *Restart of OrionMX interrupted*: The supervisor stopped while this was running" in card
    assert "OrionMX is down" in alert
    assert len(home.rows("select * from alerts_t")) == 1
