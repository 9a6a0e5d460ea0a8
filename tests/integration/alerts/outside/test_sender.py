"""From a decision about an alert to a receiver beyond Slack: a real ledger, and whatever the receiver answers."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
import responses
from sqlalchemy import Connection

from supervisor_core.alerts.outside import transport
from supervisor_core.alerts.outside.formats import ID, SIGNATURE, TIMESTAMP, signature
from supervisor_core.alerts.outside.sender import AlertSender
from supervisor_core.common.service import Blocking
from supervisor_core.common.times import from_text, to_text
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.alerts.webhook_receiver import a_receiver
from tests.support.waiting import wait_until

GATHERED = 2.0
"""Seconds: what follows on a first alert is gathered for one, in case it is a storm."""

URL = "https://hooks.example.org/hunter2?key=hunter2"
SETTINGS: dict[str, Any] = {"webhook": {"url": URL, "secret": "hunter2"}}


@pytest.fixture
def web() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as made:
        yield made


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path, alerts=SETTINGS, slack={"enabled": False}) as made:
        made.now = datetime.now(UTC) - timedelta(seconds=5 * GATHERED)  # the service has the real clock
        made.well("North", "South")
        yield made


class Sending:
    """The service, with a clock that the test moves. Rounds are made one after the other."""

    def __init__(self, desk: AlertDesk) -> None:
        self.desk = desk
        self.time = 1000.0
        self.service = self.restart()

    def restart(self) -> AlertSender:
        """Another daemon."""
        parts = DaemonContext(open_doors(self.desk.config), self.desk.ledger)
        self.service = AlertSender(parts, Blocking(), self.desk.config.alerts.webhook, lambda: self.time)
        asyncio.run(self.service.initialise())
        return self.service

    def round(self) -> None:
        """Everything that may be sent now."""
        asyncio.run(self.service.round(asyncio.Event()))

    def later(self, seconds: float) -> None:
        """Time goes by, here and for the rows; then what is due is sent."""
        self.time += seconds
        back = timedelta(seconds=seconds)
        for outbox_id, *moments in self.rows("SELECT outbox_id, due_at, created_at FROM outbox_t"):
            moved = tuple(to_text(from_text(each) - back) for each in moments)
            self.desk.ledger.write(partial(_move, values=(*moved, outbox_id)))
        self.round()

    def rows(self, query: str) -> list[Any]:
        return list(self.desk.ledger.read(lambda c: c.exec_driver_sql(query).all()))

    def states(self) -> list[str]:
        return [state for (state,) in self.rows("SELECT state FROM outbox_t ORDER BY outbox_id")]


def _move(connection: Connection, values: tuple[Any, ...]) -> None:
    connection.exec_driver_sql("UPDATE outbox_t SET due_at = ?, created_at = ? WHERE outbox_id = ?", values)


@pytest.fixture
def sending(desk: AlertDesk) -> Sending:
    return Sending(desk)


def _body(request: requests.PreparedRequest) -> bytes:
    assert isinstance(request.body, bytes)
    return request.body


def told(web: responses.RequestsMock) -> list[str]:
    """What was sent, each try of it."""
    found = [json.loads(_body(call.request)) for call in web.calls]
    return [f"{each['target']['id']} {each['event']}" for each in found]


def test_each_thing_that_people_hear_is_sent_once_and_signed_without_any_slack(
    desk: AlertDesk, sending: Sending, web: responses.RequestsMock
) -> None:
    web.post(URL, status=204)
    desk.degraded("North")
    desk.down("North")
    desk.down("North")
    sending.round()
    desk.wait(3600)
    desk.well("North")
    sending.later(3601)
    sending.round()
    assert told(web) == ["North first", "North worse", "North reminder_due", "North resolved"]
    for call in web.calls:
        headers, body = call.request.headers, _body(call.request)
        assert headers[SIGNATURE] == signature("hunter2", str(headers[ID]), int(headers[TIMESTAMP]), body)
    assert len({call.request.headers[ID] for call in web.calls}) == 4
    assert set(sending.states()) == {"sent"}
    assert sending.service.problem() == ""


def test_what_is_kept_quiet_or_passes_by_itself_is_sent_to_nobody(
    desk: AlertDesk, sending: Sending, web: responses.RequestsMock
) -> None:
    desk.alerts.mute(["North"], 7200, desk.request(), desk.now)
    desk.down("North")
    desk.down("South", decision=None)
    desk.wait(5)
    desk.well("North", "South")
    sending.round()
    assert told(web) == []
    assert sending.states() == []


@pytest.mark.parametrize("status", [400, 401, 404, 410, 302])
def test_what_the_receiver_refuses_is_given_up_and_said_until_another_gets_through(
    desk: AlertDesk, sending: Sending, web: responses.RequestsMock, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    web.post(URL, status=status, headers={"Location": "https://elsewhere.example.org/hunter2"})
    desk.down("North")
    sending.round()
    sending.round()
    assert (told(web), sending.states()) == (["North first"], ["dropped"])
    words = f"an alert to https://hooks.example.org/… was dropped: responded {status}"
    assert sending.service.problem().startswith(words)
    assert "first of North" in sending.service.problem()
    assert words in caplog.text
    assert sending.restart().problem().startswith(words), "a restart makes nobody forget it"
    web.replace("POST", URL, status=200)
    desk.down("South")
    desk.wait(GATHERED)
    sending.round()
    assert sending.service.problem() == ""
    assert sending.restart().problem() == ""
    assert "hunter2" not in caplog.text


FAILURES: dict[str, dict[str, Any]] = {
    "responded 503 Service Unavailable": {"status": 503},
    "no response in time": {"body": requests.ReadTimeout(f"POST {URL}")},
    "unreachable": {"body": requests.ConnectionError(f"Max retries exceeded with url: {URL}")},
    "no trusted connection": {"body": requests.exceptions.SSLError(f"bad certificate of {URL}")},
    "the request failed (ChunkedEncodingError)": {"body": requests.exceptions.ChunkedEncodingError(URL)},
}


@pytest.mark.parametrize("words", FAILURES)
def test_a_receiver_that_is_away_is_tried_again_in_order_and_its_address_is_never_told(
    desk: AlertDesk,
    sending: Sending,
    web: responses.RequestsMock,
    caplog: pytest.LogCaptureFixture,
    words: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    web.post(URL, **FAILURES[words])
    desk.degraded("North")
    desk.down("North")
    sending.round()
    sending.round()
    assert told(web) == ["North first"], "what follows waits behind it, and nobody is hammered"
    assert words in sending.service.problem()
    web.replace("POST", URL, status=200)
    sending.later(1.1)
    assert told(web)[1:] == ["North first", "North worse"]
    ids = [call.request.headers[ID] for call in web.calls]
    assert ids[0] == ids[1] != ids[2], "a second try is known by its id"
    assert sending.service.problem() == ""
    assert "hunter2" not in caplog.text + str(sending.rows("SELECT last_error, payload_json FROM outbox_t"))


def test_one_that_is_never_taken_keeps_no_other_alert_waiting(
    desk: AlertDesk, sending: Sending, web: responses.RequestsMock
) -> None:
    def picky(request: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        return (500 if b'"North"' in _body(request) else 200), {}, ""

    web.add_callback("POST", URL, picky)
    desk.down("North")
    desk.down("South")
    desk.wait(GATHERED)
    sending.round()
    sending.later(1.1)
    assert told(web)[:2] == ["North first", "South first"]
    desk.well("South")
    sending.later(2.1)
    assert "South resolved" in told(web)


def test_what_nobody_takes_for_a_day_is_given_up_and_said(
    desk: AlertDesk, sending: Sending, web: responses.RequestsMock, caplog: pytest.LogCaptureFixture
) -> None:
    web.post(URL, status=502)
    desk.down("North")
    sending.round()
    for _ in range(23):
        sending.later(3600)
    assert sending.states() == ["pending"]
    sending.later(3600)
    assert sending.states() == ["dropped"]
    assert "was dropped: responded 502 Bad Gateway (first of North" in sending.service.problem()
    assert caplog.text.count("was dropped") == 1
    assert caplog.text.count("are waiting: ") == 1


def test_a_redirect_is_never_followed(desk: AlertDesk, sending: Sending, web: responses.RequestsMock) -> None:
    web.post(URL, status=308, headers={"Location": "/new"})
    new = web.post("https://hooks.example.org/new", status=200)
    desk.down("North")
    sending.round()
    assert (len(web.calls), new.call_count) == (1, 0)
    assert "responded 308 Permanent Redirect" in sending.service.problem()


def test_a_receiver_that_hangs_keeps_nobody_waiting_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real server takes the document and says nothing; a stop does not wait for it either."""
    monkeypatch.setattr(transport, "LONGEST_SECONDS", 0.2)
    with a_receiver() as receiver, an_alert_desk(tmp_path, alerts={"webhook": {"url": receiver.url}}) as desk:
        receiver.hangs.set()
        desk.now = datetime.now(UTC)
        service = AlertSender(
            DaemonContext(open_doors(desk.config), desk.ledger), Blocking(), desk.config.alerts.webhook
        )

        async def story() -> float:
            stopping = asyncio.Event()
            running = asyncio.create_task(service.run(stopping))
            await asyncio.to_thread(desk.down, "North")
            await asyncio.to_thread(wait_until, lambda: len(receiver.posts()) >= 2, 10, "it was tried again")
            assert "no complete response" in service.problem()
            begun = time.monotonic()
            stopping.set()
            await running
            return time.monotonic() - begun

        assert asyncio.run(story()) < 2.0
        assert len({each.delivery for each in receiver.posts()}) == 1
