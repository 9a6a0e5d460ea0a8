"""`supervisor playground`: a local Slack to try and to test bots with."""

from __future__ import annotations

import argparse
from importlib import import_module


def configure(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("--port", type=int, default=0, metavar="P", help="where to listen on this machine; else any")
    parser.add_argument("--manifest", metavar="FILE", help="the app's manifest; else ./manifest.yml, else any app")
    parser.add_argument("--journal", metavar="FILE", help="write everything that happens there, as JSON lines")
    parser.add_argument("--rate-limits", action="store_true", help="judge Slack's rate limits as well")


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted. The playground is loaded by name: the core knows nothing of it."""
    command = import_module("bot.playground.command")
    code: int = command.run(
        port=options.port, manifest=options.manifest, journal=options.journal, rate_limits=options.rate_limits
    )
    return code
