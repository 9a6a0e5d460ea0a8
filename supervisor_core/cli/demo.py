"""`supervisor playground`: a local Slack to try and to test bots with.

`supervisor demo`: a local Slack, a real supervisor and a real worker at once, to try it all.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType

from supervisor_core.common.errors import SupervisorError


def configure_playground(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("--port", type=int, default=0, metavar="P", help="where to listen on this machine; else any")
    parser.add_argument("--manifest", metavar="FILE", help="the app's manifest; else ./manifest.yml, else any app")
    parser.add_argument("--journal", metavar="FILE", help="write everything that happens there, as JSON lines")
    parser.add_argument("--rate-limits", action="store_true", help="judge Slack's rate limits as well")


def run_playground(options: argparse.Namespace) -> int:
    """Serve until interrupted. The playground is a distribution of its own, loaded only here."""
    command = load("slack_playground.command", "supervisor playground")
    code: int = command.run(options, program="supervisor")
    return code


def load(module: str, command: str) -> ModuleType:
    """A module that needs the distribution `slack-playground`; without it the command fails in one clear line."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "slack_playground":
            raise
        raise SupervisorError(
            f"`{command}` needs the package slack-playground, which isn't installed.",
            remedy="Install it with the extra `demo`: pip install 'supervisor-chatops[demo]'. In a checkout:"
            " pip install ./playground.",
        ) from error


HIGHEST_PORT = 65535


def configure(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("--port", type=_port, default=0, metavar="P", help="where the page listens; else any free port")
    parser.add_argument("--tour", action="store_true", help="play a session without a browser, check it, and end")


def run(options: argparse.Namespace) -> int:
    """Run it until it is over. The demo is loaded by name: the core knows nothing of it."""
    command = load("bot.demo.command", "supervisor demo")
    code: int = command.run(port=options.port, guided=options.tour)
    return code


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 (any free one) to {HIGHEST_PORT}, not {text!a}")
    return int(text)
