"""Files the jobs of a command in this host's ledger."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.common import crashpoints
from supervisor_core.common.log_events import LogEvent
from supervisor_core.host.logging.log import command_context
from supervisor_core.intake.rolling import service as rolling
from supervisor_core.intake.rolling.rules import plan_batches, rolling_terms
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage.store import Ledger

log = logging.getLogger(__name__)


def enqueue(
    ledger: Ledger, command: Command, door: str, now: datetime, card: Mapping[str, Any] | None = None
) -> list[Job]:
    """File a job for each worker of a command, all of them or none; durable when this returns. `card` is the place of
    its message. Jobs with the same command id that exist already aren't filed again."""
    crashpoints.reach("command.file:before")
    filed = ledger.write(lambda connection: file_jobs(connection, ledger.supervisor_id, command, door, now, card))
    crashpoints.reach("command.file:after")
    return filed


def file_jobs(
    connection: Connection,
    supervisor_id: str,
    command: Command,
    door: str,
    now: datetime,
    card: Mapping[str, Any] | None = None,
    approvals: Sequence[Mapping[str, Any]] = (),
) -> list[Job]:
    """File a job for each worker of a command, in the caller's transaction; `approvals` are the votes for it.

    `IdTaken` if another command has the id: the caller's transaction must not commit then.
    """
    handler, issuer = CATALOG[command.name].handler, command.issuer
    if handler is None or issuer is None:
        raise ValueError(f"{command.name} by {issuer} is nothing that a host carries out")
    jobs.refuse_taken(connection, command.task_id, handler, door)
    terms = rolling_terms(command.params)
    if terms is not None and not command.batches:
        command = replace(command, batches=plan_batches(command.workers, terms))
    batches = {worker_id: number for number, batch in enumerate(command.batches, 1) for worker_id in batch}
    new = [
        jobs.NewJob(
            task_id=command.task_id,
            worker_id=worker_id,
            handler=handler,
            params=command.params,
            label=command.label,
            issuer=issuer,
            door=door,
            filed_at=now,
            approvals=approvals,
            card=card,
            batch=batches.get(worker_id),
        )
        for worker_id in command.workers
    ]
    filed = jobs.file_all(connection, supervisor_id, new, now) if new else []
    if terms is not None and filed and rolling.find(connection, command.task_id) is None:
        rolling.file(connection, supervisor_id, command, terms, now)
    return filed


def log_received(job: Job) -> None:
    """Log a job that was just filed for a command from outside."""
    who = job.issuer.name or job.issuer.id
    about = LogEvent.COMMAND_RECEIVED.extra(command=job.command, source=job.door, requested_by=who)
    with command_context(job.task_id, job.label, job.worker_id):
        log.info("%s of %s received, requested by %s", job.command, job.worker_id, who, extra=about)
