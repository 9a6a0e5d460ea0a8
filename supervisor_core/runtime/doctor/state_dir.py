"""The check of the state folder: there or to be made, ours alone, writable, on a local disk."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from supervisor_core.adapters.inbox import user_name
from supervisor_core.adapters.mounts import remote_kind
from supervisor_core.config import SupervisorConfig
from supervisor_core.runtime.doctor.checks import Check

NAME = "state_dir"
OTHERS = 0o077
SETTING = "Set supervisor.state_dir to a folder on a local disk."


def look(config: SupervisorConfig) -> Check:
    """The folder that holds the ledger."""
    folder = config.state_dir
    if folder.is_relative_to(config.nas.root):
        return Check(NAME, False, f"{folder} lies on the shared drive, {config.nas.root}", SETTING)
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    kind = remote_kind(there.resolve())
    if kind:
        return Check(NAME, False, f"{folder} lies on a network drive ({kind})", SETTING)
    return _as_it_is(folder) if there == folder else _to_be_made(folder, there)


def _to_be_made(folder: Path, there: Path) -> Check:
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        remedy = f"Make {folder} for this user, or set supervisor.state_dir to where this user may write."
        return Check(NAME, False, f"{folder} is not there and can't be made: {there} does not allow it", remedy)
    return Check(NAME, True, f"{folder} is not there yet; the first run makes it")


def _as_it_is(folder: Path) -> Check:
    if not folder.is_dir():
        return Check(NAME, False, f"{folder} is no folder", SETTING)
    status = folder.stat()
    if os.name == "posix":
        if status.st_uid != os.geteuid():
            remedy = f"Run supervisor as that user: sudo -u {user_name(status.st_uid)} supervisor doctor"
            return Check(NAME, False, f"{folder} belongs to {user_name(status.st_uid)}", remedy)
        if stat.S_IMODE(status.st_mode) & OTHERS:
            message = f"{folder} is open to others (mode {stat.S_IMODE(status.st_mode):04o}, not 0700)"
            return Check(NAME, False, message, f"chmod 700 {folder}")
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".doctor.") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        remedy = "Make room on the disk, or let this user write there."
        return Check(NAME, False, f"nothing can be written in {folder}: {error.strerror}", remedy)
    return Check(NAME, True, f"{folder} is ours alone, and can be written")
