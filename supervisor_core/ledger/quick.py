"""The ledger for a pass that has nothing to do: does anything wait, and the heartbeats' rows, without SQLAlchemy.

Whatever is not as expected here (no file, another version, damage) is no error but a reason to open the ledger in
the usual way, which puts it right or says what is wrong.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from supervisor_core.domain.times import to_text
from supervisor_core.ledger.heartbeats import Execute

FILE_NAME = "ledger.db"
BUSY_SECONDS = 30.0
"""As long as any writer waits for another process's transaction; ours last milliseconds."""

MIGRATIONS = Path(__file__).with_name("migrations") / "versions"
_WAITS = """
SELECT 1 FROM jobs_t WHERE worker_id = ? AND state IN ('queued', 'claimed', 'started')
UNION ALL SELECT 1 FROM outbox_t WHERE kind = 'result_file' AND state = 'pending' AND due_at <= ? LIMIT 1
"""


def newest_version() -> str:
    """The revision that our migrations lead to, by the names of their files."""
    return max(name[:4] for name in os.listdir(MIGRATIONS) if name[:4].isdecimal())


def nothing_waits(path: Path, worker_id: str, now: datetime) -> bool:
    """Whether the ledger is ours, and no job of this worker and no result that is due waits in it."""
    try:
        with closing(_opened(path)) as connection:
            versions = connection.execute("SELECT version_num FROM alembic_version").fetchall()
            waits = connection.execute(_WAITS, (worker_id, to_text(now))).fetchone()
    except sqlite3.Error:
        return False
    return versions == [(newest_version(),)] and waits is None


def write(path: Path, work: Callable[[Execute], None]) -> bool:
    """Have plain SQL run in one transaction, as durable as every other; False where that was not possible."""
    try:
        with closing(_opened(path)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            work(connection.execute)
            connection.execute("COMMIT")
    except sqlite3.Error:
        return False
    return True


def _opened(path: Path) -> sqlite3.Connection:
    """The file, which is never made here."""
    address = f"file:{quote(str(path))}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
