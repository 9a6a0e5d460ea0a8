"""The schema's version: is it ours, and how it becomes ours. Alembic is imported only where something must change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from supervisor_core.domain.errors import SupervisorError

HEAD = "0012"
"""The newest revision in `migrations/versions`; a test compares the two."""

UPGRADE_LOCK = 7_240_158  # any number that nobody else uses on a shared server
_LOCK_SECONDS = 5
"""How long MariaDB has us wait for another upgrade; less than the shortest usual time limit of a query."""


class SchemaError(SupervisorError):
    """The database has tables of another version."""


def current(connection: Connection) -> str | None:
    """The revision that this database is at; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def ensure(engine: Engine) -> None:
    """Bring the database to our version. Any number of processes may do this at once; one of them does the work."""
    with engine.connect() as connection:
        if current(connection) == HEAD:
            return
    with engine.connect() as connection, _lock(connection):
        found = current(connection)
        if found != HEAD:
            _upgrade(connection, found)
            connection.commit()


@contextmanager
def _lock(connection: Connection) -> Iterator[None]:
    """One upgrade at a time. SQLite needs none: its transactions begin with the write lock."""
    if connection.dialect.name == "postgresql":  # let go of by the end of the transaction
        connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": UPGRADE_LOCK})
    if connection.dialect.name not in ("mysql", "mariadb"):
        yield
        return
    # The connection's, whatever becomes of its transaction, until it is let go of or the connection is closed.
    locked = text("SELECT GET_LOCK('supervisor_schema', :seconds)")
    if not connection.execute(locked, {"seconds": _LOCK_SECONDS}).scalar():
        raise SchemaError("Somebody else is upgrading the database at the moment.", remedy="Try again in a minute.")
    try:
        yield
    finally:
        with suppress(SQLAlchemyError):  # a connection that is gone holds no lock
            connection.execute(text("SELECT RELEASE_LOCK('supervisor_schema')"))


def _upgrade(connection: Connection, found: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaError(
            f"The database is at version {found}, which this program does not know: it was made by a newer one.",
            remedy="Install that version again, or point to another database.",
        )
    command.upgrade(config, "head")
