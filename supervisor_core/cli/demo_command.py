"""`supervisor demo`: a local Slack, a real supervisor and a real worker at once, to try it all."""

from __future__ import annotations

import argparse

from supervisor_core.cli.playground_command import load

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
