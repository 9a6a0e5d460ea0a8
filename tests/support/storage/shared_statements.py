"""Compiled statements that the SQLite engines of a test process share, and those that create a ledger's tables.

SQLAlchemy compiles a statement once for each engine, since their dialects may have options. Ours have none, and a test
with a ledger of its own would compile the same statements as the tests before it. Programs that are forked share those
of the process that they are forked from; one that is started from nothing compiles its own.

The statements that create tables are compiled anew each time. The first ledger of a process is created as in the
product, and those after it by the statements that SQLite has kept of it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from supervisor_core.storage import engine as engines
from supervisor_core.storage import schema

STATEMENTS = 4000

_pin = engines._pin_sqlite  # noqa: SLF001 (a door that is not for others to use)
_compiled: LRUCache[Any, Any] = LRUCache(STATEMENTS)

_create = schema.create_tables
_creating: list[str] = []


def use() -> None:
    """Share them in this process until its end."""
    setattr(engines, "_pin_sqlite", _pin_and_share)  # noqa: B010 (see above)
    setattr(schema, "create_tables", _create_again)  # noqa: B010 (mypy)
    # A compiled statement is found by its dialect, so all of one class count as the same.
    setattr(SQLiteDialect_pysqlite, "__hash__", lambda self: hash(type(self)))  # noqa: B010 (mypy)
    setattr(SQLiteDialect_pysqlite, "__eq__", lambda self, other: type(self) is type(other))  # noqa: B010 (mypy)


def _pin_and_share(engine: Engine, **options: Any) -> None:
    _pin(engine, **options)
    engine._compiled_cache = _compiled  # noqa: SLF001 (SQLAlchemy lets nobody pass it)


def _create_again(connection: Connection) -> None:
    if connection.dialect.name != "sqlite" or connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first():
        _create(connection)
        return
    if not _creating:
        _create(connection)
        kept = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
        _creating[:] = [*kept.scalars(), f"INSERT INTO alembic_version VALUES ('{schema.HEAD}')"]
        return
    for statement in _creating:
        connection.exec_driver_sql(statement)
