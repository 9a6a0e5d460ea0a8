"""`kill -9` of the daemon while it tells a program beyond Slack: it is told, and a second time has the same id."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.alerts.webhook_receiver import Receiver, a_receiver
from tests.support.daemon.daemon_homes import SLEEPER
from tests.support.homes import Home, a_home
from tests.support.programs.armed import armed
from tests.support.waiting import wait_until

WORKER = {**SLEEPER, "restart": {"policy": "never"}}
POINTS = {"webhook.post:before": 1, "webhook.post:after": 2, "outbox_t.sent:after": 1}
"""How often it is received."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with a_receiver() as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, receiver: Receiver) -> Iterator[Home]:
    settings: dict[str, Any] = {
        "slack": {"enabled": False},
        "alerts": {"webhook": {"url": receiver.url, "secret": "s"}},
    }
    with a_home(tmp_path / "home", {"OrionMX": WORKER}, **settings) as made:
        yield made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", POINTS)
def test_killed_around_a_document_it_is_received_and_a_second_time_has_the_same_id(
    home: Home, receiver: Receiver, point: str
) -> None:
    daemon = home.start_daemon(program=armed(point))
    os.kill(home.worker("OrionMX")["pid"], signal.SIGKILL)
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
    home.start_daemon()
    home.json("send", "restart", "--wait")
    wait_until(lambda: "resolved" in receiver.events(), 20, home.daemon_log())
    assert receiver.events() == ["first"] * POINTS[point] + ["resolved"]
    assert len({each.delivery for each in receiver.posts()}) == 2
