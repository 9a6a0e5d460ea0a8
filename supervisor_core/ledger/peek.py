"""A look into a ledger that changes nothing: no upgrade, no new file, no lock that a writer would wait for."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from supervisor_core.domain.times import from_text

BUSY_SECONDS = 2.0
STEPS = 10_000
"""So many steps of SQLite's between two looks at the clock: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Peek:
    """What was seen."""

    version: str | None
    """The revision of its tables; None where there are none."""
    damage: str
    """The first damage that SQLite found in the file; empty where it found none."""
    whole: bool
    """Whether all of the file was looked at before the time was over."""
    triggers: frozenset[str] = frozenset()
    """The names of its triggers."""


def peek(path: Path, seconds: float) -> Peek:
    """The state of a ledger; `sqlite3.Error` for a file that is none."""
    with _reading(path) as connection:
        version = _version(connection)
        named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        triggers = frozenset(str(name) for (name,) in named)
        deadline = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return Peek(version, "", False, triggers)
        return Peek(version, "" if found == "ok" else str(found), True, triggers)


def received(path: Path, kind: str) -> tuple[datetime, datetime] | None:
    """When an envelope of this kind first and last came, of those that are still kept; None where none is known."""
    if not path.exists():
        return None
    try:
        with _reading(path) as connection:
            query = "SELECT min(received_at), max(received_at) FROM envelopes_t WHERE kind = ?"
            first, last = connection.execute(query, (kind,)).fetchone()
    except sqlite3.Error:
        return None
    return (from_text(first), from_text(last)) if first else None


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    try:
        yield connection
    finally:
        connection.close()


def _version(connection: sqlite3.Connection) -> str | None:
    tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    if connection.execute(tables).fetchone() is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None
