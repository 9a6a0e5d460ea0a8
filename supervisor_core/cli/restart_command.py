"""`supervisor restart`: the daemon ends and starts again; its workers go on all the time."""

from __future__ import annotations

import argparse

from supervisor_core.cli import start_command
from supervisor_core.cli.stop_command import in_words
from supervisor_core.config import load_supervisor_config
from supervisor_core.runtime.stopping_daemon import Door, stop_daemon


def configure(_parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(options: argparse.Namespace) -> int:
    """The configuration is checked before anything ends: with one that is wrong the old daemon goes on."""
    config = load_supervisor_config(options.config)
    ended = stop_daemon(Door(config.state_dir)) if config.state_dir.is_dir() else None
    print(in_words(ended))
    return start_command.run(options)
