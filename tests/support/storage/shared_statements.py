"""Compiled statements that the SQLite engines of a test process share.

SQLAlchemy compiles a statement once for each engine, since their dialects may have options. Ours have none, and a test
with a ledger of its own would compile the same statements as the tests before it. Programs that are forked share those
of the process that they are forked from; one that is started from nothing compiles its own.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from supervisor_core.storage import engine as engines

STATEMENTS = 4000

_pin = engines._pin_sqlite  # noqa: SLF001 (a door that is not for others to use)
_compiled: LRUCache[Any, Any] = LRUCache(STATEMENTS)


def use() -> None:
    """Share them in this process until its end."""
    setattr(engines, "_pin_sqlite", _pin_and_share)  # noqa: B010 (see above)
    # A compiled statement is found by its dialect, so all of one class count as the same.
    setattr(SQLiteDialect_pysqlite, "__hash__", lambda self: hash(type(self)))  # noqa: B010 (mypy)
    setattr(SQLiteDialect_pysqlite, "__eq__", lambda self, other: type(self) is type(other))  # noqa: B010 (mypy)


def _pin_and_share(engine: Engine) -> None:
    _pin(engine)
    engine._compiled_cache = _compiled  # noqa: SLF001 (SQLAlchemy lets nobody pass it)
