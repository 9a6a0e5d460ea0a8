"""The schema's version, and the upgrade to ours. Alembic is imported only where something must change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from supervisor_core.common.errors import SupervisorError
from supervisor_core.storage.audit import guard as audit_guard
from supervisor_core.storage.ledger_file import VERSION
from supervisor_core.storage.tables import metadata
from supervisor_core.storage.tables.definition import set_mariadb_options

HEAD = VERSION
"""The newest revision in `migrations/versions`."""

NEVER_RELEASED = frozenset(f"{number:04}" for number in range(2, 17))
"""Revisions from the time before the first release. 0017 follows 0001, so none of them ever means another."""

NAMED = 3
"""Missing columns in a message."""

_REVISION = re.compile(r"\d{4}")

UPGRADE_LOCK = 7_240_158  # any number that nobody else uses on a shared server
_LOCK_SECONDS = 5
"""MariaDB's wait for another upgrade; less than the shortest usual query timeout."""


class SchemaError(SupervisorError):
    """The database's tables have another version."""


class ForeignTables(SchemaError):
    """Another program has tables with the same names in the database."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The database isn't the supervisor's: {what}. Nothing was changed.",
            remedy="Create a database of its own for the supervisor, and name it in database.url.",
        )


def current_revision(connection: Connection) -> str | None:
    """The revision that this database is at; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def unknown_revision(found: str) -> SchemaError:
    """The error for a database at a revision that this program has no migration for."""
    if found in NEVER_RELEASED:
        return SchemaError(
            f"The database is at version {found}, which was never released. It can't be upgraded.",
            remedy="Start over. For the ledger, move ledger.db* and audit_head.json out of supervisor.state_dir. For a "
            "shared database, name an empty one in database.url.",
        )
    return SchemaError(
        f"The database is at version {found}, which is newer than this program.",
        remedy="Install the newer version, or use another database.",
    )


def check_ours(connection: Connection) -> str | None:
    """The revision that this database is at; `ForeignTables` where tables of our names are another program's.

    At our version no column may be missing. At another one some are, also after an upgrade that was cut off; a table
    that lacks most of them was never ours.
    """
    found = current_revision(connection)
    if found is not None and not _REVISION.fullmatch(found):
        raise ForeignTables(f"another program migrates it (revision {found})")
    there = inspect(connection)
    for name in _our_tables(connection):
        ours = [column.name for column in metadata.tables[name].columns]
        theirs = {column["name"] for column in there.get_columns(name)}
        missing = [column for column in ours if column not in theirs]
        if len(missing) > (0 if found == HEAD else len(ours) // 2):
            more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            raise ForeignTables(f"its table {name} lacks {', '.join(missing[:NAMED])}{more}")
    return found


def _our_tables(connection: Connection) -> list[str]:
    """The tables of the database that have names of ours."""
    return sorted(set(inspect(connection).get_table_names()) & set(metadata.tables))


def ensure(engine: Engine) -> None:
    """Upgrade the database. Any number of processes may call this at the same time; one does the work."""
    with engine.connect() as connection:
        if current_revision(connection) == HEAD:
            return
    with engine.connect() as connection, _lock(connection):
        found = current_revision(connection)
        if found != HEAD:
            if found is None and not _our_tables(connection):
                _create(connection)
            else:
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
        raise SchemaError("Another process is upgrading the database.", remedy="Try again in a minute.")
    try:
        yield
    finally:
        with suppress(SQLAlchemyError):  # a connection that is gone holds no lock
            connection.execute(text("SELECT RELEASE_LOCK('supervisor_schema')"))


def _create(connection: Connection) -> None:
    """Create all tables of a new database at once, as the migrations would: Alembic takes 0.4 s and 16 MB.

    The revision comes last. MariaDB commits each statement, so an interrupted creation is for the migrations to finish.
    """
    if connection.dialect.name in ("mysql", "mariadb"):
        set_mariadb_options()
    metadata.create_all(connection, checkfirst=False)
    audit_guard.install(connection)
    version = Column("version_num", String(32), primary_key=True)
    table = Table("alembic_version", MetaData(naming_convention={"pk": "alembic_version_pkc"}), version)
    table.create(connection)
    connection.execute(table.insert().values(version_num=HEAD))


def _upgrade(connection: Connection, found: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise unknown_revision(found)
    command.upgrade(config, "head")
