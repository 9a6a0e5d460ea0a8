"""Folders that are slow to make, made once in a run of the tests: its processes share them, the last removes them."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name; the first process that needs it has it made. It's for copying, and stays as it is."""
    folder = _shared() / name
    made = folder.with_suffix(".made")
    if not made.exists():
        with (_shared() / "making").open("a") as making:
            fcntl.flock(making, fcntl.LOCK_EX)
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of one that failed
                make(folder)
                made.touch()
    return folder


@functools.cache
def _shared() -> Path:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    shared = Path(tempfile.gettempdir()) / f"run-{run}"
    while True:
        shared.mkdir(mode=0o711, exist_ok=True)  # a database server of another user reads its own in there
        users = (shared / "users").open("a")
        fcntl.flock(users, fcntl.LOCK_SH)
        if (shared / "users").exists():  # else the last one has just removed it all
            break
    atexit.register(_leave, shared, users)
    return shared


def _leave(shared: Path, users: IO[str]) -> None:
    """Remove it if no other process uses it."""
    with contextlib.suppress(OSError):
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(shared, ignore_errors=True)
