"""`supervisor unmute`: alerts about workers are told again, what still holds at once."""

from __future__ import annotations

import argparse

from supervisor_core.cli.mute_command import from_words


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options; the words are those of the command in Slack."""
    parser.add_argument("words", nargs="*", metavar="TARGET REASON", help="as in Slack")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(options: argparse.Namespace) -> int:
    """End it."""
    return from_words("unmute", options)
