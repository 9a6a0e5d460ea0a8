"""Altering rows of an audit trail behind the program's back, as somebody with write access to the file would."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

TABLE = "audit_log_t"


def put_cell(path: Path, rowid: int, column: str, value: Any, *, as_text: bool = False) -> bool:
    """Store this value in a cell of SQLite; bytes `as_text` become text that may not be UTF-8. False where the cell
    is the same afterwards, or the table takes no such value."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        stored = f"SELECT typeof({column}), CAST({column} AS BLOB) FROM {TABLE} WHERE rowid = ?"
        before = connection.execute(stored, (rowid,)).fetchone()
        place = "CAST(? AS TEXT)" if as_text else "?"
        try:
            connection.execute(f"UPDATE {TABLE} SET {column} = {place} WHERE rowid = ?", (value, rowid))
        except sqlite3.IntegrityError:
            return False
        return bool(connection.execute(stored, (rowid,)).fetchone() != before)
