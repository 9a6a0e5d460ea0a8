"""The steps of one job, reported by its handler to the log, the ledger, its card, and to waiting clients.

Also logs the workers for which a command wasn't started, because it failed on an earlier one.
"""

from __future__ import annotations

import contextvars
import logging
import time
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
        self._job = job
        self._ledger = ledger
        self._heard = heard
        self._late: Future[bool] | None = None

    def __call__(self, words: str) -> None:
        """Store a step durably. If the ledger doesn't take it, the handler continues."""
        self.begin(words)(WRITE_SECONDS)

    def begin(self, words: str) -> Callable[[float], None]:
        """Begin to store a step; the result waits for it, for at most so many seconds."""
        try:
            step = Progress(datetime.now(UTC), words)
            log.info("%s of %s: %s", self._job.command, self._job.worker_id, step.words)
            work = partial(jobs.note_progress, supervisor_id=self._ledger.supervisor_id, job=self._job, step=step)
            return partial(self._finish, self._ledger.submit(work))
        except Exception as error:  # noqa: BLE001 (the edge: what is said of the work must not harm the work)
            self._fail(error)
            return _nothing

    def _finish(self, written: Future[bool], seconds: float) -> None:
        try:
            if self._kept(written, seconds):
                crashpoints.reach("job.progress:after")
                self._heard(self._job)
        except Exception as error:  # noqa: BLE001 (the same edge)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        log.warning("couldn't report a progress step of %s: %s", self._job.task_id, describe(error))

    def _kept(self, written: Future[bool], seconds: float) -> bool:
        slow = self._late is not None and not self._late.done()
        try:
            kept = written.result(0 if slow else seconds)
        except TimeoutError:  # it keeps its place, and is seen with a later step or with the outcome
            log.warning("the ledger is slow; %s continues without waiting for it", self._job.task_id)
            self._late = written
            return False
        return kept


def _nothing(_seconds: float) -> None:
    pass


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
        begun = []
        for need in needs:
            if isinstance(need.report, ProgressReporter):
                begun.append(need.context.run(need.report.begin, need.words))
            else:
                need.context.run(need.report, need.words)
        deadline = time.monotonic() + WRITE_SECONDS
        for finish in begun:
            finish(max(0.0, deadline - time.monotonic()))
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
