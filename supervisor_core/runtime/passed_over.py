"""Into the log: for which workers a command was not begun, because it failed on one before them."""

from __future__ import annotations

import logging

from supervisor_core.domain.jobs import Job, not_begun
from supervisor_core.ledger import jobs, turns
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.logs import about

log = logging.getLogger(__name__)


def tell_passed_over(failed: Job, ledger: Ledger) -> None:
    """After this job has failed: a line for each of the others, which ended with it."""
    if not turns.stops_others(failed):
        return
    for job in ledger.read(lambda connection: jobs.of_task(connection, failed.task_id)):
        if not_begun(job) and job.outcome is not None and job.outcome.details.get("after") == failed.worker_id:
            with about(job.task_id, job.label, job.worker_id):
                log.error("%s of %s failed: %s", job.handler, job.worker_id, job.outcome.error)
