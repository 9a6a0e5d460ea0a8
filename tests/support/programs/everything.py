"""Imports what the command line, a daemon and the bot may need, and runs one command: what is forked has all that."""

from __future__ import annotations

import contextlib
import gc
import os
import pkgutil
import tempfile
import threading
from importlib import import_module
from pathlib import Path

from supervisor_core.cli import main
from supervisor_core.common import threads
from tests.support.storage import shared_statements
from tests.support.waiting import wait_until

COLD = {"demo", "playground", "migrations", "__main__"}
"""Parts of names of modules that no daemon imports, or that run when they are imported."""

CONFIGURATION = "supervisor: {id: Warm}\nworkers: {W: {command: [sleep, '9']}}\n"

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
wait_until(lambda: threading.active_count() == 1, 20, "its threads have ended")  # else it can't be forked safely
threads.IDLE_SECONDS = idle
gc.collect()
gc.freeze()
