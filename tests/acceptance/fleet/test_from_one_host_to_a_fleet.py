"""From one host to a fleet with `supervisor fleet`, over TLS, as the how-to guide says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from supervisor_core.fleet.members import JoinToken
from supervisor_core.fleet.transport.server import NatsServer
from tests.support.daemon.fleet_homes import WORKER
from tests.support.daemon.fleets import free_port
from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until

OFF = {"enabled": False}
TOKEN = JoinToken("tls://127.0.0.1:1", "", "U" * 56, "web-1", "1", "seed").as_text()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "hub", {"local": WORKER}, supervisor={"id": "ops", "state_dir": "var"}, slack=OFF) as made:
        yield made
        NatsServer(made.state_dir / "nats").stop()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Home]:
    """A host on its own, whose configuration doesn't name it."""
    with a_home(tmp_path / "web-1", {"fetcher": WORKER}, supervisor={"state_dir": "var"}) as made:
        yield made


def ran(home: Home, *words: str) -> str:
    done = home.supervisor(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_single_host_becomes_a_hub_another_joins_over_tls_and_a_command_reaches_it(hub: Home, host: Home) -> None:
    port = free_port()
    assert "Name the server" in hub.supervisor("fleet", "init").stderr
    assert "supervisor fleet invite" in ran(hub, "fleet", "init", "--url", f"tls://127.0.0.1:{port}")
    early = hub.supervisor("fleet", "invite", "web-1")
    assert early.returncode == 1
    assert "supervisor daemon start" in early.stderr
    hub.start_daemon()
    token = wait_until(lambda: _token(hub), 20.0, "the server is ready")
    (host.folder / "token").write_text(token)
    joined = ran(host, "fleet", "join", "--token-file", "token")
    assert "supervisor.id: web-1, slack.enabled: false (the hub runs the bot), the new section fleet" in joined
    assert yaml.safe_load(host.config.read_text())["workers"]["fetcher"] == WORKER
    host.start_daemon()
    wait_until(
        lambda: "connected" in ran(hub, "fleet", "list"),
        20.0,
        f"web-1 is there: {hub.daemon_log()}",
    )
    wait_until(lambda: "web-1/fetcher" in ran(hub, "status"), 20.0, "its worker is known")
    ran(hub, "send", "pause web-1/fetcher hotfix", "--wait")
    assert host.running_copies("fetcher") == []
    fleet = host.folder / "fleet"
    (fleet / "host.seed").rename(fleet / "host.new.seed")  # as if the hub's answer had been lost
    ran(host, "fleet", "join", "--token-file", "token")
    again = host.supervisor("fleet", "join", "--token-file", "token")
    assert (again.returncode, "has been used" in again.stderr) == (1, True)
    assert "fleet_rights" in host.supervisor("doctor").stdout


def test_a_stopped_hub_names_its_server_that_keeps_running(hub: Home) -> None:
    ran(hub, "fleet", "init", "--url", f"tls://127.0.0.1:{free_port()}")
    hub.start_daemon()
    wait_until(lambda: _token(hub), 20.0, "the server is ready")
    server = NatsServer(hub.state_dir / "nats").identity
    assert server is not None
    assert f"To stop it, too: kill {server.pid}\n" in ran(hub, "daemon", "stop", "--workers")


def test_a_mistake_in_the_configuration_is_named_before_the_token_is_used(host: Home) -> None:
    (host.folder / "token").write_text(TOKEN)
    text = host.config.read_text()
    host.config.write_text(text.replace("workers:", "worker:"))
    done = host.supervisor("fleet", "join", "--token-file", "token")
    assert done.returncode == 2
    assert "worker" in done.stderr
    host.config.write_text(text.replace("state_dir: var", "id: web-2\n  state_dir: var"))
    done = host.supervisor("fleet", "join", "--token-file", "token")
    assert done.returncode == 2
    assert "supervisor fleet invite web-2" in done.stderr
    assert not (host.folder / "fleet").exists()


def _token(hub: Home) -> str:
    """A token, once the hub's server is ready."""
    done = hub.supervisor("fleet", "invite", "web-1")
    return done.stdout.split()[-1] if done.returncode == 0 else ""
