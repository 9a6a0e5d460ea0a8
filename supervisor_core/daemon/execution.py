"""The execution of one job, by the daemon or a pass: claimed, started, handled, done. Each step survives a crash."""

from __future__ import annotations

import errno
import logging
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from supervisor_core.code.checkout_lock import checkout_for
from supervisor_core.commands.command import Outcome
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, TemporaryError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.daemon.handlers import HANDLERS, added_handler
from supervisor_core.host.logging.log import command_context
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, JobState, expired_words, has_expired, start_objection
from supervisor_core.jobs.progress import ProgressReporter, log_passed_over
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext

DISK_RETRY_SECONDS = 5.0
HEAR_SECONDS = 0.2
"""Longest delay of a stop while an outcome waits to be recorded."""

PASS_PATIENCE_SECONDS = 30.0
"""Longest time that a pass tries to record an outcome: the next pass comes in two or three minutes, and a starting
daemon waits one minute."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of a share of it, that has no room."""

log = logging.getLogger(__name__)


class OutcomeNotWritten(TemporaryError):
    """The outcome of a job couldn't be recorded; the job stays started."""


@dataclass(frozen=True, slots=True)
class RetryLimit:
    """The end of retries to record an outcome: when told to stop, or after this time."""

    should_stop: Callable[[], object] = lambda: False
    seconds: float = math.inf


NO_LIMIT = RetryLimit()


def execute(
    job: Job,
    host: HostContext,
    ledger: Ledger,
    on_trouble: Callable[[str], None] = lambda _: None,
    limit: RetryLimit = NO_LIMIT,
    on_progress: Callable[[Job], None] = lambda _: None,
) -> Outcome | None:
    """Run a queued or claimed job to its end; return the stored outcome.

    Returns None if another process has the job, or if it was told to stop first. `on_trouble` is called with the reason
    while an outcome can't be stored. After `limit`, the job stays started, which is reported as interrupted later, and
    `OutcomeNotWritten` is raised. `on_progress` is called in this thread after each step that the handler reports.
    """
    claimed_at = datetime.now(UTC)
    with command_context(job.task_id, job.label, job.worker_id):
        if job.state is JobState.QUEUED and not ledger.step(jobs.claim(job, claimed_at)):  # QUEUED -> CLAIMED
            return None
        # A worker that was removed has no code to keep others from.
        is_configured = job.worker_id in host.config.workers
        with checkout_for(job, host, limit.should_stop) if is_configured else nullcontext(host) as locked_host:
            if locked_host is None or not ledger.step(jobs.begin(job, datetime.now(UTC))):  # CLAIMED -> STARTED
                return None
            issuer = job.issuer.name or job.issuer.id
            about = LogEvent.COMMAND_STARTED.extra(command=job.command, source=job.door, requested_by=issuer)
            log.info("%s of %s started, requested by %s", job.command, job.worker_id, issuer, extra=about)
            started = time.monotonic()
            progress = ProgressReporter(job, ledger, on_progress)
            outcome = _handle(job, replace(locked_host, ledger=ledger, progress=progress), ledger, claimed_at)
            duration = time.monotonic() - started
            crashpoints.reach("handler:after")
            outcome = _record(job, outcome, duration, ledger, on_trouble, limit)  # STARTED -> DONE
        if outcome.success:
            about = LogEvent.COMMAND_DONE.extra(command=job.command, seconds=round(duration, 3))
            log.info("%s of %s succeeded in %.2f s", job.command, job.worker_id, duration, extra=about)
        else:
            about = LogEvent.COMMAND_FAILED.extra(command=job.command, error=outcome.error)
            log.error("%s of %s failed: %s", job.command, job.worker_id, outcome.error, extra=about)
            log_passed_over(job, ledger)
    return outcome


def _handle(job: Job, host: HostContext, ledger: Ledger, claimed_at: datetime) -> Outcome:
    valid_seconds = host.config.supervisor.command_expires_minutes * 60
    if has_expired(job.filed_at, valid_seconds, claimed_at):  # the usual case needs no query
        since = ledger.read(partial(jobs.waiting_since, job=job))
        if has_expired(since, valid_seconds, claimed_at):
            return Outcome.failed(expired_words(since, valid_seconds), expired=True)
    handler = HANDLERS.get(job.handler) or added_handler(job.handler)
    if handler is None:
        return Outcome.failed(f"This version doesn't know {job.handler}. Nothing was done.")
    if too_late := start_objection(job, datetime.now(UTC)):
        return Outcome.failed(too_late)
    crashpoints.reach("handler:before")
    try:
        return handler(host, job)
    except SupervisorError as error:
        return Outcome.failed(str(error))
    except OSError as error:
        log.exception("the handler %s couldn't use a file", job.handler)
        about = f"{error.filename}: " if error.filename else ""
        is_full = error.errno in FULL
        remedy = "Free some space, then send the command again." if is_full else "See the log for details."
        return Outcome.failed(f"{about}{error.strerror or describe(error)}. {remedy}")
    except Exception as error:  # the edge: a handler's mistake must end as an outcome, not as a job without end
        log.exception("the handler %s raised", job.handler)
        return Outcome.failed(f"Unexpected {describe(error)}. See the log for details.")


def _record(
    job: Job, outcome: Outcome, duration: float, ledger: Ledger, on_trouble: Callable[[str], None], limit: RetryLimit
) -> Outcome:
    """Store the outcome, which must not be lost: wait for a full disk and report it. Returns the stored outcome."""
    stored, deadline = outcome, time.monotonic() + limit.seconds
    step = jobs.finish(job, stored, datetime.now(UTC), duration)
    while True:
        try:
            ledger.step(step)
        except LedgerUnavailable as error:
            problem = str(error)
        except Exception as error:
            problem = describe(error)
            if stored is outcome:  # what can't be written as it is must still end, as a failure that says so
                log.exception("the outcome of %s can't be stored", job.task_id)
                stored = Outcome.failed(f"Its outcome couldn't be stored: {error}")
                step = jobs.finish(job, stored, datetime.now(UTC), duration)
                continue
        else:
            on_trouble("")
            return stored
        about = LogEvent.COMMAND_UNRECORDED.extra(command=job.command, error=problem)
        log.critical("the outcome of %s is waiting to be recorded: %s", job.task_id, problem, extra=about)
        on_trouble(f"the outcome of {job.task_id} is waiting to be recorded: {problem}")
        retry_at = time.monotonic() + DISK_RETRY_SECONDS
        while time.monotonic() < retry_at:
            if limit.should_stop() or time.monotonic() >= deadline:
                result = "succeeded" if outcome.success else f"failed ({outcome.error})"
                raise OutcomeNotWritten(
                    f"{job.command} of {job.worker_id} {result}, but the outcome couldn't be recorded: "
                    f"{problem.rstrip('.')}. It will be reported as interrupted, and is not run again.",
                    remedy="Check the ledger and its disk (supervisor.state_dir).",
                )
            time.sleep(min(HEAR_SECONDS, DISK_RETRY_SECONDS))
