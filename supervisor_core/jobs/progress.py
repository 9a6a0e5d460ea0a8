"""The steps of one job, reported by its handler to the log, the ledger, its card, and to waiting clients.

Also logs the workers for which a command wasn't started, because it failed on an earlier one.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.host.logging.log import command_context
from supervisor_core.jobs import queries as turns
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, Progress, not_begun
from supervisor_core.processes.together import SharedNeed
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
        """Store a step durably. If the ledger doesn't take it, the handler continues."""
        _store([(self, self.log(words))])

    def log(self, words: str) -> Progress:
        """Log a step, and return it."""
        step = Progress(datetime.now(UTC), words)
        log.info("%s of %s: %s", self.job.command, self.job.worker_id, step.words)
        return step


def _store(several: Sequence[tuple[ProgressReporter, Progress]]) -> None:
    """Store a step of each of these jobs, which have the same ledger, and wait for that once."""
    try:
        ledger = several[0][0].ledger
        steps = [(reporter.job, step) for reporter, step in several]
        work = partial(jobs.note_progress, supervisor_id=ledger.supervisor_id, several=steps)
        kept = _written([reporter for reporter, _ in several], ledger.submit(work))
        for (reporter, _), stored in zip(several, kept, strict=True):
            if stored:
                crashpoints.reach("job.progress:after")
                reporter.heard(reporter.job)
    except Exception as error:  # noqa: BLE001 (the edge: what is said of the work must not harm the work)
        for reporter, _ in several:
            log.warning("couldn't report a progress step of %s: %s", reporter.job.task_id, describe(error))


def _written(reporters: Sequence[ProgressReporter], written: Future[list[bool]]) -> list[bool]:
    slow = any(each.late is not None and not each.late.done() for each in reporters)
    try:
        return written.result(0 if slow else WRITE_SECONDS)
    except TimeoutError:  # it keeps its place, and is seen with a later step or with the outcome
        for each in reporters:
            log.warning("the ledger is slow; %s continues without waiting for it", each.job.task_id)
            each.late = written
        return [False] * len(reporters)


@dataclass(frozen=True, slots=True)
class Said(SharedNeed):
    """A step of a handler, reported before it continues."""

    report: Callable[[str], None]
    words: str
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    """Of the job that says it, so that its line in the log names its command."""

    @classmethod
    def answer(cls, needs: Sequence[Said]) -> Sequence[None]:
        """Report all; the ledger writes them together, and is waited for once."""
        stored = []
        for need in needs:
            if isinstance(need.report, ProgressReporter):
                stored.append((need.report, need.context.run(need.report.log, need.words)))
            else:
                need.context.run(need.report, need.words)
        if stored:
            _store(stored)
        return [None] * len(needs)


def log_passed_over(failed: Job, ledger: Ledger) -> None:
    """Log a line for each job that ended with this failed one."""
    if not turns.stops_others(failed):
        return
    for job in ledger.read(lambda connection: jobs.of_task(connection, failed.task_id)):
        if not_begun(job) and job.outcome is not None and job.outcome.details.get("after") == failed.worker_id:
            with command_context(job.task_id, job.label, job.worker_id):
                about = LogEvent.COMMAND_FAILED.extra(command=job.command, error=job.outcome.error)
                log.error("%s of %s failed: %s", job.command, job.worker_id, job.outcome.error, extra=about)
