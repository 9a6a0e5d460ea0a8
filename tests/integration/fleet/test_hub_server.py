"""The NATS server that the hub runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from supervisor_core.common.service import Blocking
from supervisor_core.fleet.hub import services
from supervisor_core.fleet.hub.services import HubLink
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members.joining import JoinService
from supervisor_core.fleet.members.membership import FleetMembers
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.server import NatsServer, ServerPlan, write_server, write_users
from supervisor_core.fleet.transport.subjects import HUB_INBOX
from supervisor_core.storage.store import Ledger
from tests.support.daemon.fleets import PATIENCE, NatsFleet, a_fleet
from tests.support.storage.forwarded_rows import opened


def test_a_port_that_another_server_has_is_named_and_not_what_that_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "CONNECT_SECONDS", 0.3)

    async def main(first: NatsFleet, ledger: Ledger) -> None:
        keys, folder, stopping, blocking = KeyPair.new(), tmp_path / "second", asyncio.Event(), Blocking()
        write_server(ServerPlan(folder, f"127.0.0.1:{first.port}", 1, tls=False))
        write_users(folder, keys.public_key, {}, {})
        connection = FleetConnection(first.url, keys, name="hub", inbox=HUB_INBOX)
        members = FleetMembers(ledger)
        joins = JoinService(connection, members, folder, keys)
        server = NatsServer(folder)
        link = HubLink(connection, joins, members, blocking, server, lambda _, __: None, lambda _: None)
        running = asyncio.create_task(link.run(stopping))
        async with asyncio.timeout(PATIENCE):
            while "address already in use" not in link.problem():  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
        stopping.set()
        await running
        await link.shut_down()
        server.stop()

    with a_fleet(tmp_path / "first") as first, opened(tmp_path / "hub", "hub") as ledger:
        asyncio.run(main(first, ledger))
