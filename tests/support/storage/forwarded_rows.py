"""Rows in a ledger and in a shared database, made and compared by the tests of forwarding."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Table, insert, select, update

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.common import crashpoints
from supervisor_core.daemon.replication.connection import DatabaseUnavailable
from supervisor_core.daemon.replication.replicator import Replicator
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import AuditEntry, ChainHead, HeadFile
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log, workers
from supervisor_core.storage.tables import jobs as jobs_table

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
HOST = "TestHost"
SECONDS = 5.0

Row = dict[str, Any]


def opened(folder: Path, supervisor_id: str = HOST) -> Ledger:
    return Ledger(folder / LEDGER_FILE, supervisor_id, HeadFile(folder))


@contextmanager
def forwarding(ledger: Ledger, url: str, seconds: float = SECONDS) -> Iterator[Replicator]:
    made = Replicator(ledger, url, seconds)
    try:
        yield made
    finally:
        made.close()


def forward(ledger: Ledger, url: str) -> int:
    """Bring all that is new; how many rows that were."""
    with forwarding(ledger, url) as made:
        return bring_all(made)


def bring_all(made: Replicator) -> int:
    made.connect()
    rows = 0
    while True:
        batch = made.batch()
        rows += batch.rows
        if not batch.full:
            made.note()
            return rows


def forwarded(ledger: Ledger, url: str) -> bool:
    """Try once; a server that has just come up may still refuse."""
    try:
        forward(ledger, url)
    except DatabaseUnavailable:
        return False
    return True


def at(monkeypatch: pytest.MonkeyPatch, point: str, what: Callable[[], object]) -> None:
    """Do something the first time that this point is passed."""
    done = threading.Event()

    def reach(name: str) -> None:
        if name == point and not done.is_set():
            done.set()
            what()

    monkeypatch.setattr(crashpoints, "reach", reach)


def a_new_job(task_id: str, worker_id: str = "OrionMX", handler: str = "pause") -> jobs.NewJob:
    issuer = Issuer("cli:anna", "anna")
    return jobs.NewJob(task_id, worker_id, handler, {}, "hotfix", issuer, "cli", NOW)


def file_job(ledger: Ledger, task_id: str, worker_id: str = "OrionMX") -> None:
    new = a_new_job(task_id, worker_id)
    ledger.write(lambda connection: jobs.file(connection, ledger.supervisor_id, new, NOW))


def go_on(ledger: Ledger, task_id: str, worker_id: str = "OrionMX", moment: datetime = NOW) -> str:
    """Take a job one step further; the state that it is then in."""
    job = ledger.read(lambda connection: jobs.find(connection, task_id, worker_id))
    assert job is not None
    outcome = Outcome(True, None, {"of": task_id})
    steps = {
        "queued": lambda: jobs.claim(job, moment),
        "claimed": lambda: jobs.begin(job, moment),
        "started": lambda: jobs.finish(job, outcome, moment, 0.5),
    }
    if job.state in steps:
        assert ledger.step(steps[job.state]())
        job = ledger.read(lambda connection: jobs.find(connection, task_id, worker_id))
        assert job is not None
    return str(job.state)


def do_job(ledger: Ledger, task_id: str, worker_id: str = "OrionMX") -> None:
    """A command's whole road in the ledger."""
    file_job(ledger, task_id, worker_id)
    while go_on(ledger, task_id, worker_id) != "done":
        pass


def note_audit(ledger: Ledger, number: int) -> None:
    details = {"n": number, "word": "Übung \N{BOMB}", "nul": "\0"}
    ledger.audit(AuditEntry("cli:anna", "REFUSED", "OrionMX", label="anna - Übung", details=details), NOW)


def beat(ledger: Ledger, worker_id: str, seconds: float, status: str = "ok") -> None:
    """A worker's row as of some seconds after `NOW`."""
    row = {"last_heartbeat_at": NOW + timedelta(seconds=seconds), "pid": 7, "hostname": "h", "status": status}

    def put(connection: Connection) -> None:
        mine = workers.c.worker_id == worker_id
        if not connection.execute(update(workers).where(mine).values(row)).rowcount:
            connection.execute(insert(workers), {"worker_id": worker_id, **row})

    ledger.write(put)


def rows_of(connection: Connection, table: Table, supervisor_id: str | None = HOST) -> list[Row]:
    """All rows of a table, as they must be equal on both sides: a job's own number is each database's own."""
    query = select(table)
    if supervisor_id and "supervisor_id" in table.c:
        query = query.where(table.c.supervisor_id == supervisor_id)
    rows = [
        {name: value for name, value in row.items() if name != "job_id"} for row in connection.execute(query).mappings()
    ]
    keys = [column.name for column in table.primary_key if column.name != "job_id"] or ["changed"]
    return sorted(rows, key=lambda row: [row[key] for key in keys])


@contextmanager
def shared(url: str) -> Iterator[Engine]:
    engine = shared_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def assert_equal(ledger: Ledger, url: str) -> None:
    """Every row of the ledger is there once, equal and in order, and the chain verifies there as well."""
    name = ledger.supervisor_id
    with shared(url) as engine, engine.connect() as there:
        for table in (audit_log, jobs_table):
            here = ledger.read(partial(rows_of, table=table, supervisor_id=name))
            assert rows_of(there, table, name) == here, table.name
        mine = ledger.read(lambda connection: rows_of(connection, workers))
        theirs = {row["worker_id"]: row for row in rows_of(there, workers)}
        assert [theirs.get(row["worker_id"]) for row in mine] == mine
        assert verified_there(there, ledger) == []


def verified_there(there: Connection, ledger: Ledger) -> list[audit.Fault]:
    """What is wrong with the ledger's chain in the shared database, held against the ledger's own head."""
    head = ledger.read(lambda connection: audit.newest_row(connection, ledger.supervisor_id))
    known = [head or ChainHead(ledger.supervisor_id, 0, "")]
    return [fault for fault in audit.verify(there, known)[1] if fault.supervisor_id == ledger.supervisor_id]
