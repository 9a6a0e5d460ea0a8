"""The program behind `supervisor playground`: serves one local Slack until it is interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path

from bot.playground import manifest as manifests
from bot.playground.manifest import App
from bot.playground.server import Server
from bot.playground.values import PlaygroundError
from bot.playground.world import World

PEOPLE = ("operator", "approver", "viewer")
SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130


def run(*, port: int, manifest: str | None, journal: str | None, rate_limits: bool) -> int:
    """Serve; returns the exit code."""
    try:
        app = _app(manifest)
        server = Server(app, port=port, journal=Path(journal) if journal else None, rate_limits=rate_limits)
        return asyncio.run(_serve(server))
    except PlaygroundError as error:
        print(f"supervisor: {error.message}", file=sys.stderr)  # noqa: T201
        return FAILURE if error.error == "port" else USAGE
    except OSError as error:
        print(f"supervisor: the journal {journal} can't be written: {error.strerror}", file=sys.stderr)  # noqa: T201
        return USAGE


def _app(path: str | None) -> App:
    if path:
        return manifests.read(path)
    return manifests.read("manifest.yml") if Path("manifest.yml").exists() else App()


def _settle(world: World) -> None:
    """The people whom everybody meets here, from the beginning and after each reset."""
    for name in PEOPLE:
        world.add_user(name)
    world.add_user("guest", is_restricted=True)
    world.set_group("oncall", "On call", [world.workspace.user(name).id for name in ("operator", "approver")])


async def _serve(server: Server) -> int:
    stopped = asyncio.Event()
    code = SUCCESS
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        nonlocal code
        code = INTERRUPTED if number == signal.SIGINT else SUCCESS
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        if os.name == "posix":
            loop.add_signal_handler(number, stop, number)
        else:
            signal.signal(number, lambda got, _frame: loop.call_soon_threadsafe(stop, got))
    await server.start()
    world = server.world
    world.settle = partial(_settle, world)
    world.settle()
    lines = {"SLACK_API_URL": f"{world.base_url}/api/", "SLACK_BOT_TOKEN": world.bot_token}
    lines |= {"SLACK_APP_TOKEN": world.app_token}
    for name, value in lines.items():
        print(f"{name}={value}")  # noqa: T201
    print(f"{world.base_url}/", flush=True)  # noqa: T201
    try:
        await stopped.wait()
    finally:
        await server.stop()
    return code
