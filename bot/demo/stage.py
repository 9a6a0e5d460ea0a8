"""The stage: a local Slack, a folder and a daemon, started together and removed without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from bot.demo.daemon import DemoDaemon
from bot.demo.fleet import HUB, DemoHost, all_known, end_fleet, furnish_fleet, require_server
from bot.demo.home import DemoError, Home, Rights, furnish, make_folder, remove
from bot.scopes import manifest_path
from slack_playground.testing.playground import Playground
from slack_playground.values import PlaygroundError
from slack_playground.world.world import World

T = TypeVar("T")

START_SECONDS = 60.0
PATIENCE_SECONDS = 20.0  # for one event on a slow machine
OPERATOR, APPROVER, VIEWER, GUEST = "operator", "approver", "viewer", "guest"
CHANNEL = "ops"

REMOVALS, REMOVAL_SECONDS = 20, 0.1  # a killed process may still be closing its files


class StoppedError(Exception):
    """A signal asked the demo to stop."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that is running."""

    slack: Playground
    home: Home
    daemon: DemoDaemon
    stopping: asyncio.Event
    hosts: Mapping[str, DemoHost] = field(default_factory=dict)
    """The hosts of a fleet, whose hub `home` and `daemon` are."""

    @property
    def address(self) -> str:
        """The page's address for the operator."""
        return f"{self.slack.url}#as={OPERATOR}&in={CHANNEL}"

    async def during(self, doing: Coroutine[Any, Any, T]) -> T:
        """Do this while everything runs; `StoppedError` at a signal, `DemoError` if the daemon exits."""
        asked = asyncio.create_task(self.stopping.wait())
        died = asyncio.create_task(self.daemon.ended())
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
        require_server()
    slack = Playground(manifest_path(), port=port, patience=PATIENCE_SECONDS)
    async with AsyncExitStack() as ending:  # in reverse, each part even if another fails
        home = make_folder()
        ending.push_async_callback(_remove, home, problems)
        try:
            await ending.enter_async_context(slack)
        except PlaygroundError as error:
            raise DemoError(error.message) from error
        world = slack.server.world
        world.settle = partial(_settle, world)
        world.settle()
        hosts: Mapping[str, DemoHost] = {}
        if fleet:
            home = Home(home.folder / HUB)
            hosts = await asyncio.to_thread(furnish_fleet, home, _rights(world))
            ending.push_async_callback(end_fleet, home, hosts, problems)
        else:
            await asyncio.to_thread(furnish, home, _rights(world))
        if stopping.is_set():
            raise StoppedError
        stage = Stage(slack, home, DemoDaemon(home), stopping, hosts)
        ending.push_async_callback(_end, stage.daemon, problems)
        await stage.daemon.start(slack.environment)
        for host in hosts.values():
            await host.daemon.start({})
        await stage.during(_connected(stage))
        yield stage


async def _connected(stage: Stage) -> None:
    world = stage.slack.server.world
    try:
        async with asyncio.timeout(START_SECONDS):
            await stage.daemon.up()
            while not await world.feed.until(world.connections, START_SECONDS):
                pass
            if stage.hosts:
                await all_known(stage.home)
    except TimeoutError:
        words = f"The daemon wasn't running and connected within {START_SECONDS:g} s. {stage.daemon.last_words()}"
        raise DemoError(words) from None


def _settle(world: World) -> None:
    """Add the demo's people, also after a reset. The audit trail has their display names."""
    for name in (OPERATOR, APPROVER, VIEWER):
        world.add_user(name, display_name=name)
    world.add_user(GUEST, display_name=GUEST, is_restricted=True)
    world.set_group("oncall", "On call", [world.workspace.user(name).id for name in (OPERATOR, APPROVER)])


def _rights(world: World) -> Rights:
    space = world.workspace
    return Rights([space.user(OPERATOR).id], [space.user(APPROVER).id], space.channel(CHANNEL).id)


async def _end(daemon: DemoDaemon, problems: list[str]) -> None:
    problems += await daemon.end()


async def _remove(home: Home, problems: list[str]) -> None:
    """Delete the folder, or add the reason why it can't be."""
    error: OSError | None = None
    for _ in range(REMOVALS):
        try:
            await asyncio.to_thread(remove, home)
        except OSError as found:
            error = found
            await asyncio.sleep(REMOVAL_SECONDS)
        else:
            return
    problems.append(f"The folder {home.folder} can't be deleted: {error}")
