"""A hub, its hosts and their NATS server for a test, each with real programs in a folder of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import NullPool, create_engine, text

from slack_playground import Playground
from supervisor_core.commands.command import Issuer
from supervisor_core.fleet.hub.ledger import LedgerDatabase
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import FleetMembers
from supervisor_core.fleet.transport.server import NatsServer, write_accounts, write_server
from supervisor_core.host.process_facts.signals import KILL, send, wait_exit
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from tests.support.daemon import short_silence
from tests.support.daemon.fleets import free_port
from tests.support.daemon.host_lines import HUB, HostLine
from tests.support.homes import SUPERVISOR, Daemon, Home, a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, started
from tests.support.waiting import wait_until

WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
KEY = "fleet.nk"
QUERY_SECONDS = 10.0


class DatabaseHome(SlackHome):
    """A hub whose ledger is in a database server."""

    url = ""

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows in the database."""
        engine = create_engine(self.url, poolclass=NullPool)
        with engine.connect() as connection:
            return [dict(row) for row in connection.execute(text(query)).mappings()]


@dataclass(frozen=True)
class FleetHomes:
    """A fleet whose daemons are started by `start`."""

    hub: SlackHome
    hosts: Mapping[str, Home]
    server: NatsServer
    url: str
    lines: Mapping[str, HostLine]

    def kill_server(self) -> None:
        """`kill -9` of the NATS server."""
        running = self.server.identity
        assert running is not None
        send(running, KILL)
        assert wait_exit(running, 10)

    async def start(self, slack: Playground, program: Sequence[str] = SUPERVISOR) -> Daemon:
        """Start everybody, the hub with this program, and wait until the hub knows all workers; the hub."""
        for host in self.hosts.values():
            await asyncio.to_thread(host.start_daemon)
        return await self.start_hub(slack, program)

    async def start_hub(self, slack: Playground, program: Sequence[str] = SUPERVISOR) -> Daemon:
        """Start the hub with this program, and wait until it knows all workers."""
        hub = await started(self.hub, slack, program)
        await asyncio.to_thread(self.wait_known)
        return hub

    def wait_known(self) -> None:
        """Wait until the hub has the status of all workers, they run, and it takes commands for them."""
        there = "select host_id from fleet_hosts_t where workers_json <> '[]'"
        wait_until(
            lambda: len(self.hub.rows(there)) == len(self.hosts), 30.0, f"all are announced:\n{self.hub.daemon_log()}"
        )
        wanted = {f"{name}/{worker}" for name, host in self.hosts.items() for worker in host.worker_ids}
        wait_until(lambda: self.running() >= wanted, 30.0, f"all workers are known:\n{self.hub.daemon_log()}")

    def running(self) -> set[str]:
        """The workers that the hub shows as running."""
        return {each["id"] for each in self.hub.status()["workers"] if each["state"] == "running"}


def take_in(state_dir: Path, keys: Mapping[str, KeyPair], database_url: str = "") -> None:
    """Have these hosts in the hub's ledger, as if they had joined."""
    state_dir.mkdir(parents=True)
    now, anna = datetime.now(UTC), Issuer("cli:anna", "anna")
    place = LedgerDatabase(database_url, QUERY_SECONDS, HUB) if database_url else state_dir / LEDGER_FILE
    with Ledger(place, HUB) as ledger:
        members = FleetMembers(ledger)
        for name, key in keys.items():
            invite = members.invite(name, anna, now)
            members.join(invite.invite_id, name, key.public_key, "1.0", now)


@contextmanager
def a_fleet(
    folder: Path,
    hosts: Sequence[str] = ("web-1", "web-2"),
    workers: Mapping[str, Any] | None = None,
    workers_of: Mapping[str, Mapping[str, Any]] | None = None,
    deadline_minutes: float = 10.0,
    environ: Mapping[str, str] | None = None,
    database_url: str = "",
    **slack: Any,
) -> Iterator[FleetHomes]:
    """A hub without workers of its own, and hosts with one worker each, called `fetcher`; or with these workers, the
    same on each host or by host.

    Each host, and the hub, is connected through a line of its own, which can fail. `environ`: for the daemons.
    `database_url`: for the hub's ledger, instead of a file.
    """
    port = free_port()
    url = f"nats://127.0.0.1:{port}"
    hub_key = KeyPair.create(folder / "hub" / KEY)
    keys = {name: KeyPair.create(folder / name / KEY) for name in hosts}
    write_server(folder / "nats", f"127.0.0.1:{port}")
    write_accounts(folder / "nats", hub_key.public_key, {name: key.public_key for name, key in keys.items()}, {})
    take_in(folder / "hub" / "var", keys, database_url)
    server = NatsServer(folder / "nats")
    with ExitStack() as ending:
        server.start()
        ending.callback(server.stop)
        lines = {name: ending.enter_context(HostLine(port)) for name in (HUB, *hosts)}
        fleet = {"credentials": KEY}
        presence = short_silence.PRESENCE if short_silence.VARIABLE in (environ or {}) else {}
        hub = ending.enter_context(
            a_home(
                folder / "hub",
                {},
                make=DatabaseHome if database_url else SlackHome,
                supervisor={"id": "hub", "state_dir": "var"},
                **({"database": {"url": database_url}} if database_url else {}),
                slack={"enabled": True, "access": ACCESS, **slack},
                fleet={
                    "role": "hub",
                    **fleet,
                    "url": lines[HUB].url,
                    "server": {"folder": str(folder / "nats")},
                    "deadline_minutes": deadline_minutes,
                },
            )
        )
        assert isinstance(hub, SlackHome)
        if isinstance(hub, DatabaseHome):
            hub.url = database_url
        made = {
            name: ending.enter_context(
                a_home(
                    folder / name,
                    (workers_of or {}).get(name) or workers or {"fetcher": WORKER},
                    supervisor={"id": name, "state_dir": "var"},
                    slack={"enabled": False},
                    fleet={"role": "host", "hub_key": hub_key.public_key, **fleet, **presence, "url": lines[name].url},
                )
            )
            for name in hosts
        }
        for home in (hub, *made.values()):
            home.more_environ.update(environ or {})
        yield FleetHomes(hub, made, server, url, lines)
