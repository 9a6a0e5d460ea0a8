"""The stage: a local Slack and a host, or a hub with three hosts, started together and removed without a trace."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from bot.demo.host import LOOK_SECONDS, WORKER, WORKER_SETTINGS, DemoError, DemoHost
from bot.scopes import manifest_path
from slack_playground.testing.playground import Playground
from slack_playground.values import PlaygroundError
from slack_playground.world.world import World
from supervisor_core.commands.command import Issuer
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.version import __version__

T = TypeVar("T")

START_SECONDS = 60.0
PATIENCE_SECONDS = 20.0  # for one event on a slow machine
OPERATOR, APPROVER, VIEWER, GUEST = "operator", "approver", "viewer", "guest"
CHANNEL = "ops"
HOSTS = ("web-1", "web-2", "web-3")
ADDRESSES = tuple(f"{host}/{WORKER}" for host in HOSTS)
SEED = "fleet.seed"
NEEDED = (
    "The demo of a fleet needs nats-py and nats-server. In a checkout: make demo ARGS=--fleet. Elsewhere: "
    "pip install 'supervisor-chatops[demo,fleet,nats-server]'."
)
REMOVALS, REMOVAL_SECONDS = 20, 0.1  # a killed process may still be closing its files


class StoppedError(Exception):
    """A signal asked the demo to stop."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that is running. `hosts` are those of a fleet, whose hub `home` is."""

    slack: Playground
    home: DemoHost
    stopping: asyncio.Event
    hosts: dict[str, DemoHost]

    @property
    def address(self) -> str:
        """The page's address for the operator."""
        return f"{self.slack.url}#as={OPERATOR}&in={CHANNEL}"

    async def during(self, doing: Coroutine[Any, Any, T]) -> T:
        """Do this while everything runs; `StoppedError` at a signal, `DemoError` if the daemon exits."""
        asked = asyncio.create_task(self.stopping.wait())
        died = asyncio.create_task(self.home.ended())
        work = asyncio.create_task(doing)
        try:
            await asyncio.wait({asked, died, work}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                raise StoppedError
            if died.done():
                raise died.result()
            return work.result()
        finally:
            for task in (asked, died, work):
                task.cancel()
            await asyncio.gather(asked, died, work, return_exceptions=True)


@asynccontextmanager
async def set_up(
    port: int, stopping: asyncio.Event, problems: list[str], *, fleet: bool = False
) -> AsyncIterator[Stage]:
    """Start everything and connect it; problems of the cleanup are added to `problems`."""
    if fleet:
        _require_server()
    slack = Playground(manifest_path(), port=port, patience=PATIENCE_SECONDS)
    folder = Path(tempfile.mkdtemp(prefix="supervisor-demo-"))
    async with AsyncExitStack() as ending:  # in reverse, each part even if another fails
        ending.push_async_callback(_remove, folder, problems)
        try:
            await ending.enter_async_context(slack)
        except PlaygroundError as error:
            raise DemoError(error.message) from error
        world = slack.server.world
        world.settle = partial(_settle, world)
        world.settle()
        home, hosts = DemoHost(folder / "hub" if fleet else folder), dict[str, DemoHost]()
        if fleet:
            hosts = {name: DemoHost(folder / name) for name in HOSTS}
            await asyncio.to_thread(_furnish_fleet, home, hosts, _settings(world))
            ending.push_async_callback(_end_fleet, home, hosts, problems)
        else:
            await asyncio.to_thread(home.furnish)
            home.configure({"workers": {WORKER: WORKER_SETTINGS}, **_settings(world)})
        if stopping.is_set():
            raise StoppedError
        stage = Stage(slack, home, stopping, hosts)
        ending.push_async_callback(home.end, problems)
        await home.start(slack.environment)
        for host in hosts.values():
            await host.start({})
        await stage.during(_connected(stage))
        yield stage


async def _connected(stage: Stage) -> None:
    world = stage.slack.server.world
    try:
        async with asyncio.timeout(START_SECONDS):
            await stage.home.up()
            while not await world.feed.until(world.connections, START_SECONDS):
                pass
            while stage.hosts:
                workers = (await stage.home.status()).get("workers", ())
                healthy = {each["id"] for each in workers if (each["state"], each["health"]) == ("running", "healthy")}
                if healthy.issuperset(ADDRESSES):
                    break
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        text = f"The daemon wasn't running and connected within {START_SECONDS:g} s. {stage.home.last_lines()}"
        raise DemoError(text) from None


def _settle(world: World) -> None:
    """Add the demo's people, also after a reset. The audit trail has their display names."""
    for name in (OPERATOR, APPROVER, VIEWER):
        world.add_user(name, display_name=name)
    world.add_user(GUEST, display_name=GUEST, is_restricted=True)
    world.set_group("oncall", "On call", [world.workspace.user(name).id for name in (OPERATOR, APPROVER)])


def _settings(world: World) -> dict[str, Any]:
    space = world.workspace
    operators, approvers = ([space.user(name).id] for name in (OPERATOR, APPROVER))
    return {
        "supervisor": {"id": "demo-host", "state_dir": "var", "inbox_poll_seconds": 1},
        "teams": {"archive": {"objective": "keep the archive flowing"}},
        "slack": {
            "alert_channel": space.channel(CHANNEL).id,
            "announce": True,
            "welcome": False,  # the demo has its own
            "access": {"viewers": ["*"], "operators": operators, "approvers": approvers},
        },
    }


def _require_server() -> None:
    """Raise `DemoError` if a fleet can't run here."""
    from supervisor_core.fleet.transport.server import find_program

    if not all(map(find_spec, ("nats", "nkeys"))):
        raise DemoError(NEEDED)
    find_program()


def _furnish_fleet(hub: DemoHost, hosts: dict[str, DemoHost], settings: dict[str, Any]) -> None:
    """Write everything for a hub and its hosts, which have joined already."""
    from supervisor_core.fleet.keys import KeyPair
    from supervisor_core.fleet.members import FleetMembers
    from supervisor_core.fleet.transport.server import write_accounts, write_server

    hub.folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    link = {"url": f"nats://{address}", "credentials": SEED}
    hub_key, keys = KeyPair.create(hub.folder / SEED), dict[str, KeyPair]()
    server = {"run": True, "listen": address, "max_gigabytes": 0.1}
    own = {"supervisor": {**settings["supervisor"], "id": "hub"}, "slack": settings["slack"]}
    hub.configure({**own, "workers": {}, "fleet": {"role": "hub", **link, "server": server}})
    for name, host in hosts.items():
        host.folder.mkdir()
        host.furnish()
        keys[name] = KeyPair.create(host.folder / SEED)
        own = {"supervisor": {**settings["supervisor"], "id": name}, "slack": {**settings["slack"], "enabled": False}}
        worker = {WORKER: {**WORKER_SETTINGS, "start_grace_seconds": 0.3}}
        fleet = {"role": "host", **link, "hub_key": hub_key.public_key}
        host.configure({**settings, **own, "workers": worker, "fleet": fleet})
    config = load_supervisor_config(str(hub.config))
    now, by = datetime.now(UTC), Issuer("cli:demo", "demo")
    with opened_ledger(config) as ledger:
        members = FleetMembers(ledger)
        for name, pair in keys.items():
            members.join(members.invite(name, by, now).invite_id, name, pair.public_key, __version__, now)
        write_server(config.fleet_folder, address, 0.1)
        write_accounts(config.fleet_folder, hub_key.public_key, *members.users(now))


async def _end_fleet(hub: DemoHost, hosts: dict[str, DemoHost], problems: list[str]) -> None:
    """Stop the hosts' daemons and workers, then the NATS server, which outlives the hub's daemon."""
    from supervisor_core.fleet.transport.server import NatsServer

    await asyncio.gather(*(host.end(problems) for host in hosts.values()))
    await asyncio.to_thread(NatsServer(hub.state_dir / "nats").stop)


async def _remove(folder: Path, problems: list[str]) -> None:
    """Delete the folder, or add the reason why it can't be."""
    for attempt in range(1, REMOVALS + 1):
        try:
            await asyncio.to_thread(shutil.rmtree, folder)
        except OSError as error:
            if attempt == REMOVALS:
                problems.append(f"The folder {folder} can't be deleted: {error}")
            await asyncio.sleep(REMOVAL_SECONDS)
        else:
            return
