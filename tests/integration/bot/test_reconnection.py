"""The link against Slacks that behave badly: it neither hangs nor hammers, says what is wrong, and lets nobody down."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound import connection
from bot.inbound import reconnection as link
from bot.inbound.connection import Connection, Envelope
from bot.inbound.reconnection import Link
from slack_playground import Playground
from supervisor_core.common.service import wait_until

Handler = Callable[[web.Request], Any]


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine and needs no local Slack, whose fixture would run it."""

    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return run


class Heard:
    """A link by itself, and what it tells."""

    def __init__(self, api_url: str, app_token: str = "xapp-1") -> None:
        self.envelopes: list[Envelope] = []
        self.gaps: list[tuple[datetime, datetime]] = []
        client = AsyncWebClient(base_url=api_url)
        self.link = Link(client, app_token, self._receive, self._deaf)
        self.stopping = asyncio.Event()

    async def _receive(self, received_on: Connection, envelope: Envelope) -> None:
        self.envelopes.append(envelope)
        await received_on.acknowledge(str(envelope["envelope_id"]))

    async def _deaf(self, since: datetime, until: datetime) -> None:
        self.gaps.append((since, until))


@asynccontextmanager
async def running(heard: Heard) -> AsyncIterator[Heard]:
    task = asyncio.create_task(heard.link.run(heard.stopping, None, lambda: None))
    try:
        yield heard
    finally:
        heard.stopping.set()
        async with asyncio.timeout(5):  # a stop never waits for Slack
            await task


@asynccontextmanager
async def a_slack(socket: Handler, opened: list[float]) -> AsyncIterator[str]:
    """A server that gives out tickets and then does with the WebSocket what `socket` does."""

    async def ticket(request: web.Request) -> web.Response:
        opened.append(asyncio.get_running_loop().time())
        return web.json_response({"ok": True, "url": f"ws://{request.host}/link?ticket=SECRET"})

    application = web.Application()
    application.router.add_post("/api/apps.connections.open", ticket)
    application.router.add_get("/link", socket)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/api/"
    finally:
        await runner.cleanup()


def greets(then: dict[str, Any] | None, connections: int = 1) -> Handler:
    """Says hello, then this, and then nothing any more."""

    async def socket(request: web.Request) -> web.WebSocketResponse:
        answer = web.WebSocketResponse()
        await answer.prepare(request)
        await answer.send_json({"type": "hello", "num_connections": connections})
        if then is not None:
            await answer.send_json(then)
        async for _ in answer:
            pass
        return answer

    return socket


def crowded(*, hello: bool) -> Handler:
    """Has too many connections, and says so after its hello or in its place."""
    full = {"type": "disconnect", "reason": "too_many_websockets"}

    async def socket(request: web.Request) -> web.WebSocketResponse:
        answer = web.WebSocketResponse()
        await answer.prepare(request)
        if hello:
            await answer.send_json({"type": "hello", "num_connections": 10})
        await answer.send_json(full)
        async for _ in answer:
            pass
        return answer

    return socket


@pytest.mark.parametrize("hello", [True, False])
@in_a_loop
async def test_with_too_many_connections_it_is_tried_soon_then_ever_more_slowly_up_to_a_minute(
    monkeypatch: pytest.MonkeyPatch, hello: bool
) -> None:
    waited: list[float] = []

    def note(seconds: float) -> None:
        if seconds >= 1:
            waited.append(seconds)

    async def in_haste(woken: Any, stopping: asyncio.Event, seconds: float | None = None) -> bool:
        return await wait_until(woken, stopping, min(seconds, 0.01) if seconds else seconds)

    async with a_slack(crowded(hello=hello), []) as url:
        heard = Heard(url)
        heard.link.alive = note
        monkeypatch.setattr(link, "BEAT_SECONDS", 0.01)
        monkeypatch.setattr(link, "wait_until", in_haste)
        async with running(heard):
            await until(lambda: len(waited) >= 9)
        assert "too many connections" in heard.link.trouble
    assert waited[:2] == [1.0, 5.0]
    for number, wait in enumerate(waited[2:9]):
        longest = min(60.0, 10.0 * 2**number)
        assert longest / 2 <= wait <= longest
    assert len(set(waited[5:9])) > 1, "they are spread"


@in_a_loop
async def test_a_hello_tells_of_connections_that_are_not_ours(caplog: pytest.LogCaptureFixture) -> None:
    for connections, said in ((1, ""), (2, "Slack counts 2 connections of this app, and 1 of them is ours")):
        async with a_slack(greets(None, connections), []) as url, running(Heard(url)) as heard:
            await until(partial(is_open, heard.link))
            assert heard.link.others.startswith(said)
            assert bool(heard.link.others) == bool(said)
            assert heard.link.trouble == "", "a connection that was cut may be counted for hours"
    assert caplog.text.count("another process may use the same token") == 1


@in_a_loop
async def test_connections_that_end_at_once_are_opened_more_and_more_slowly() -> None:
    async def closes(request: web.Request) -> web.WebSocketResponse:
        answer = web.WebSocketResponse()
        await answer.prepare(request)
        await answer.send_json({"type": "hello", "num_connections": 1})
        await answer.close()
        return answer

    opened: list[float] = []
    async with a_slack(closes, opened) as url, running(Heard(url)):
        await until(lambda: len(opened) == 5)
        pauses = [later - earlier for earlier, later in pairwise(opened)]
        assert pauses[0] < pauses[2] < pauses[3]
        assert pauses[3] > 1


@in_a_loop
async def test_a_handshake_that_hangs_is_given_up_and_said_without_the_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(connection, "HELLO_SECONDS", 0.1)
    opened: list[float] = []
    async with a_slack(hangs, opened) as url, running(Heard(url)) as heard:
        await until(lambda: len(opened) >= 2)
        assert "no response in time" in heard.link.trouble


@in_a_loop
async def test_a_stop_does_not_wait_for_a_handshake_that_hangs() -> None:
    entered = asyncio.Event()

    async def hangs(_request: web.Request) -> web.Response:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with a_slack(hangs, []) as url, running(Heard(url)):
        await entered.wait()


@in_a_loop
async def test_a_refused_handshake_is_said_without_the_ticket(caplog: pytest.LogCaptureFixture) -> None:
    async def refuses(_request: web.Request) -> web.Response:
        return web.Response(status=403)

    opened: list[float] = []
    async with a_slack(refuses, opened) as url, running(Heard(url)) as heard:
        await until(lambda: "HTTP 403" in heard.link.trouble)
        assert "SECRET" not in heard.link.trouble + caplog.text
        await until(lambda: len(opened) == 3)
        said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert said == ["Slack can't be reached: it responds with HTTP 403"], "once for as long as it lasts"


async def test_while_a_new_connection_is_awaited_the_old_one_is_heard_and_nobody_is_called_deaf(
    slack: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LINGER_SECONDS", 0.2)
    async with running(Heard(slack.api_url, slack.app_token)) as heard:
        await slack.connected()
        slack.fault("delay", "apps.connections.open", seconds=2)
        await slack.disconnect("warning")
        await slack.user("operator").slash("/supervisor one")
        await until(lambda: len(slack.journal("connection")) > 1 and bool(heard.gaps))
        assert [envelope["payload"]["text"] for envelope in heard.envelopes] == ["one"]
        ((since, until_),) = heard.gaps
        assert (until_ - since).total_seconds() < 1


def is_open(link: Link) -> bool:
    return link.connections > 0


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for what happens in the link."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (a condition of others, which has no event)
            await asyncio.sleep(0.01)
