"""`supervisor start`: the daemon in the background; back when it is up."""

from __future__ import annotations

import argparse

from supervisor_core.config import load_supervisor_config
from supervisor_core.runtime.host import prepare_state_dir
from supervisor_core.runtime.starting_daemon import start_daemon


def configure(_parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(options: argparse.Namespace) -> int:
    """Check the configuration first: what is wrong with it is said here, and not in a log."""
    config = load_supervisor_config(options.config)
    prepare_state_dir(config)
    started = start_daemon(config.state_dir, config.path, config.logging.file)
    if started.stale_pid:
        print(f"The daemon before (pid {started.stale_pid}) had died without a word; its place is taken over.")
    print(f"started: pid {started.pid}")
    for problem in started.problems:
        print(f"  {problem}")
    return 1 if started.problems else 0
