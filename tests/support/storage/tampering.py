"""Altering rows of an audit trail behind the program's back, as somebody with the database's password would: the
triggers go first, or the database refuses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from supervisor_core.storage.audit import guard as audit_guard

TABLE = "audit_log_t"


def unguard(connection: Connection) -> None:
    """Let rows of the audit trail be changed and removed from here on."""
    audit_guard.drop(connection)


def unguard_file(path: Path) -> None:
    """The same for a file of SQLite."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            if name.startswith("audit_log_"):
                connection.execute(f"DROP TRIGGER {name}")


def put_cell(path: Path, rowid: int, column: str, value: Any, *, as_text: bool = False) -> bool:
    """Store this value in a cell of SQLite; bytes `as_text` become text that may not be UTF-8. False where the cell
    is the same afterwards, or the table takes no such value."""
    unguard_file(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        stored = f"SELECT typeof({column}), CAST({column} AS BLOB) FROM {TABLE} WHERE rowid = ?"
        before = connection.execute(stored, (rowid,)).fetchone()
        place = "CAST(? AS TEXT)" if as_text else "?"
        try:
            connection.execute(f"UPDATE {TABLE} SET {column} = {place} WHERE rowid = ?", (value, rowid))
        except sqlite3.IntegrityError:
            return False
        return bool(connection.execute(stored, (rowid,)).fetchone() != before)
