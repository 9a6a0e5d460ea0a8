"""Damage to a ledger's file: its pages really overwritten, as a failing disk or a careless copy leaves them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

PAGE = 4096


def overwrite(path: Path, what: str) -> None:
    """Overwrite the `header`, the `middle`, `everything`, or the first page of the table of this name."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = connection.execute(query, (what,)).fetchone() or (0,)
    size = path.stat().st_size
    places = {"header": (0, PAGE), "middle": (size // 4 // PAGE * PAGE, size // 2), "everything": (0, size)}
    start, length = places.get(what, ((page - 1) * PAGE, PAGE))
    with path.open("r+b") as file:
        file.seek(start)
        file.write((b"\xa5damaged" * (length // 8 + 1))[:length])
