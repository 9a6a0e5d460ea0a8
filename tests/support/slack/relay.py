"""What lies between a bot and a local Slack: a relay on loopback that can be cut, as a network is."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from slack_playground import Playground

CHUNK = 65536


class Network:
    """`async with Network(slack) as network:` all addresses that this Slack gives out lead through it meanwhile.

    Cut, accepts connections and bytes and lets nothing through in either direction: nobody is told of an end, as on
    a line that is down. Not yet up, it refuses connections.
    """

    def __init__(self, slack: Playground, *, up: bool = True) -> None:
        self._slack = slack
        self._up = up
        self._flowing = True
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.StreamWriter] = set()
        self._slacks_own = slack.server.world.base_url
        self.connections = 0
        """The number of connections so far."""

    async def __aenter__(self) -> Self:
        self._slack.server.world.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        if self._up:
            await self.comes_up()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._slack.server.world.base_url = self._slacks_own
        if self._server is not None:
            self._server.close()
        self._socket.close()
        self._sever()

    async def comes_up(self) -> None:
        """Be there for the first time."""
        self._server = await asyncio.start_server(self._relay, sock=self._socket)

    def cut(self) -> None:
        """Let nothing through from now on, and tell nobody."""
        self._flowing = False

    def mend(self) -> None:
        """Let new connections through; what was there, or was begun meanwhile, has lost bytes and is ended."""
        self._sever()
        self._flowing = True

    def _sever(self) -> None:
        for writer in list(self._pipes):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there = urlsplit(self._slacks_own)
        with self._kept(writer):
            if not self._flowing:
                await self._swallow(reader)
                return
            try:
                onward, back = await asyncio.open_connection(there.hostname, there.port)
            except OSError:
                return
            with self._kept(back):
                await asyncio.gather(self._copy(reader, back), self._copy(onward, writer))

    @contextlib.contextmanager
    def _kept(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._pipes.add(writer)
        try:
            yield
        finally:
            self._pipes.discard(writer)
            writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if not self._flowing:
                    await self._swallow(reader)
                    return
                writer.write(data)
                await writer.drain()
        if self._flowing:
            writer.close()

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(CHUNK):
                pass
