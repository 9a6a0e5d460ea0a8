"""The ledger's file, opened with SQLite's own driver: importing SQLAlchemy would cost more than these looks do.

Nothing here creates the file, upgrades it, or waits for a writer longer than a moment. A pass that has nothing to do
writes its heartbeats here as well. `doctor`, `status` and such a pass use it; everybody else uses `store.Ledger`.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from supervisor_core.common.times import from_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime


SHARED_DATABASE = "shared-database"
"""The kind of an outbox row that names an audit row or a worker's row for the shared database."""

LEDGER_FILE = "ledger.db"

VERSION = "0022"
"""The newest revision in `migrations/versions`; a test compares the two."""

READER_SECONDS = 2.0
WRITER_SECONDS = 30.0
"""The wait for another process's transaction; ours last milliseconds."""

STEPS = 10_000
"""Steps of SQLite's between two looks at the clock: some milliseconds."""

_TEAMS = """
SELECT team_id, name, objective, ended_at FROM teams_t WHERE supervisor_id = ? ORDER BY name
"""
_MEMBERS = """
SELECT team_id, agent_id, role, joined_at, left_at FROM team_members_t WHERE supervisor_id = ?
ORDER BY joined_at, active_agent_id IS NOT NULL, left_at, agent_id
"""


def connect(path: Path, mode: str, busy_seconds: float, *, any_thread: bool = False) -> sqlite3.Connection:
    """A connection in mode `ro` or `rw` to a file that must be there."""
    address = f"file:{quote(str(path))}?mode={mode}"
    return sqlite3.connect(
        address, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=not any_thread
    )


class FileState(NamedTuple):
    version: str | None
    """The revision of its tables; None where there are none."""
    damage: str
    """The first damage that SQLite found in the file; empty where it found none."""
    whole: bool
    """True if the whole file was checked in time."""


def file_state(path: Path, seconds: float) -> FileState:
    """The state of a ledger, after at most so long; `sqlite3.Error` for a file that isn't a database."""
    with closing(connect(path, "ro", READER_SECONDS)) as connection:
        version = _version(connection)
        deadline = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return FileState(version, "", False)
        return FileState(version, "" if found == "ok" else str(found), True)


def _version(connection: sqlite3.Connection) -> str | None:
    tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    if connection.execute(tables).fetchone() is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


def envelope_times(path: Path, kind: str) -> tuple[datetime, datetime] | None:
    """The times of the first and the last envelope of this kind; None if there are none."""
    try:
        with closing(connect(path, "ro", READER_SECONDS)) as connection:
            query = "SELECT min(received_at), max(received_at) FROM envelopes_t WHERE kind = ?"
            first, last = connection.execute(query, (kind,)).fetchone()
    except sqlite3.Error:
        return None
    return (from_text(first), from_text(last)) if first else None


class StoredMember(NamedTuple):
    """One agent's time in a team; the times as they stand in the file."""

    agent_id: str
    role: str
    joined_at: str
    left_at: str | None


class StoredTeam(NamedTuple):
    """A team and its present and former members, in the order in which they came."""

    team_id: str
    name: str
    objective: str | None
    ended_at: str | None
    members: tuple[StoredMember, ...]


def read_teams(path: Path, supervisor_id: str) -> list[StoredTeam]:
    """The teams of this supervisor, ended ones included. A file that can't be read has none: `doctor` reports it."""
    try:
        with closing(connect(path, "ro", READER_SECONDS)) as connection:
            connection.execute("BEGIN")
            teams = connection.execute(_TEAMS, (supervisor_id,)).fetchall()
            members = connection.execute(_MEMBERS, (supervisor_id,)).fetchall()
    except sqlite3.Error:
        return []
    seen = []
    for team_id, name, objective, ended_at in teams:
        mine = tuple(StoredMember(*member) for team, *member in members if team == team_id)
        seen.append(StoredTeam(team_id, name, objective, ended_at, mine))
    return seen
