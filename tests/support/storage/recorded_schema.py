"""The schema of a new SQLite database from a record of the migrations, which take a hundred times as long.

The record is made by the migrations themselves, once in each process that runs tests. A database that has anything in
it, and every other engine, is migrated as always.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine

from supervisor_core.storage import schema

_migrate = schema._upgrade  # noqa: SLF001 (a door that is not for others to use)
_record: list[str] = []


def use() -> None:
    """Use the record in this program until its end."""
    setattr(schema, "_upgrade", _upgrade)  # noqa: B010 (see above)


@contextmanager
def unused() -> Iterator[None]:
    """Migrate new databases meanwhile."""
    setattr(schema, "_upgrade", _migrate)  # noqa: B010 (see above)
    try:
        yield
    finally:
        use()


def record() -> list[str]:
    """The statements that make the schema."""
    if not _record:
        with create_engine("sqlite://").connect() as connection:
            _migrate(connection, None)
            look = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
            _record.extend(sql for (sql,) in connection.exec_driver_sql(look))
            _record.append(f"INSERT INTO alembic_version VALUES ('{schema.current_revision(connection)}')")
    return _record


def _upgrade(connection: Connection, found: str | None) -> None:
    is_new = found is None and connection.dialect.name == "sqlite"
    if is_new and not connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar():
        for statement in record():
            connection.exec_driver_sql(statement)
    else:
        _migrate(connection, found)
