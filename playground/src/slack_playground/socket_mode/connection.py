"""One WebSocket of Socket Mode: hello, pings both ways, its end announced or not, and freezing as a dead line does."""

from __future__ import annotations

import asyncio
import time

from aiohttp import WSMessage, web

from slack_playground.values import Json
from slack_playground.world.world import World


class Connection:
    """One connection. While it is frozen nothing goes in or out, and nobody is told."""

    def __init__(self, number: int, socket: web.WebSocketResponse, request: web.Request, world: World) -> None:
        self.number = number
        self.last_pong = time.monotonic()
        self._socket, self._request, self._world = socket, request, world
        self._lasts = world.timings.connection
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def hello(self, connections: int) -> None:
        debug: Json = {"host": "playground", "started": time.strftime("%Y-%m-%d %H:%M:%S.000", time.gmtime())}
        debug |= {"build_number": 1, "approximate_connection_time": int(self._lasts)}
        await self.send(
            {"type": "hello", "num_connections": connections, "debug_info": debug}
            | {"connection_info": {"app_id": self._world.app.app_id}}
        )
        self._note("hello")

    async def keep_up(self) -> None:
        """Ping until the end of this connection's time; say so before, and close it then."""
        timings = self._world.timings
        end = time.monotonic() + self._lasts
        warned = False
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(timings.ping, left if warned else max(left - timings.warning, 0)))
            if not warned and end - time.monotonic() <= timings.warning:
                warned = True
                await self.disconnect("warning")
            if self._flowing.is_set():
                if time.monotonic() - self.last_pong > timings.pong_patience:
                    self.drop()
                    return
                await self._socket.ping(b"playground")
        await self.disconnect("refresh_requested")
        await self.close()

    async def receive(self) -> WSMessage:
        """The next frame, when the line flows."""
        message = await self._socket.receive()
        await self._flowing.wait()
        return message

    async def send(self, words: Json) -> None:
        """Send a frame; into a frozen or dead line it goes unnoticed."""
        if self._flowing.is_set() and not self._socket.closed:
            try:
                await self._socket.send_json(words)
            except ConnectionError:
                self._note("broken")

    async def pong(self, data: bytes) -> None:
        if not self._socket.closed:
            await self._socket.pong(data)

    async def disconnect(self, reason: str) -> None:
        self._note("disconnect", reason)
        await self.send({"type": "disconnect", "reason": reason, "debug_info": {"host": "playground"}})

    async def close(self) -> None:
        """End it with a close frame, not waiting for the other side's."""
        if not self._socket.closed:
            await self._socket.close(drain=True)

    def drop(self) -> None:
        """End it without a word, as a network does."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def freeze(self, *, on: bool) -> None:
        """Let nothing through, or let it flow again."""
        if on:
            self._note("frozen")
            self._flowing.clear()
        else:
            self._flowing.set()

    def _note(self, event: str, reason: str = "") -> None:
        self._world.journal.write("connection", connection=self.number, event=event, reason=reason)
