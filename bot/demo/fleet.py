"""The fleet of `supervisor demo --fleet`: a hub that runs a NATS server, and three hosts with a worker each."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec

from bot.demo.daemon import DemoDaemon
from bot.demo.home import CODE, WORKER, DemoError, Home, Rights, furnish, write_configuration
from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import ConfigError, SupervisorError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.version import __version__

HUB = "hub"
HOSTS = ("web-1", "web-2", "web-3")
ADDRESSES = tuple(f"{host}/{WORKER}" for host in HOSTS)
LOOK_SECONDS = 0.1
SEED = "fleet.seed"
NEEDED = (
    "The demo of a fleet needs nats-py and nats-server. In a checkout: make demo ARGS=--fleet. Elsewhere: "
    "pip install 'supervisor-chatops[demo,fleet,nats-server]'."
)


@dataclass(frozen=True, slots=True)
class DemoHost:
    """A host of the fleet, and its daemon."""

    home: Home
    daemon: DemoDaemon


def require_server() -> None:
    """Raise `DemoError` if a fleet can't run here."""
    from supervisor_core.fleet.transport.server import find_program

    try:
        find_program()
    except SupervisorError:
        raise DemoError(NEEDED) from None
    if not all(map(find_spec, ("nats", "nkeys"))):
        raise DemoError(NEEDED)


def furnish_fleet(hub: Home, rights: Rights) -> dict[str, DemoHost]:
    """Write everything for a hub and its hosts, which have joined already. It blocks."""
    from supervisor_core.fleet.keys import KeyPair
    from supervisor_core.fleet.members.membership import FleetMembers
    from supervisor_core.fleet.transport.server import ServerPlan, write_accounts, write_server

    root = hub.folder.parent
    hub.folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    link = {"url": f"nats://{address}", "credentials": SEED}
    key = KeyPair.create(hub.folder / SEED)
    server = {"run": True, "listen": address, "max_gigabytes": 0.1}
    write_configuration(hub, rights, supervisor={"id": HUB}, fleet={"role": "hub", **link, "server": server})
    keys: dict[str, KeyPair] = {}
    hosts: dict[str, DemoHost] = {}
    worker = {WORKER: {**CODE[WORKER], "start_grace_seconds": 0.3}}
    for name in HOSTS:
        home = Home(root / name)
        home.folder.mkdir()
        keys[name] = KeyPair.create(home.folder / SEED)
        if not hosts:
            furnish(home, rights)
        else:  # the same history on each
            shutil.copytree(root / HOSTS[0], home.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(SEED))
        section = {"role": "host", **link, "hub_key": key.public_key}
        write_configuration(home, rights, worker, supervisor={"id": name}, slack={"enabled": False}, fleet=section)
        hosts[name] = DemoHost(home, DemoDaemon(home))
    try:
        config = load_supervisor_config(str(hub.config))
    except ConfigError as error:
        raise DemoError(error.message) from error
    now, by = datetime.now(UTC), Issuer("cli:demo", "demo")
    with opened_ledger(config) as ledger:
        members = FleetMembers(ledger)
        for name, pair in keys.items():
            members.join(members.invite(name, by, now).invite_id, name, pair.public_key, __version__, now)
        write_server(ServerPlan.of(config))
        write_accounts(config.fleet_folder, key.public_key, *members.users(now))
    return hosts


async def all_known(hub: Home) -> None:
    """Return once the hub shows all workers as running."""
    while set(ADDRESSES) - await asyncio.to_thread(_running, hub):  # noqa: ASYNC110 (another process sets no event)
        await asyncio.sleep(LOOK_SECONDS)


def _running(hub: Home) -> set[str]:
    try:
        status: Mapping[str, list[dict[str, str]]] = ask(str(hub.state_dir), {"do": "status"})
    except (NotRunningError, UnresponsiveError, ControlError):
        return set()
    return {each["id"] for each in status["workers"] if each["state"] == "running" and each["health"] == "healthy"}


async def end_fleet(hub: Home, hosts: Mapping[str, DemoHost], problems: list[str]) -> None:
    """Stop the hosts' daemons and workers, then the NATS server, which outlives the hub's daemon."""
    from supervisor_core.fleet.transport.server import NatsServer

    for ended in await asyncio.gather(*(each.daemon.end() for each in hosts.values())):
        problems += ended
    await asyncio.to_thread(NatsServer(hub.state_dir / "nats").stop)
