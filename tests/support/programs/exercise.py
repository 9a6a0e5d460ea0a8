"""A daemon's life in this process, before it is forked: what a program does once in its life is then done for all.

SQLAlchemy compiles each statement at its first use, for one. A daemon that is forked after that takes a sixth less CPU
time for two commands.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from functools import partial
from pathlib import Path

import yaml

from supervisor_core.common import threads
from supervisor_core.processes.manager import HostProcesses
from tests.support.storage import shared_statements
from tests.support.waiting import wait_until

SECONDS = 20.0

WORKER = "OrionMX"
COMMANDS = ("pause", "resume", "restart")


def live_once() -> None:
    """Run a daemon that starts a worker and carries out commands, to its end. No thread is left of it."""
    shared_statements.use()
    idle, threads.IDLE_SECONDS = threads.IDLE_SECONDS, 0.0
    cwd, environ = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="exercise-") as name:
        folder = Path(name)
        try:
            _run_daemon(folder)
        finally:
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environ)
            HostProcesses(folder / "var").stop(WORKER, timeout=0.1)
            threads.IDLE_SECONDS = idle
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    wait_until(lambda: threading.active_count() == 1, SECONDS, "its threads have ended")


def _run_daemon(folder: Path) -> None:
    from supervisor_core.cli import main

    inbox, outbox = folder / "nas" / "Worker_Inbox", folder / "nas" / "Worker_Outbox"
    inbox.mkdir(parents=True)
    worker = {"command": ["sleep", "1000"], "start_grace_seconds": 0.01, "stop_timeout_seconds": 5}
    document = {
        "supervisor": {"id": "Exercise", "state_dir": "var", "inbox_poll_seconds": 0.5},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {WORKER: worker},
    }
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(document))
    os.chdir(folder)
    os.environ["SUPERVISOR_CONFIG"] = str(config)

    def command() -> None:
        try:
            for name in COMMANDS:
                (inbox / f"supervisor_{name}_{WORKER}_{name}1.flag").write_text("{}")
                wait_until(partial(_has_result, outbox, name), SECONDS, f"the exercise's {name} ended")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    commander = threading.Thread(target=command)
    commander.start()
    main(["run", "--quiet"])
    commander.join()


def _has_result(outbox: Path, name: str) -> bool:
    return any(outbox.glob(f"*{name}1.json"))
