"""Rows of the ledger as commands write them, and those that only tests ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, func, select

from supervisor_core.alerts.rows import from_row
from supervisor_core.alerts.rules import Alert
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.steps import PENDING
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import alerts, outbox
from supervisor_core.workers.conditions import Target

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
HOST = "TestHost"


def opened(folder: Path, supervisor_id: str = HOST) -> Ledger:
    return Ledger(folder / LEDGER_FILE, supervisor_id)


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


def count_pending(connection: Connection, kind: str) -> int:
    """The number of messages of this kind that wait."""
    query = select(func.count()).select_from(outbox).where(outbox.c.state == PENDING, outbox.c.kind == kind)
    return connection.execute(query).scalar_one()


def alerts_of(connection: Connection, target: Target, limit: int = 20) -> list[Alert]:
    """The alerts of this target, newest first."""
    mine = (alerts.c.target_type == target.kind, alerts.c.target_id == target.id)
    query = select(alerts).where(*mine).order_by(alerts.c.opened_at.desc()).limit(limit)
    return [from_row(row) for row in connection.execute(query).mappings()]
