"""One WebSocket of Socket Mode, from its ticket to its end. It receives envelopes and reports why it ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any

from aiohttp import ClientError, ClientSession, WSMsgType
from aiohttp.client_ws import ClientWebSocketResponse

from supervisor_core.host.network import Network

PING_SECONDS = 2.0
"""Interval of pings. Slack's own Node library pings every 1.7 s."""

SILENT_SECONDS = 5.0
"""Silence after which the connection counts as dead, whatever the socket says."""

HELLO_SECONDS = 10.0
MAX_FRAME_BYTES = 8 * 1024 * 1024

log = logging.getLogger(__name__)


class ConnectionEnd(StrEnum):
    REFRESH = "refresh_requested"
    TOO_MANY = "too_many_websockets"
    DISABLED = "link_disabled"
    CUT = "cut"
    SILENT = "silent"
    CLOSED = "closed"
    """By us."""


class NotWantedError(ClientError):
    """Slack closes the connection in place of a hello."""

    def __init__(self, end: ConnectionEnd) -> None:
        super().__init__(f"Slack closed the connection at once: {end}")
        self.end = end


Envelope = dict[str, Any]
Receive = Callable[["Connection", Envelope], Coroutine[Any, Any, None]]


class Connection:
    """Open it, then `run` it. `leaving` is set when Slack says that it will close; `reason` says why."""

    def __init__(
        self, session: ClientSession, url: str, receive: Receive, receiving: set[asyncio.Task[None]], network: Network
    ) -> None:
        self._session = session
        self._url = url
        self._receive = receive
        self._receiving = receiving
        self._network = network
        self._socket: ClientWebSocketResponse | None = None
        self._heard = 0.0
        self.reason = ConnectionEnd.CUT
        """The reason for its end, from the moment that Slack announces it."""
        self.leaving = asyncio.Event()
        self.connections = 0
        """The number of the app's connections, as Slack counts them."""

    @property
    def heard_seconds_ago(self) -> float:
        """The time since the last message, in seconds."""
        return asyncio.get_running_loop().time() - self._heard

    async def open(self) -> None:
        """Connect and wait for the hello. Raise `ClientError`, `OSError` or `TimeoutError` if that fails."""
        proxy, tls = self._network.proxy(self._url), self._network.tls_for(self._url)
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                self._socket = await self._session.ws_connect(
                    self._url,
                    autoping=False,
                    heartbeat=None,
                    max_msg_size=MAX_FRAME_BYTES,
                    proxy=proxy,
                    ssl=tls or True,
                )
                hello = await self._socket.receive_json()
            if hello.get("type") == "disconnect":
                raise NotWantedError(_end_of(str(hello.get("reason"))))
            if hello.get("type") != "hello":
                raise ClientError(f"Slack said {hello.get('type')!r} instead of hello")
            self.connections = int(hello.get("num_connections") or 0)
        except (AttributeError, TypeError, ValueError):
            await self._close()
            raise ClientError("Slack sent no hello") from None
        except BaseException:
            await self._close()
            raise
        self._heard = asyncio.get_running_loop().time()

    async def run(self) -> ConnectionEnd:
        """Receive until the end, and return its reason."""
        receiving = asyncio.create_task(self._receive_all())
        pinging = asyncio.create_task(self._ping_until_silent())
        try:
            await asyncio.wait({receiving, pinging}, return_when=asyncio.FIRST_COMPLETED)
            return ConnectionEnd.SILENT if not receiving.done() else receiving.result()
        finally:
            receiving.cancel()
            pinging.cancel()
            await asyncio.gather(receiving, pinging, return_exceptions=True)
            await self._close()  # envelopes in progress are still stored, without an acknowledgement

    async def acknowledge(self, envelope_id: str, payload: dict[str, Any] | None = None) -> None:
        """Tell Slack that an envelope is stored."""
        if self._socket is None:
            raise RuntimeError("not open")
        answer = {"envelope_id": envelope_id} if payload is None else {"envelope_id": envelope_id, "payload": payload}
        await self._socket.send_str(json.dumps(answer))

    async def close(self, reason: ConnectionEnd = ConnectionEnd.CLOSED) -> None:
        self.reason = reason
        await self._close()

    async def _receive_all(self) -> ConnectionEnd:
        socket = self._socket
        assert socket is not None  # noqa: S101 (it is open)
        while True:
            message = await socket.receive()
            self._heard = asyncio.get_running_loop().time()
            if message.type is WSMsgType.TEXT:
                self._hear(message.data)
            elif message.type is WSMsgType.PING:
                with contextlib.suppress(ClientError, OSError):
                    await socket.pong(message.data)
            elif message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                return self.reason

    def _hear(self, text: str) -> None:
        try:
            frame = json.loads(text)
            kind = frame.get("type")
        except (ValueError, AttributeError):
            log.warning("Slack sent something that isn't an envelope: %.200s", text)
            return
        if kind == "disconnect":
            self._told_to_leave(str(frame.get("reason")))
        elif frame.get("envelope_id"):
            # Each in its own task: one that waits for the disk doesn't delay the next.
            task = asyncio.create_task(self._receive(self, frame))
            self._receiving.add(task)
            task.add_done_callback(self._receiving.discard)

    def _told_to_leave(self, reason: str) -> None:
        log.info("Slack is about to close the connection: %s", reason)
        self.reason = _end_of(reason)
        self.leaving.set()

    async def _ping_until_silent(self) -> None:
        """Send pings; return when nothing was received for too long."""
        socket = self._socket
        assert socket is not None  # noqa: S101 (it is open)
        while True:
            with contextlib.suppress(ClientError, OSError):
                await socket.ping()
            await asyncio.sleep(PING_SECONDS)
            if self.heard_seconds_ago > SILENT_SECONDS:
                log.warning("Slack sent nothing for %.0f s; reconnecting", self.heard_seconds_ago)
                return

    async def _close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(ClientError, OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._socket.close()


def _end_of(reason: str) -> ConnectionEnd:
    """The end that Slack's reason for a disconnect means; an unknown reason is a refresh."""
    return (
        ConnectionEnd(reason) if reason in (ConnectionEnd.TOO_MANY, ConnectionEnd.DISABLED) else ConnectionEnd.REFRESH
    )
