"""The program `slack-playground`: serves a local Slack until it's interrupted."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from slack_playground.server import Server
from slack_playground.values import PlaygroundError
from slack_playground.world import manifest as manifests
from slack_playground.world.manifest import App
from slack_playground.world.world import World

PEOPLE = ("operator", "approver", "viewer")
LONGEST_LATENCY = 60.0  # seconds
SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130


def milliseconds(word: str) -> float:
    """Seconds, from a number of milliseconds on the command line."""
    seconds = float(word) / 1000
    if not 0 <= seconds < LONGEST_LATENCY:
        raise ValueError(word)
    return seconds


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="slack-playground", description="Runs a local Slack in the browser, to try and test any bot."
    )
    parser.add_argument("--port", type=int, default=0, metavar="P", help="port of the page; any free port by default")
    parser.add_argument("--manifest", metavar="FILE", help="manifest of the app (default: ./manifest.yml if it exists)")
    parser.add_argument("--journal", metavar="FILE", help="write all traffic and actions to this file as JSON lines")
    parser.add_argument("--rate-limits", action="store_true", help="apply Slack's rate limits")
    parser.add_argument("--strict", action="store_true", help="refuse unknown arguments of methods")
    parser.add_argument("--latency", type=milliseconds, default=0.0, metavar="MS", help="delay each Web API call")
    return run(parser.parse_args(args))


def run(options: argparse.Namespace, program: str = "slack-playground") -> int:
    """Serve; returns the exit code. Errors start with the program's name."""
    journal = Path(options.journal) if options.journal else None
    try:
        app = _app(options.manifest)
        limits = {"rate_limits": options.rate_limits, "strict": options.strict, "latency": options.latency}
        server = Server(app, port=options.port, journal=journal, **limits)
        return asyncio.run(_serve(server))
    except PlaygroundError as error:
        print(f"{program}: {error.message}", file=sys.stderr)  # noqa: T201
        return FAILURE if error.error == "port" else USAGE
    except OSError as error:
        print(f"{program}: the journal {journal} can't be written: {error.strerror}", file=sys.stderr)  # noqa: T201
        return USAGE


def _app(path: str | None) -> App:
    if path:
        return manifests.read(path)
    return manifests.read("manifest.yml") if Path("manifest.yml").exists() else App()


def _settle(world: World) -> None:
    """Add the first users, also after a reset."""
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
    world.tell_warning = lambda words: print(f"warning: {words}", file=sys.stderr, flush=True)  # noqa: T201
    print(f"SLACK_API_URL={world.base_url}/api/")  # noqa: T201
    print(f"SLACK_BOT_TOKEN={world.bot_token}\nSLACK_APP_TOKEN={world.app_token}")  # noqa: T201
    print(f"{world.base_url}/", flush=True)  # noqa: T201
    try:
        await stopped.wait()
    finally:
        await server.stop()
    return code
