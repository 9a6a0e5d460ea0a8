"""`supervisor stop`: ask the daemon to end, and come back when it has. Its workers go on."""

from __future__ import annotations

import argparse

from supervisor_core.adapters.locks import FileLock, LockedError
from supervisor_core.config import load_supervisor_config
from supervisor_core.runtime.control_client import NotRunningError, UnresponsiveError, ask
from supervisor_core.runtime.ownership import DAEMON_LOCK, daemon_holder

MARGIN_SECONDS = 15.0
"""What the end of the program may take beyond what the daemon says that it needs."""


def configure(_parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(options: argparse.Namespace) -> int:
    """Ask, then wait until the lock is free: that is when the daemon is gone."""
    config = load_supervisor_config(options.config)
    holder = daemon_holder(config.state_dir) if config.state_dir.is_dir() else None
    if holder is None:
        print("stopped: no daemon was running")
        return 0
    try:
        answer = ask(str(config.state_dir), {"do": "stop"})
        lock = FileLock(config.state_dir / DAEMON_LOCK)
        lock.acquire(exclusive=False, timeout=answer["bound_seconds"] + MARGIN_SECONDS).release()
    except (NotRunningError, UnresponsiveError, LockedError):
        print(f"The daemon (pid {holder}) does not end; its log says what it does.")
        return 1
    workers = ", ".join(answer["workers"]) or "none was running"
    print(f"stopped: pid {answer['pid']}; workers that go on: {workers}")
    return 0
