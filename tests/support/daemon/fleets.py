"""Fleets for tests: a real nats-server, a hub and hosts with keys of their own, and a client that speaks raw NATS."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import nkeys

from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.server import (
    CA,
    NatsServer,
    make_certificates,
    write_accounts,
    write_server,
)
from supervisor_core.fleet.transport.streams import prepare_host, prepare_stream
from supervisor_core.fleet.transport.subjects import HUB_INBOX, host_inbox

PATIENCE = 10.0


class NatsFleet:
    """A server, and the keys of a hub, of hosts and of invites."""

    def __init__(self, folder: Path, hosts: Sequence[str] = (), invites: Sequence[str] = (), *, tls: bool = False):
        self.folder = folder
        self.tls = tls
        self.port = free_port()
        self.hub_keys = KeyPair.new()
        self.hosts = {name: KeyPair.new() for name in hosts}
        self.invites = {name: KeyPair.new() for name in invites}
        self.server = NatsServer(folder)
        write_server(folder, f"127.0.0.1:{self.port}", tls=tls)
        if tls:
            make_certificates(folder, "127.0.0.1")
        self.write_accounts()

    @property
    def url(self) -> str:
        return f"{'tls' if self.tls else 'nats'}://127.0.0.1:{self.port}"

    def write_accounts(self) -> None:
        hosts = {name: keys.public_key for name, keys in self.hosts.items()}
        invites = {name: keys.public_key for name, keys in self.invites.items()}
        write_accounts(self.folder, self.hub_keys.public_key, hosts, invites)

    @asynccontextmanager
    async def connected(self, keys: KeyPair, inbox: str) -> AsyncIterator[FleetConnection]:
        ca = self.folder / CA if self.tls else None
        async with FleetConnection(self.url, keys, name="test", inbox=inbox, ca=ca) as connection:
            await connection.wait_connected(PATIENCE)
            yield connection

    @asynccontextmanager
    async def hub(self) -> AsyncIterator[FleetConnection]:
        async with self.connected(self.hub_keys, HUB_INBOX) as connection:
            yield connection

    @asynccontextmanager
    async def host(self, name: str) -> AsyncIterator[FleetConnection]:
        async with self.connected(self.hosts[name], host_inbox(name)) as connection:
            yield connection

    async def prepare(self) -> None:
        async with self.hub() as hub:
            await prepare_stream(hub)
            for name in self.hosts:
                await prepare_host(hub, name)


@contextmanager
def a_fleet(
    folder: Path, hosts: Sequence[str] = (), invites: Sequence[str] = (), *, tls: bool = False
) -> Iterator[NatsFleet]:
    """A fleet whose server runs and has its streams."""
    fleet = NatsFleet(folder, hosts, invites, tls=tls)
    fleet.server.start()
    try:
        asyncio.run(fleet.prepare())
        yield fleet
    finally:
        fleet.server.stop()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class RawClient:
    """A client that sends lines of the NATS protocol, as an attacker with a host's key would."""

    def __init__(self, port: int, keys: KeyPair, **changed: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._lines = self._socket.makefile("rb")
        nonce = json.loads(self._lines.readline().split(b" ", 1)[1])["nonce"]
        signature = nkeys.from_seed(bytearray(keys.seed.encode())).sign(nonce.encode())
        signed = base64.urlsafe_b64encode(signature).decode().rstrip("=")
        options = {"nkey": keys.public_key, "sig": signed, "verbose": False, "lang": "raw", "headers": True}
        options |= {"no_responders": True, **changed}
        self.send(f"CONNECT {json.dumps(options)}")

    def send(self, *lines: str) -> None:
        self._socket.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def publish(self, subject: str, text: str = "", reply: str = "") -> None:
        self.send(f"PUB {subject} {f'{reply} ' if reply else ''}{len(text)}", text)

    def answers(self) -> list[str]:
        """All that the server has said to what was sent so far; a `ConnectionError` has it, too."""
        found: list[str] = []
        try:
            self.send("PING")
            while (read := self._lines.readline()) != b"PONG\r\n":
                if not read:
                    raise ConnectionError("the server has closed the connection", found)
                found += [read.decode().strip()] if read != b"PING\r\n" else []
        except (ConnectionResetError, BrokenPipeError) as error:  # it closed before it read the PING
            raise ConnectionError("the server has closed the connection", found) from error
        return found

    def next_message(self) -> str:
        """The first line of the next message: `MSG subject sid [reply] bytes`."""
        while not (read := self._lines.readline()).startswith((b"MSG", b"HMSG")):
            if not read:
                raise ConnectionError("the server has closed the connection")
        line = read.decode().strip()
        self._lines.read(int(line.split()[-1]) + len("\r\n"))
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()


def a_hub_daemon(place: Any = None, **listeners: Any) -> Any:
    """The part of a hub's daemon that `FleetHosts` calls; these listeners hear it."""
    config = SimpleNamespace(announcement=lambda: place)
    names = ("publish_readings", "on_hosts_changed", "on_silence_changed", "on_rows_copied")
    calls = {name: listeners.get(name, lambda *_: None) for name in names}
    return SimpleNamespace(context=SimpleNamespace(host=SimpleNamespace(config=config)), **calls)
