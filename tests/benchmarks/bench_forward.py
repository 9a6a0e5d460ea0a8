"""How many rows a second are forwarded, next to the driver's bare executemany of the same rows into the same server."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert

from supervisor_core.daemon.replication.replicator import BATCH_ROWS
from supervisor_core.storage import schema
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log, jobs
from tests.benchmarks.rows import OURS, Row, row_of
from tests.support.storage import databases
from tests.support.storage.forwarded_rows import HOST, NOW, do_job, forward, opened, rows_of, shared

JOBS = 5_000
AUDIT_ROWS = 15_000
ROUNDS = 5
PEER = "`executemany`"
TOGETHER = 20
"""Steps whose rows are brought one by one: from the step's commit to the shared database's."""


def measure() -> list[Row]:
    """A ledger's history into an empty database, and single commands as they come."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "var") as ledger, ExitStack() as held:
        _fill(ledger)
        servers = {
            "SQLite": f"sqlite:///{folder}/{{database}}.db",
            "MariaDB": held.enter_context(databases.mariadb_server()),
            "PostgreSQL": held.enter_context(databases.postgresql_server()),
        }
        for name, server in servers.items():
            rows += _rows(ledger, name, server)
    return rows


def _rows(ledger: Ledger, name: str, server: str) -> list[Row]:
    floors, ours = [], []
    for number in range(ROUNDS):  # in turns, so that a busy moment of the machine hits both
        with _database(server, f"floor{number}") as url:
            floors.append(_bare(ledger, url))
        with _database(server, f"ours{number}") as url:
            ours.append(_forwarded(ledger, url))
            if number == ROUNDS - 1:
                single = [_single(ledger, url, f"{name}-{turn}") for turn in range(TOGETHER)]
    what = f"{JOBS + AUDIT_ROWS:,} rows into {name}"
    return [
        row_of(what, OURS, ours, PEER),
        row_of(what, PEER, floors),
        row_of(f"one command into {name}", OURS, single),
    ]


def _database(server: str, name: str) -> Any:
    if server.startswith("sqlite"):
        return _Given(server.format(database=name))
    return databases.new_database(server)


class _Given:
    """An address that needs no making."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> str:
        return self._url

    def __exit__(self, *_: object) -> None:
        return


def _fill(ledger: Ledger) -> None:
    def work(connection: Connection) -> None:
        details = {"door": "cli", "error": None, "label": "hotfix", "params": {}, "result": {"pid": 4711}}
        for number in range(AUDIT_ROWS):
            entry = AuditEntry(
                "cli:anna", "PAUSE", "OrionMX", label="anna - hotfix", task_id=f"t{number}", details=details
            )
            audit.append(connection, HOST, entry, NOW)
        row = {
            "worker_id": "OrionMX",
            "supervisor_id": HOST,
            "handler": "pause",
            "params_json": "{}",
            "label": "hotfix",
            "issuer_id": "cli:anna",
            "issuer_name": "anna",
            "door": "cli",
            "approvals_json": "[]",
            "state": "done",
            "tier": 3,
            "filed_at": NOW,
            "created_at": NOW,
            "claimed_at": NOW,
            "started_at": NOW,
            "finished_at": NOW,
            "success": True,
            "details_json": '{"pid":4711}',
        }
        connection.execute(insert(jobs), [{**row, "task_id": f"t{number}"} for number in range(JOBS)])

    ledger.write(work)


def _forwarded(ledger: Ledger, url: str) -> float:
    with shared(url) as engine:
        schema.ensure(engine)
    begun = time.perf_counter()
    forward(ledger, url)
    return (time.perf_counter() - begun) * 1000


def _bare(ledger: Ledger, url: str) -> float:
    """The rows as the driver takes them are at hand; a transaction for as many rows as we have in one."""
    taken = 0.0
    with shared(url) as engine:
        schema.ensure(engine)
        connection = engine.raw_connection()
        try:
            for table in (audit_log, jobs):
                statement = insert(table).compile(
                    dialect=engine.dialect, column_keys=[column.name for column in table.c if column.name != "job_id"]
                )
                rows = ledger.read(lambda local, table=table: rows_of(local, table))  # type: ignore[misc]
                taken += _timed(connection, str(statement), _for_the_driver(table, rows, engine.dialect, statement))
        finally:
            connection.close()
    return taken


def _for_the_driver(table: Table, rows: Sequence[dict[str, Any]], dialect: Any, statement: Any) -> list[Any]:
    binds = {name: table.c[name].type.dialect_impl(dialect).bind_processor(dialect) for name in rows[0]}
    names = statement.positiontup
    converted = [{name: bind(row[name]) if (bind := binds[name]) else row[name] for name in row} for row in rows]
    return [tuple(row[name] for name in names) for row in converted] if names else converted


def _timed(connection: Any, statement: str, rows: Sequence[Any]) -> float:
    cursor = connection.cursor()
    begun = time.perf_counter()
    for start in range(0, len(rows), BATCH_ROWS):
        if "sqlite" in type(connection.dbapi_connection).__module__:
            cursor.execute("BEGIN IMMEDIATE")
        cursor.executemany(statement, rows[start : start + BATCH_ROWS])
        connection.commit()
    return (time.perf_counter() - begun) * 1000


def _single(ledger: Ledger, url: str, task_id: str) -> float:
    """A whole round for one command: connect, look, write its two rows, let go."""
    do_job(ledger, task_id)
    begun = time.perf_counter()
    forward(ledger, url)
    return (time.perf_counter() - begun) * 1000
