"""The steps of one job, reported by its handler to the log, the ledger, its card, and to waiting clients.

Also logs the workers for which a command wasn't started, because it failed on an earlier one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.host.logging.log import command_context
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, Progress, not_begun
from supervisor_core.storage.store import Ledger

WRITE_SECONDS = 2.0
"""The time that a handler waits for a step to be written, which usually takes milliseconds. It doesn't wait for further
steps while one isn't written."""

log = logging.getLogger(__name__)


class ProgressReporter:
    """`HostContext.progress` of one job. `heard` is called in the handler's thread after each stored step."""

    def __init__(self, job: Job, ledger: Ledger, heard: Callable[[Job], None]) -> None:
        self.job = job
        self.ledger = ledger
        self.heard = heard
        self.late: Future[list[bool]] | None = None
        """The newest write that took too long."""

    def __call__(self, words: str) -> None:
        """Log a step and store it durably. If the ledger doesn't take it, the handler continues."""
        step = Progress(datetime.now(UTC), words)
        log.info("%s of %s: %s", self.job.command, self.job.worker_id, step.words)
        work = partial(jobs.note_progress, supervisor_id=self.ledger.supervisor_id, several=[(self.job, step)])
        try:
            written = self.ledger.submit(work)
            slow = self.late is not None and not self.late.done()
            try:
                (stored,) = written.result(0 if slow else WRITE_SECONDS)
            except TimeoutError:  # it keeps its place, and is seen with a later step or with the outcome
                log.warning("the ledger is slow; %s continues without waiting for it", self.job.task_id)
                self.late = written
                return
            if stored:
                crashpoints.reach("job.progress:after")
                self.heard(self.job)
        except Exception as error:  # noqa: BLE001 (the edge: what is said of the work must not harm the work)
            log.warning("couldn't report a progress step of %s: %s", self.job.task_id, describe(error))


def log_passed_over(failed: Job, ledger: Ledger) -> None:
    """Log a line for each job that ended with this failed one."""
    if not jobs.stops_others(failed):
        return
    for job in ledger.read(lambda connection: jobs.of_task(connection, failed.task_id)):
        if not_begun(job) and job.outcome is not None and job.outcome.details.get("after") == failed.worker_id:
            with command_context(job.task_id, job.label, job.worker_id):
                about = LogEvent.COMMAND_FAILED.extra(command=job.command, error=job.outcome.error)
                log.error("%s of %s failed: %s", job.command, job.worker_id, job.outcome.error, extra=about)
