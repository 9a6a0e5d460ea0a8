"""The NATS server that the hub runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from supervisor_core.common.service import Blocking
from supervisor_core.fleet.hub import services
from supervisor_core.fleet.hub.services import HubLink
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import FleetMembers, JoinService
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.server import (
    NatsServer,
    ServerError,
    reload_server,
    write_accounts,
    write_server,
)
from supervisor_core.fleet.transport.subjects import HUB_INBOX
from supervisor_core.storage.store import Ledger
from tests.support.daemon.fleets import PATIENCE, NatsFleet, a_fleet
from tests.support.storage.ledger_rows import opened


def test_a_port_that_another_server_has_is_named_and_not_what_that_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "CONNECT_SECONDS", 0.3)

    async def main(first: NatsFleet, ledger: Ledger) -> None:
        keys, folder, stopping, blocking = KeyPair.new(), tmp_path / "second", asyncio.Event(), Blocking()
        write_server(folder, f"127.0.0.1:{first.port}")
        write_accounts(folder, keys.public_key, {}, {})
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


def test_accounts_that_the_server_would_refuse_never_replace_the_ones_in_use(tmp_path: Path) -> None:
    async def main(fleet: NatsFleet) -> None:
        before = {path.name: path.read_bytes() for path in fleet.folder.glob("*.conf")}
        with pytest.raises(ServerError, match="Duplicate"):
            write_accounts(fleet.folder, fleet.hub_keys.public_key, {"web": fleet.hub_keys.public_key}, {})
        assert {path.name: path.read_bytes() for path in fleet.folder.glob("*.conf")} == before
        async with fleet.hub() as hub:
            await reload_server(hub)

    with a_fleet(tmp_path) as fleet:
        asyncio.run(main(fleet))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads another process's environment in /proc")
def test_the_server_gets_no_secrets_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    with a_fleet(tmp_path) as fleet:
        running = fleet.server.identity
        assert running is not None
        environment = Path(f"/proc/{running.pid}/environ").read_bytes()
        assert b"xoxb-secret" not in environment
        assert f"PATH={os.environ['PATH']}".encode() in environment
