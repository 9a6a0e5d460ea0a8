"""How quick the trail and the status of a whole fleet are answered by a hub with its ledger in PostgreSQL."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, create_engine, text
from sqlalchemy.schema import CreateIndex

from supervisor_core.common.text import canonical_json
from supervisor_core.storage import schema
from supervisor_core.storage.audit.chain import GENESIS
from supervisor_core.storage.audit.pages import page
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, search
from supervisor_core.storage.engine import server_ledger_engines
from supervisor_core.storage.tables import audit_log
from tests.benchmarks import fleet_status
from tests.benchmarks.rows import Row, rows_of
from tests.support.storage.databases import new_database, postgresql_server

ROWS = int(os.environ.get("FLEET_MEMORY_ROWS", "10_000_000"))
HOSTS, WORKERS, PEOPLE = 1_000, 10, 500
ROUNDS = 10
AT_ONCE = 500_000
CONNECTIONS = 2
KEY = audit_log.primary_key.name
FLOOR = "psycopg: the newest 50 rows"
ACTIONS = ("PAUSE", "RESUME", "RESTART_WATCHER", "ROLLBACK_CODE", "UPDATE_CODE", "REFUSED")
DETAILS = json.dumps({"label": "hotfix", "door": "slack", "params": {}, "approvals": [], "error": None, "seconds": 1.2})
BEGUN = datetime(2025, 1, 1, tzinfo=UTC)
MOMENT = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'

# Each row has its true hash. Only the links between rows are left out, which a search doesn't follow.
_INSERT = f"""
WITH made AS (
  SELECT 'host-' || n % {HOSTS} AS supervisor_id, n / {HOSTS} + 1 AS audit_id, 'success' AS outcome,
    'slack:T0TEAM/U' || lpad((n * 7 % {PEOPLE})::text, 5, '0') AS actor,
    ('{{{",".join(ACTIONS)}}}'::text[])[n / 13 % {len(ACTIONS)} + 1] AS action, 'worker' AS target_type,
    'worker-' || n % {HOSTS} || '-' || n / {HOSTS} % {WORKERS} AS target_id,
    'Person' || n * 7 % {PEOPLE} || ' - hotfix' AS label,
    timestamptz '2025-01-01 00:00:00+00' + n * interval '3 seconds' AS created_at, 'task_' || n AS task_id
  FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n
)
INSERT INTO audit_log_t (supervisor_id, audit_id, outcome, actor, action, target_type, target_id, label, created_at,
  details_json, task_id, previous_hash, hash)
SELECT supervisor_id, audit_id, outcome, actor, action, target_type, target_id, label, created_at, :details, task_id,
  '{GENESIS}', encode(sha256(convert_to('["' || supervisor_id || '",' || audit_id || ',"' || outcome || '","' || actor
    || '","' || action || '","' || target_type || '","' || target_id || '","' || label || '","'
    || to_char(created_at AT TIME ZONE 'UTC', :moment) || '",' || :quoted || ',"' || task_id
    || '","{GENESIS}"]', 'UTF8')), 'hex')
FROM made
"""


def questions() -> dict[str, Callable[[Connection], Any]]:
    """What is asked for: as the shell does, and as the bot turns pages."""
    middle = RowPosition("host-7", ROWS // HOSTS // 2)
    recent = BEGUN + timedelta(seconds=3 * ROWS) - timedelta(days=2)
    filters = {
        "audit": AuditFilter(),
        "audit worker-13-4": AuditFilter(worker="worker-13-4"),
        "audit by Person7": AuditFilter(issuer="Person7"),
        "audit by nobody": AuditFilter(issuer="nobody"),
        "audit command rollback": AuditFilter(action="ROLLBACK_CODE", command="rollback"),
        "audit command undo": AuditFilter(action="UNDO_CODE", command="undo"),
        "audit of one host's 10 workers": AuditFilter(targets=tuple(f"worker-9-{each}" for each in range(WORKERS))),
        "audit worker-14-4 by Person7 command pause": AuditFilter(
            worker="worker-14-4", issuer="Person7", action="PAUSE", command="pause"
        ),
        "audit since two days ago": AuditFilter(since=recent),
    }
    asked: dict[str, Callable[[Connection], Any]] = {
        name: lambda connection, wanted=wanted: search(connection, wanted)  # type: ignore[misc]
        for name, wanted in filters.items()
    }
    asked["audit in Slack, the first page"] = lambda connection: page(connection, AuditFilter(), 10)
    asked["audit in Slack, a page from the middle"] = lambda connection: page(connection, AuditFilter(), 10, middle)
    return asked


def measure() -> list[Row]:
    """A PostgreSQL with the trail of 10,000 workers; each question in turns with the floor. Then their status."""
    with postgresql_server() as server, new_database(server) as url:
        writer, reader = server_ledger_engines(url, 600)
        try:
            schema.ensure(writer)
            fill(writer)
            with reader.connect() as connection:
                assert "damaged" not in search(connection, AuditFilter(limit=1))[0]
            return [*rows_of(_times(reader), FLOOR), *fleet_status.measure(url, writer, HOSTS, WORKERS)]
        finally:
            writer.dispose()
            reader.dispose()


def fill(engine: Engine) -> None:
    """Make the rows over two connections, without a log of the server, and their indexes after that."""
    values = {"details": DETAILS, "quoted": canonical_json(DETAILS), "moment": MOMENT}
    with engine.begin() as connection:
        for index in audit_log.indexes:
            index.drop(connection)
        connection.execute(text(f"ALTER TABLE audit_log_t DROP CONSTRAINT {KEY}, SET UNLOGGED"))

    def insert(first: int) -> None:
        with create_engine(engine.url, poolclass=NullPool).begin() as connection:
            last = min(first + AT_ONCE, ROWS) - 1
            connection.execute(text(_INSERT), {**values, "first": first, "last": last})

    def build(statement: str) -> None:
        with create_engine(engine.url, poolclass=NullPool).begin() as connection:
            connection.execute(text("SET LOCAL maintenance_work_mem = '1GB'"))
            connection.execute(text(statement))

    key = f"ALTER TABLE audit_log_t ADD CONSTRAINT {KEY} PRIMARY KEY (supervisor_id, audit_id)"
    indexes = [str(CreateIndex(index).compile(engine)) for index in audit_log.indexes]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(insert, range(0, ROWS, AT_ONCE)))
        list(pool.map(build, indexes))
    build(key)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE audit_log_t"))


def _times(engine: Engine) -> dict[str, list[float]]:
    asked = questions()
    times: dict[str, list[float]] = {FLOOR: [], **{name: [] for name in asked}}
    with engine.connect() as connection:
        for turn in range(ROUNDS + 1):
            begun = time.perf_counter()
            connection.exec_driver_sql("SELECT * FROM audit_log_t ORDER BY created_at DESC LIMIT 50").fetchall()
            took = {FLOOR: (time.perf_counter() - begun) * 1000}
            for name, question in asked.items():
                begun = time.perf_counter()
                question(connection)
                took[name] = (time.perf_counter() - begun) * 1000
            for name, milliseconds in took.items() if turn else ():
                times[name].append(milliseconds)
    return times
