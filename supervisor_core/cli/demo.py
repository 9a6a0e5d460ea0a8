"""`supervisor playground` and `supervisor demo`: a local Slack, alone or with a real supervisor and worker."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from supervisor_core.common.errors import SupervisorError


def configure_playground(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("--port", type=int, default=0, metavar="P", help="where to listen on this machine; else any")
    parser.add_argument("--manifest", metavar="FILE", help="the app's manifest; else ./manifest.yml, else any app")
    parser.add_argument("--journal", metavar="FILE", help="write everything that happens there, as JSON lines")
    parser.add_argument("--rate-limits", action="store_true", help="judge Slack's rate limits as well")


def run_playground(options: argparse.Namespace) -> int:
    """Serve until interrupted. The playground is a distribution of its own, loaded only here."""
    with _playground_needed("supervisor playground"):
        command = import_module("slack_playground.command")
    code: int = command.run(options, program="supervisor")
    return code


@contextmanager
def _playground_needed(command: str) -> Iterator[None]:
    """Turn the missing distribution `slack-playground` into one clear line."""
    try:
        yield
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
    """Run it until it ends; the installed chat provides it."""
    from supervisor_core.daemon.wiring import installed_chat

    with _playground_needed("supervisor demo"):
        return installed_chat().run_demo(options.port, tour=options.tour)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 (any free one) to {HIGHEST_PORT}, not {text!a}")
    return int(text)
