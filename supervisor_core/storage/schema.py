"""The schema's version, and the upgrade to ours. Alembic is imported only where something must change."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, inspect, text

from supervisor_core.common.errors import SupervisorError
from supervisor_core.storage.ledger_file import VERSION
from supervisor_core.storage.tables import metadata

HEAD = VERSION
"""The newest revision in `migrations/versions`."""

FIRST = "0022"
"""The first revision that was released. Those before it were development versions."""

NAMED = 3
"""Missing columns in a message."""

_REVISION = re.compile(r"\d{4}")

UPGRADE_LOCK = 7_240_158  # any number that nobody else uses on a shared server


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


def is_development(revision: str | None) -> bool:
    """True for a revision from before the first release."""
    return revision is not None and _REVISION.fullmatch(revision) is not None and revision < FIRST


def unknown_revision(found: str) -> SchemaError:
    """The error for a database at a revision that this program has no migration for."""
    if is_development(found):
        return SchemaError(
            f"The ledger is of a development version ({found}), which can't be upgraded. Nothing was changed.",
            remedy="Start anew: move ledger.db* out of supervisor.state_dir and keep them; for a hub's ledger on a "
            "server, name an empty database in database.url. An older supervisor still reads the old one.",
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
    return sorted(set(inspect(connection).get_table_names()) & set(metadata.tables))


def ensure(engine: Engine) -> None:
    """Create or upgrade the tables. Any number of processes may call this at the same time; one does the work.

    A new database gets all tables at once: Alembic takes 0.4 s and 16 MB. On SQLite and PostgreSQL this is one
    transaction.
    """
    with engine.connect() as connection:
        if current_revision(connection) == HEAD:
            return
    with engine.connect() as connection:
        if connection.dialect.name == "postgresql":  # SQLite's transactions begin with the write lock
            connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": UPGRADE_LOCK})
        found = current_revision(connection)
        if found is None:
            create_tables(connection)
        elif found != HEAD:
            _upgrade(connection, found)
        connection.commit()


def create_tables(connection: Connection) -> None:
    """Create the tables that aren't there, at the newest version."""
    metadata.create_all(connection)
    version = Column("version_num", String(32), primary_key=True)
    table = Table("alembic_version", MetaData(naming_convention={"pk": "alembic_version_pkc"}), version)
    table.create(connection)
    connection.execute(table.insert().values(version_num=HEAD))


def _upgrade(connection: Connection, found: str) -> None:
    if is_development(found):
        raise unknown_revision(found)
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["connection"] = connection
    if found not in {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}:
        raise unknown_revision(found)
    command.upgrade(config, "head")
