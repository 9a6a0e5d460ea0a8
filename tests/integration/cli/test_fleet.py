"""`supervisor fleet` with real programs: a hub, a host that joins with a token, and its end."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from supervisor_core.cli import main
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members.joining import JoinService
from supervisor_core.fleet.members.membership import FleetMembers
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.server import CA, NatsServer
from supervisor_core.fleet.transport.subjects import HUB_INBOX
from tests.support.daemon.fleets import PATIENCE, free_port


def test_a_host_joins_with_one_command_and_is_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub, host = tmp_path / "hub" / "config.yaml", tmp_path / "web" / "config.yaml"
    hub.parent.mkdir()
    host.parent.mkdir()
    hub.write_text("supervisor: {id: hub}  # ours\n")

    def fleet(*words: str, config: Path = hub, code: int = 0) -> str:
        assert main(["fleet", *words, "--config", str(config)]) == code
        return "".join(capsys.readouterr())

    assert "The daemon runs the NATS server" in fleet("init", "--url", f"tls://127.0.0.1:{free_port()}")
    assert "# ours" in hub.read_text()
    assert "The daemon runs the NATS server" in fleet("init"), "it may be repeated"
    config = load_supervisor_config(hub)
    server = NatsServer(config.fleet_folder)
    server.start()
    try:
        token = fleet("invite", "web").split("supervisor fleet join ")[1].strip()
        assert config.fleet.credentials is not None
        keys, url = KeyPair.read(config.fleet.credentials), config.fleet.url.get_secret_value()

        async def answer_and_join() -> str:
            ca = config.fleet_folder / CA
            with opened_ledger(config) as ledger:
                async with FleetConnection(url, keys, name="hub", inbox=HUB_INBOX, ca=ca) as connection:
                    await connection.wait_connected(PATIENCE)
                    await JoinService(connection, FleetMembers(ledger), config.fleet_folder, keys).start()
                    return await asyncio.to_thread(fleet, "join", token, config=host)

        assert "web has joined the fleet" in asyncio.run(answer_and_join())
        joined = load_supervisor_config(host)
        assert (joined.supervisor.id, joined.fleet.role, joined.fleet.hub_key) == ("web", "host", keys.public_key)
        assert stat.S_IMODE((host.parent / "fleet" / "host.seed").stat().st_mode) == 0o600
        assert "FAIL" not in fleet("doctor", config=host)
        assert "FAIL" not in fleet("doctor")
        assert "web   joined  never" in fleet("list")
        assert "cut off" in fleet("revoke", "web")
        assert '"state": "revoked"' in fleet("list", "--json")
        assert "isn't the hub" in fleet("invite", "db", config=host, code=2)
    finally:
        server.stop()
