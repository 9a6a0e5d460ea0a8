"""Upgrades with data: a database of any earlier version keeps every row, on each of the three databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, Engine, MetaData, Table, delete, insert, inspect, select

import supervisor_core.storage.migrations as migrations
from supervisor_core.storage import schema
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.engine import UtcDateTime, shared_engine
from supervisor_core.storage.tables import audit_log, audit_workers, metadata

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
HOST = "OrionHost"


def configured(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


EARLIER = [each.revision for each in ScriptDirectory.from_config(configured()).walk_revisions()][:0:-1]
"""Every version but the newest, the oldest first."""


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    made = shared_engine(database_url)
    yield made
    made.dispose()


def sample(column: Column[Any]) -> object:
    """A value that the column takes."""
    if isinstance(column.type, UtcDateTime):
        return NOW
    kind = getattr(column.type, "impl_instance", column.type).python_type
    if kind is str:
        return "{}" if column.name.endswith("_json") else "x" * min(getattr(column.type, "length", None) or 20, 20)
    return {bool: True, int: 1, float: 1.5}[kind]


def there(connection: Connection, table: Table) -> list[str]:
    """The columns of ours that this database has."""
    found = {each["name"] for each in inspect(connection).get_columns(table.name)}
    return [column.name for column in table.columns if column.name in found]


def filled(connection: Connection) -> dict[str, dict[str, Any]]:
    """A row in every table; the trail's by the code that writes it."""
    tables = set(inspect(connection).get_table_names())
    audit.append(connection, HOST, AuditEntry("cli:anna", "PAUSE", "OrionMX", details={"door": "cli"}), NOW)
    rows = {}
    for table in metadata.sorted_tables:
        if table.name in tables and table is not audit_log:
            rows[table.name] = {name: sample(table.columns[name]) for name in there(connection, table)}
            connection.execute(insert(table), rows[table.name])
    return rows


@pytest.mark.parametrize("version", EARLIER)
def test_an_upgrade_keeps_every_row_and_the_trail(engine: Engine, version: str) -> None:
    with engine.begin() as connection:
        command.upgrade(configured(connection), version)
    with engine.begin() as connection:
        rows = filled(connection)
    assert len(rows) > 15
    schema.ensure(engine)
    with engine.connect() as connection:
        assert schema.check_ours(connection) == schema.HEAD
        for name, row in rows.items():
            table = metadata.tables[name]
            kept = connection.execute(select(*(table.columns[each] for each in row))).mappings().all()
            assert [dict(each) for each in kept] == [row], name
        head = audit.newest_row(connection, HOST)
        assert head is not None
        assert audit.verify(connection, [head]) == (1, [])


def test_commands_that_were_refused_before_the_index_of_commands_are_found(engine: Engine) -> None:
    given = ("undo", "restart w1", "undo", "schedule add x", "rm -rf", "undo")
    refused = [
        AuditEntry(f"cli:{each}", "REFUSED", "w1", details={"command": each, "error": "no right"}) for each in given
    ]
    others = [AuditEntry("cli:anna", "PAUSE", "w1")] * 5_000  # more than one statement looks through
    with engine.begin() as connection:
        command.upgrade(configured(connection), "0019")
    with engine.begin() as connection:
        audit.append_all(connection, HOST, [*refused[:3], *others, *refused[3:]], NOW)
        audit.append_all(connection, "web-1", refused[:1], NOW)
        connection.execute(delete(audit_workers).where(audit_workers.c.audit_id < 5_006))  # the last one has its entry
    schema.ensure(engine)

    def found(action: str, name: str) -> list[tuple[str, int]]:
        with engine.connect() as connection:
            rows = search(connection, AuditFilter(action=action, command=name))
        return sorted((row["supervisor_id"], row["audit_id"]) for row in rows)

    assert found("UNDO_CODE", "undo") == [(HOST, 1), (HOST, 3), (HOST, 5_006), ("web-1", 1)]
    assert found("RESTART_WATCHER", "restart") == [(HOST, 2)]
    assert found("SCHEDULE_ADDED", "schedule add") == [(HOST, 5_004)]
    assert found("UPDATE_CODE", "update") == []


def test_an_upgrade_makes_what_a_new_database_has(engine: Engine) -> None:
    with engine.begin() as connection:
        command.upgrade(configured(connection), EARLIER[0])
    schema.ensure(engine)
    reflected = MetaData()
    reflected.reflect(engine)
    shape = {name: sorted(table.columns.keys()) for name, table in reflected.tables.items() if name.endswith("_t")}
    assert shape == {table.name: sorted(table.columns.keys()) for table in metadata.sorted_tables}
    upgrading = partial(schema.ensure, engine)
    upgrading()  # a second one changes nothing
