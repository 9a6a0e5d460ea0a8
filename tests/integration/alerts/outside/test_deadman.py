"""The dead-man's switch: somebody outside is pinged while this daemon does its work, and only then."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
import responses

from supervisor_core.alerts.outside import deadman as module
from supervisor_core.alerts.outside.deadman import DeadMan, why_silent
from supervisor_core.common.service import ServiceReport, ServiceState
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.alerts.webhook_receiver import a_receiver
from tests.support.waiting import wait_until

URL = "https://hc.example.org/hunter2"


@pytest.fixture
def web() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as made:
        yield made


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path, alerts={"deadman_url": URL}) as made:
        yield made


class Switch:
    """The service, and what keeps the daemon from its work."""

    def __init__(self, desk: AlertDesk) -> None:
        self.broken = ""
        self.service = DeadMan(DaemonContext(open_doors(desk.config), desk.ledger), lambda: self.broken)

    def beat(self) -> bool:
        """One look, and one ping where all is well."""
        return asyncio.run(self.service.beat())


def test_it_pings_while_the_daemon_works_whatever_alerts_are_open(
    desk: AlertDesk, web: responses.RequestsMock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = web.get(URL, status=200)
    switch = Switch(desk)
    desk.down("North")
    assert switch.beat()
    assert switch.beat()
    assert (answer.call_count, switch.service.problem()) == (2, "")
    switch.broken = "no round has ended for 300 s"
    assert not switch.beat()
    assert not switch.beat()
    assert answer.call_count == 2
    assert switch.service.problem() == "pings to https://hc.example.org/… are stopped: no round has ended for 300 s"
    assert caplog.text.count("are stopped: no round has ended for 300 s") == 1
    switch.broken = ""
    assert switch.beat()
    assert (answer.call_count, switch.service.problem()) == (3, "")
    assert "are resumed" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 404}, "responded 404 Not Found"),
        ({"status": 500}, "responded 500 Internal Server Error"),
        ({"body": requests.ConnectionError(f"url: {URL}")}, "unreachable"),
        ({"status": 302, "headers": {"Location": "https://login.example.org/"}}, "responded 302 Found"),
    ],
)
def test_a_ping_that_does_not_get_through_is_said_once_and_tried_again(
    desk: AlertDesk,
    web: responses.RequestsMock,
    caplog: pytest.LogCaptureFixture,
    answer: dict[str, Any],
    words: str,
) -> None:
    caplog.set_level(logging.INFO)
    web.get(URL, **answer)
    switch = Switch(desk)
    for _ in range(3):
        assert not switch.beat()
    said = f"the ping to https://hc.example.org/… failed: {words}"
    assert switch.service.problem() == said
    assert caplog.text.count(said) == 1
    web.replace("GET", URL, status=204)
    assert switch.beat()
    assert switch.service.problem() == ""
    assert "succeed again" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_daemon_that_does_not_look_after_its_workers_or_tells_nobody_is_not_well() -> None:
    failed = ServiceReport("scheduler", ServiceState.ERROR, last_error="it failed")
    others = [
        ServiceReport("slack", ServiceState.ERROR, last_error="away"),
        ServiceReport("scheduler", ServiceState.RUNNING),
    ]
    hangs = "alerts: unresponsive for 130 s, since 05:06:10 UTC"
    late = ServiceReport("scheduler", ServiceState.RUNNING, health="degraded", reason=hangs, late=True)
    assert why_silent("", others) == "", "a Slack that is away is no reason"
    assert why_silent("reconciler: hangs", [failed]) == "reconciler: hangs; scheduler: it failed"
    assert why_silent("", [late]) == f"scheduler: {hangs}"


def test_a_ledger_that_takes_no_row_ends_the_pings(
    desk: AlertDesk, web: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEDGER_SECONDS", 0.2)
    answer = web.get(URL, status=200)
    switch = Switch(desk)
    assert switch.beat()
    with closing(sqlite3.connect(desk.folder / "var" / LEDGER_FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not switch.beat()
        assert "a write to the ledger took longer than" in switch.service.problem()
        other.execute("ROLLBACK")
    wait_until(switch.beat, 10, "the ledger takes rows again")
    assert answer.call_count == 2


def test_it_pings_at_once_and_again_and_ends_with_the_daemon_though_the_other_side_hangs(tmp_path: Path) -> None:
    with a_receiver() as receiver, an_alert_desk(tmp_path, alerts={"deadman_url": receiver.url}) as desk:
        service = DeadMan(DaemonContext(open_doors(desk.config), desk.ledger), lambda: "", every=0.05)

        async def story() -> None:
            stopping = asyncio.Event()
            running = asyncio.create_task(service.run(stopping))
            await asyncio.to_thread(wait_until, lambda: len(receiver.pings()) >= 3, 10, "pings")
            receiver.hangs.set()
            seen = len(receiver.pings())
            await asyncio.to_thread(wait_until, lambda: len(receiver.pings()) > seen, 10, "one that hangs")
            stopping.set()
            await asyncio.wait_for(running, 5)

        asyncio.run(story())
