"""Imports what the command line, a daemon and the bot may need, so that whatever is forked after that has it."""

from __future__ import annotations

import gc
import pkgutil
import threading
from importlib import import_module

COLD = {"demo", "playground", "migrations", "__main__"}
"""Parts of names of modules that no daemon imports, or that run when they are imported."""

for package in ("supervisor_core", "bot"):
    for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}.", onerror=lambda _: None):
        if not COLD & set(module.name.split(".")):
            import_module(module.name)
for name in ("encodings.idna", "importlib.metadata", "sqlalchemy.dialects.sqlite", "tests.support.homes"):
    import_module(name)
assert threading.active_count() == 1, "a process with threads can't be forked safely"
gc.collect()
gc.freeze()
