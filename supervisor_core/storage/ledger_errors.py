"""Errors of the ledger: the driver's words, with a remedy that a person can act on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.host.permissions import why_denied

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_WHY = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Free some space. It retries automatically."),
    sqlite3.SQLITE_IOERR: ("the disk has an error", "Check the disk, and whether it's full. It retries automatically."),
    sqlite3.SQLITE_CANTOPEN: ("it can't be opened", "Check that the state folder exists and belongs to this user."),
    sqlite3.SQLITE_READONLY: (
        "it's read-only",
        "Check the permissions of the state folder and how its disk is mounted.",
    ),
    sqlite3.SQLITE_BUSY: ("it's locked", "Another program holds it. It retries automatically."),
    sqlite3.SQLITE_LOCKED: ("it's locked", "Another program holds it. It retries automatically."),
}
_DENIED = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
"""The codes behind which there may be a missing permission."""
_LOST_TABLE = ("no such table", "malformed database schema", "unsupported file format")
"""Words for damage of the schema, which has no code of its own. The tables were there when the ledger was opened."""


class LedgerDamaged(LedgerUnavailable):
    retryable = False
    short = "the ledger is damaged"

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"The ledger {path} is damaged: {what}.",
            remedy="Workers and pauses aren't affected. Run `supervisor doctor` for how to restore it.",
        )


def ledger_error(path: Path, problem: BaseException, verb: str = "used") -> LedgerUnavailable | None:
    """The ledger's error for a driver's error about the file or its disk; None for any other."""
    error = getattr(problem, "orig", problem)  # SQLAlchemy's wrap the driver's
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says where in SQLite
    if code in _DAMAGED or any(words in str(error) for words in _LOST_TABLE):
        return LedgerDamaged(path, str(error))
    if code in _WHY:
        why, remedy = next(filter(all, map(why_denied, _files(path))), ("", "")) if code in _DENIED else ("", "")
        if not why:
            why, remedy = _WHY[code]
        trouble = LedgerUnavailable(f"The ledger {path} can't be {verb}: {why} ({error}).", remedy=remedy)
        trouble.short = f"the ledger can't be {verb}: {why}"
        return trouble
    if isinstance(error, sqlite3.OperationalError) and verb == "written":
        return LedgerUnavailable(f"The ledger {path} can't be written: {error}.", remedy="Check the state folder.")
    return None


def _files(path: Path) -> list[Path]:
    """The files that SQLite reads and writes, and their folder."""
    return [path.parent, *(path.with_name(f"{path.name}{suffix}") for suffix in ("", "-wal", "-shm"))]


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Errors of the driver become the ledger's troubles in here."""
    try:
        yield
    except sqlite3.Error as error:
        trouble = ledger_error(path, error, "read")
        raise (trouble or LedgerUnavailable(f"The ledger {path} can't be read: {error}.")) from error
