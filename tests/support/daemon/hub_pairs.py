"""Two machines that can be the hub of one fleet, with one database, one Slack app and one NATS server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slack_playground import Playground
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport.server import NatsServer, write_accounts, write_server
from tests.support.daemon.fleet_homes import KEY, WORKER, DatabaseHome, take_in
from tests.support.daemon.fleets import free_port
from tests.support.homes import SUPERVISOR, Daemon, Home, a_home
from tests.support.slack.slack_home import ACCESS, WAITING
from tests.support.waiting import wait_until

TAKEOVER_SECONDS = 10.0


class HubHome(DatabaseHome):
    """A machine that can be the hub. Its ledger is the database."""

    @property
    def is_hub(self) -> bool:
        """True once its daemon acts as the hub, and all its services have begun."""
        supervisor = self._supervisor()
        return supervisor.get("state") == "running" and supervisor["status"] == "ACTIVE"

    @property
    def stands_by(self) -> bool:
        """True while it waits for the lock."""
        return self._supervisor().get("state") == "standby"

    def _supervisor(self) -> dict[str, Any]:
        """What its daemon says of itself; nothing while it's on the way from one to the other."""
        try:
            found: dict[str, Any] = self.status()["supervisor"]
        except (NotRunningError, UnresponsiveError):
            return {}
        return found


@dataclass
class HubPair:
    """Two machines, of which one is the hub, and a host with a worker."""

    hubs: Mapping[str, HubHome]
    host: Home
    url: str
    daemons: dict[str, Daemon]

    async def start(self, slack: Playground, program: Sequence[str] = SUPERVISOR) -> None:
        """Start all; `first`, run by this program, is the hub then, and `second` stands by."""
        await asyncio.to_thread(self.host.start_daemon)
        for name, hub in self.hubs.items():
            for person in hub.named():
                slack.user(person)
            hub.slack = slack.environment
            self.daemons[name] = await asyncio.to_thread(hub.start_daemon, program=program)
            program = SUPERVISOR
        await slack.connected(1)
        await asyncio.to_thread(self.wait_known, "first")

    def wait_known(self, name: str, seconds: float = 30.0) -> None:
        """Wait until this hub has the status of the worker, and takes commands for it."""
        hub = self.hubs[name]
        there = "select host_id from fleet_hosts_t where workers_json <> '[]'"
        wait_until(lambda: hub.rows(there), seconds, f"the worker is announced:\n{hub.daemon_log()}")
        wait_until(
            lambda: any("hasn't connected" not in each["reason"] for each in hub.status()["workers"]),
            seconds,
            f"the worker is known:\n{hub.daemon_log()}",
        )

    def signal(self, name: str, number: int) -> None:
        """Signal the daemon of this hub."""
        os.kill(self.daemons[name].pid, number)

    def wait_taken_over(self, name: str) -> None:
        """Wait until this machine is the hub."""
        hub = self.hubs[name]
        wait_until(lambda: hub.is_hub, 30.0, f"{name} is the hub:\n{hub.daemon_log()}")

    def settle(self, name: str) -> None:
        """Wait until nothing waits any more."""
        hub = self.hubs[name]
        wait_until(lambda: not hub.rows(WAITING), 45.0, f"nothing waits:\n{hub.rows(WAITING)}\n{hub.daemon_log()}")


@contextmanager
def a_hub_pair(folder: Path, url: str, workers: Sequence[str] = ("fetcher",), **slack: Any) -> Iterator[HubPair]:
    """Two hubs on this database, and the host web-1."""
    port = free_port()
    nats = f"nats://127.0.0.1:{port}"
    key, host_key = KeyPair.create(folder / "first" / KEY), KeyPair.create(folder / "web-1" / KEY)
    (folder / "second").mkdir()
    (folder / "second" / KEY).write_bytes((folder / "first" / KEY).read_bytes())
    (folder / "second" / KEY).chmod(0o600)
    write_server(folder / "nats", f"127.0.0.1:{port}")
    write_accounts(folder / "nats", key.public_key, {"web-1": host_key.public_key}, {})
    take_in(folder / "setup", {"web-1": host_key}, url)
    server = NatsServer(folder / "nats")
    with ExitStack() as ending:
        server.start()
        ending.callback(server.stop)
        fleet = {"url": nats, "credentials": KEY}
        hubs = {}
        for name in ("first", "second"):
            made = ending.enter_context(
                a_home(
                    folder / name,
                    {},
                    make=HubHome,
                    supervisor={"id": "hub", "state_dir": "var"},
                    database={"url": url},
                    slack={"enabled": True, "access": ACCESS, **slack},
                    fleet={"role": "hub", **fleet, "server": {"folder": str(folder / "nats")}},
                )
            )
            assert isinstance(made, HubHome)
            made.url = url
            hubs[name] = made
        host = ending.enter_context(
            a_home(
                folder / "web-1",
                dict.fromkeys(workers, WORKER),
                supervisor={"id": "web-1", "state_dir": "var", "reconcile_seconds": 1},
                slack={"enabled": False},
                fleet={"role": "host", "hub_key": key.public_key, **fleet},
            )
        )
        yield HubPair(hubs, host, url, {})
