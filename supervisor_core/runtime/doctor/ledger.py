"""The check of the ledger: its tables are of our version, and its file is whole."""

from __future__ import annotations

import sqlite3

from supervisor_core.config import SupervisorConfig
from supervisor_core.ledger import schema
from supervisor_core.ledger.peek import peek
from supervisor_core.ledger.store import FILE_NAME
from supervisor_core.runtime.doctor.checks import Check

NAME = "ledger"
LOOK_SECONDS = 10.0


def look(config: SupervisorConfig) -> Check:
    """The SQLite file in the state folder, looked at without changing it."""
    path = config.state_dir / FILE_NAME
    if not path.exists():
        return Check(NAME, True, f"{path} is not there yet; the first run makes it")
    try:
        seen = peek(path, LOOK_SECONDS)
    except sqlite3.OperationalError as error:  # the disk, not the file: its pages were not even looked at
        remedy = f"Is the disk of {config.state_dir} full, or away? Make room; leave {FILE_NAME} where it is."
        return Check(NAME, False, f"{path} can't be read: {error}", remedy)
    except sqlite3.Error as error:
        return Check(NAME, False, f"{path} can't be read: {error}", _put_aside(config))
    if seen.damage:
        return Check(NAME, False, f"{path} is damaged: {' '.join(seen.damage.split())}", _put_aside(config))
    if seen.version != schema.HEAD:
        return _of_another_version(seen.version)
    whole = "and found whole" if seen.whole else f"but too large to be looked through in {LOOK_SECONDS:g} s"
    return Check(NAME, True, f"{path} is at version {schema.HEAD}, {whole}")


def _of_another_version(found: str | None) -> Check:
    if found is not None and found > schema.HEAD:
        message = f"it is at version {found}, and this program knows versions up to {schema.HEAD}"
        return Check(NAME, False, message, "It was made by a newer supervisor: install that one again.")
    message = f"it is at version {found or 'none'}, not {schema.HEAD}"
    return Check(NAME, False, message, "Run: supervisor db upgrade")


def _put_aside(config: SupervisorConfig) -> str:
    return (
        f"Stop the supervisor, move {FILE_NAME}, {FILE_NAME}-wal and {FILE_NAME}-shm out of {config.state_dir}, "
        "and put a backup in their place; without one the next run begins a new ledger."
    )
