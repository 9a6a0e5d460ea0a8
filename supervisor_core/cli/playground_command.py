"""`supervisor playground`: a local Slack to try and to test bots with."""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType

from supervisor_core.domain.errors import SupervisorError


def configure(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("--port", type=int, default=0, metavar="P", help="where to listen on this machine; else any")
    parser.add_argument("--manifest", metavar="FILE", help="the app's manifest; else ./manifest.yml, else any app")
    parser.add_argument("--journal", metavar="FILE", help="write everything that happens there, as JSON lines")
    parser.add_argument("--rate-limits", action="store_true", help="judge Slack's rate limits as well")


def run(options: argparse.Namespace) -> int:
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
