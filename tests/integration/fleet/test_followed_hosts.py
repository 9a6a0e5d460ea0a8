"""A hub follows a host by what it announces, and says so where that doesn't fit what it has copied."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from supervisor_core.commands.command import Issuer
from supervisor_core.common.service import Blocking
from supervisor_core.daemon.backup import copy_database
from supervisor_core.fleet import rows
from supervisor_core.fleet.hub.hosts import FleetHosts
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import FleetMembers, HostNews
from supervisor_core.fleet.questions import Asker, PresenceMessage
from supervisor_core.fleet.transport.connection import NoAnswer
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from tests.support.daemon.fleets import a_hub_daemon
from tests.support.storage.ledger_rows import note_audit, opened

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
ANNA = Issuer("cli:anna", "anna")
HOST = "web-1"


@dataclass
class Line:
    """A line to one host: its ledger answers the hub's questions."""

    host: Ledger
    connected: bool = True
    since: datetime = NOW

    @property
    def heard_at(self) -> datetime:
        return datetime.now(UTC)

    async def request(self, subject: str, data: bytes, timeout: float) -> bytes:  # noqa: ASYNC109 (the server's)
        if not subject.endswith(HOST):
            raise NoAnswer("Nobody listens.")
        asked = json.loads(json.loads(data)["signed"])["body"]
        if asked["question"] == "rows":
            position = rows.Position.of(asked["about"])
            answer: Any = self.host.read(lambda connection: rows.rows_after(connection, HOST, position))
        else:
            answer = {"life": "life", "number": 1, "workers": [], "readings": []}
        return json.dumps({"answer": answer}).encode()

    def announcement(self, life: str) -> bytes:
        """What the host says of itself in this run of its daemon."""
        origin = self.host.write(lambda connection: rows.origin_of(connection, HOST))
        newest = self.host.read(lambda connection: rows.newest_rows(connection, HOST))
        return PresenceMessage(HOST, datetime.now(UTC), origin.ledger_id, newest._asdict(), 1, life, "1.0").encode()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.01)


def test_a_host_whose_ledger_lost_rows_that_the_hub_has_is_named(tmp_path: Path) -> None:
    """As after a restore: what the host writes from then on would never be copied, and nobody would hear of it."""

    async def story() -> None:
        older = tmp_path / "older"
        older.mkdir()
        with opened(tmp_path / "hub", "hub") as hub, opened(tmp_path / "host", HOST) as host:
            members, key = FleetMembers(hub), KeyPair.new()
            now = datetime.now(UTC)
            members.join(members.invite(HOST, ANNA, now).invite_id, HOST, key.public_key, "1.0", now)
            line: Any = Line(host)
            hosts = FleetHosts(hub, Blocking(), Asker(line, key), members, line, a_hub_daemon())
            hosts.begin(members.hosts())
            stopping = asyncio.Event()
            running = asyncio.create_task(hosts.run(stopping))
            await asyncio.sleep(0)
            note_audit(host, 1)
            line.announcement("first")  # the ledger has its id from now on
            copy_database(tmp_path / "host" / LEDGER_FILE, older / LEDGER_FILE)
            for number in range(3):
                note_audit(host, number)
            hosts.hear(HOST, line.announcement("first"))
            known = hosts.hosts[HOST]
            await until(lambda: known.have is not None and known.have[1].audit == 4 and known.snapshot)
            with opened(older, HOST) as restored:
                note_audit(restored, 2)
                line.host = restored
                hosts.hear(HOST, line.announcement("second"))
                await until(lambda: "only up to row 2" in hosts.problem())
            stopping.set()
            await running

    asyncio.run(story())


def test_a_started_hub_asks_those_that_speak_seldom_before_it_calls_them_unresponsive(tmp_path: Path) -> None:
    """A host may speak once in five minutes, and the hub knows its interval from its first message."""

    async def story() -> None:
        with opened(tmp_path / "hub", "hub") as hub, opened(tmp_path / "host", HOST) as host:
            members, now = FleetMembers(hub), datetime.now(UTC)
            for name in (HOST, "web-2"):
                invite = members.invite(name, ANNA, now).invite_id
                members.join(invite, name, KeyPair.new().public_key, "1.0", now)
            line: Any = Line(host)
            told = list[bool]()
            daemon = a_hub_daemon(on_silence_changed=lambda: told.append(True))
            hosts = FleetHosts(hub, Blocking(), Asker(line, KeyPair.new()), members, line, daemon)
            hosts.begin(members.hosts())
            there, gone = hosts.hosts[HOST], hosts.hosts["web-2"]
            there.since = gone.since = now - timedelta(seconds=16)
            stopping = asyncio.Event()
            running = asyncio.create_task(hosts.run(stopping))
            await until(lambda: gone.silent and there.heard_at)
            assert told == [True]
            assert not there.silent
            hosts.hear(HOST, line.announcement("first"))
            await until(lambda: there.snapshot)
            assert list(hosts.silent()) == ["web-2"]
            assert not hosts.missing(), "it has joined, and never connected"
            members.seen([HostNews("web-2", "1.0", None)], now)
            restarted = FleetHosts(hub, Blocking(), Asker(line, KeyPair.new()), members, line, daemon)
            restarted.begin(members.hosts())
            restarted.hosts["web-2"].silent = True
            assert list(restarted.missing()) == ["web-2"]
            stopping.set()
            await running

    asyncio.run(story())
