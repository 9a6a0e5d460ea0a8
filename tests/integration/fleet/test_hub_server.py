"""The NATS server that the hub runs."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from supervisor_core.commands.command import Issuer
from supervisor_core.common.service import Blocking
from supervisor_core.fleet.hub import services
from supervisor_core.fleet.hub.services import HubLink
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members.joining import JoinService
from supervisor_core.fleet.members.membership import FleetMembers
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.server import (
    NatsServer,
    ServerError,
    ServerPlan,
    reload_server,
    write_accounts,
    write_server,
)
from supervisor_core.fleet.transport.streams import call
from supervisor_core.fleet.transport.subjects import COMMANDS, HUB_INBOX, command_subject, next_command_subject
from supervisor_core.storage.store import Ledger
from tests.support.daemon.fleets import PATIENCE, NatsFleet, RawClient, a_fleet
from tests.support.storage.forwarded_rows import opened

ANNA = Issuer("cli:anna", "anna")


def test_a_port_that_another_server_has_is_named_and_not_what_that_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "CONNECT_SECONDS", 0.3)

    async def main(first: NatsFleet, ledger: Ledger) -> None:
        keys, folder, stopping, blocking = KeyPair.new(), tmp_path / "second", asyncio.Event(), Blocking()
        write_server(ServerPlan(folder, f"127.0.0.1:{first.port}", 1, tls=False))
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


SHARED_ACCOUNT = """system_account: SYS
accounts {
  SYS { exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", accounts: [FLEET]}, {service: "$SYS.REQ.SERVER.*.RELOAD"}] }
  FLEET {
    jetstream: enabled
    imports: [
      {service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}},
      {service: {account: SYS, subject: "$SYS.REQ.SERVER.*.RELOAD"}}
    ]
    include "users.conf"
  }
}
"""


def test_a_server_whose_hosts_share_an_account_gives_each_its_own_at_the_hub_s_next_start(tmp_path: Path) -> None:
    async def main(fleet: NatsFleet, ledger: Ledger) -> None:
        members, now = FleetMembers(ledger), datetime.now(UTC)
        for name, key in fleet.hosts.items():
            members.join(members.invite(name, ANNA, now).invite_id, name, key.public_key, "1.0", now)
        await fleet.prepare()
        async with fleet.hub() as hub, fleet.host("db") as db:
            await hub.publish_durably(command_subject("db"), b"secret", "1")
            await JoinService(hub, members, fleet.folder, fleet.hub_keys).start()
            with RawClient(fleet.port, fleet.hosts["web"]) as raw:
                raw.publish(next_command_subject("web"), '{"batch":1,"no_wait":true}', "$JS.API.STREAM.PURGE.COMMANDS")
                raw.answers()
            assert (await call(hub, f"STREAM.INFO.{COMMANDS}"))["state"]["messages"] == 1
            await db.wait_connected(PATIENCE)
            [command] = await db.pull(COMMANDS, "db", PATIENCE)
            assert command.data == b"secret"

    fleet = NatsFleet(tmp_path / "nats", ["web", "db"])
    configuration = fleet.folder / "nats-server.conf"
    head = configuration.read_text().partition('include "')[0]
    configuration.write_text(head.replace("ping_max: 2", "ping_max: 3") + SHARED_ACCOUNT)
    users = [fleet.hub_keys, *fleet.hosts.values()]
    (fleet.folder / "users.conf").write_text(f"users: {json.dumps([{'nkey': each.public_key} for each in users])}")
    for path in fleet.folder.glob("accounts*"):
        path.unlink()
    fleet.server.start()
    try:
        with opened(tmp_path / "hub", "hub") as ledger:
            asyncio.run(main(fleet, ledger))
    finally:
        fleet.server.stop()
    assert "ping_max: 3" in configuration.read_text(), "other settings stay as they were"


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
