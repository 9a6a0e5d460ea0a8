"""Imports what the command line, a daemon and the bot may need, and runs each once: what is forked has all that.

A daemon compiles some sixty statements while it comes up, and imports what it needs first; no test pays for that again.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pkgutil
import signal
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from slack_playground import Playground
from supervisor_core.cli import main
from supervisor_core.common import threads
from tests.support.storage import shared_statements
from tests.support.waiting import wait_until

COLD = {"demo", "playground", "migrations", "__main__"}
"""Parts of names of modules that no daemon imports, or that run when they are imported."""

CONFIGURATION = """
supervisor: {id: Warm}
metrics: {bind: ""}
workers: {W: {command: [sleep, '60'], heartbeat_max_age_seconds: 0, start_grace_seconds: 0.05}}
slack: {enabled: true, welcome: false, access: {operators: [U0OPERATOR]}}
"""


def tell_a_story(slack: Any) -> None:
    """What most tests do with a daemon; then it's asked to end."""
    try:
        slack.connected()
        operator = slack.user("operator")
        operator.slash("/supervisor resume").becomes("W resumed")
        operator.slash("/supervisor pause").becomes("W paused")
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


for package in ("supervisor_core", "bot"):
    for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}.", onerror=lambda _: None):
        if not COLD & set(module.name.split(".")):
            import_module(module.name)
for name in ("encodings.idna", "importlib.metadata", "sqlalchemy.dialects.sqlite", "tests.support.homes"):
    import_module(name)

shared_statements.use()
idle, threads.IDLE_SECONDS = threads.IDLE_SECONDS, 0.0
with tempfile.TemporaryDirectory(prefix="warm-") as folder, Path(os.devnull).open("w") as null:
    (config := Path(folder) / "config.yaml").write_text(CONFIGURATION)
    with contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
        for words in (("send", "pause W"), ("once", "--worker-id", "W")):
            main([*words, "--config", str(config)])
        with Playground.in_thread(patience=20) as slack:
            slack.user("operator")
            os.environ.update(slack.environment)
            threading.Thread(target=tell_a_story, args=(slack,)).start()
            main(["run", "--config", str(config)])
            for name in slack.environment:
                del os.environ[name]
wait_until(lambda: threading.active_count() == 1, 20, "its threads have ended")  # else it can't be forked safely
threads.IDLE_SECONDS = idle
gc.collect()
gc.freeze()
