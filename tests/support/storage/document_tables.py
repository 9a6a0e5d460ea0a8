"""An archive's own database, as document 003 implies it, on each engine: its tables, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, create_engine, inspect, text

Row = dict[str, Any]

NUMBER = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "mysql": "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY",
    "postgresql": "BIGSERIAL PRIMARY KEY",
}
MOMENT = {"sqlite": "DATETIME", "mysql": "DATETIME", "postgresql": "TIMESTAMP"}

OTHERS = ("containers_t", "jobs_t", "segments_t")
"""Tables of the archive that aren't for the supervisor."""


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    engine = create_engine(url, poolclass=NullPool)
    try:
        yield engine
    finally:
        engine.dispose()


def make_archive(url: str, *more_audit_columns: str) -> None:
    """The archive's tables, with a row of its own in each."""
    with engine_of(url) as engine, engine.begin() as connection:
        number, moment = (kinds[engine.dialect.name] for kinds in (NUMBER, MOMENT))
        audit = [
            f"audit_id {number}",
            "actor VARCHAR(128) NOT NULL",
            "action VARCHAR(64) NOT NULL",
            "target_type VARCHAR(64) NOT NULL",
            "target_id VARCHAR(64) NOT NULL",
            f"created_at {moment} NOT NULL DEFAULT CURRENT_TIMESTAMP",
            "details_json TEXT NULL",
            *more_audit_columns,
        ]
        connection.execute(text(f"CREATE TABLE audit_log_t ({', '.join(audit)})"))
        columns = f"worker_id VARCHAR(64) NOT NULL PRIMARY KEY, last_heartbeat_at {moment} NOT NULL"
        connection.execute(text(f"CREATE TABLE workers_t ({columns}, status_summary VARCHAR(255) NULL)"))
        for name in OTHERS:
            connection.execute(text(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, title VARCHAR(20))"))
            connection.execute(text(f"INSERT INTO {name} VALUES (1, 'theirs')"))
        theirs = "INSERT INTO audit_log_t (actor, action, target_type, target_id) VALUES ('anna', 'SCAN', 'page', '7')"
        connection.execute(text(theirs))


def stored(url: str, table: str, order: str) -> list[Row]:
    """The rows of a table."""
    with engine_of(url) as engine, engine.connect() as connection:
        return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY {order}")).mappings()]


def audit_rows(url: str) -> list[Row]:
    """The supervisor's rows in the archive's audit log, in the order in which they came."""
    rows = [row for row in stored(url, "audit_log_t", "audit_id") if row["action"] != "SCAN"]
    return [{**row, "details_json": json.loads(row["details_json"])} for row in rows]


def numbers(url: str) -> list[int]:
    """The numbers that these rows have in the ledger."""
    return [row["details_json"]["audit_id"] for row in audit_rows(url)]


def heartbeats(url: str) -> dict[str, Row]:
    """The rows of the workers."""
    return {row["worker_id"]: row for row in stored(url, "workers_t", "worker_id")}


def picture(url: str) -> dict[str, Any]:
    """All tables with their columns, and the rows of those that aren't for the supervisor."""
    with engine_of(url) as engine:
        look = inspect(engine)
        columns = {name: sorted(column["name"] for column in look.get_columns(name)) for name in look.get_table_names()}
        with engine.connect() as connection:
            rows = {name: _rows(connection, name) for name in OTHERS if name in columns}
            theirs = connection.execute(text("SELECT * FROM audit_log_t WHERE action = 'SCAN'")).all()
    return {"columns": columns, "rows": rows, "theirs": theirs}


def _rows(connection: Connection, name: str) -> list[Any]:
    return list(connection.execute(text(f"SELECT * FROM {name}")).all())
