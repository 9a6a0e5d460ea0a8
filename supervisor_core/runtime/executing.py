"""Carrying out one job: claimed, started, handled, done; each a step that survives a crash. The pass and the
daemon both come through here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from supervisor_core.domain import crashpoints
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.jobs import Job, JobState
from supervisor_core.handlers import HANDLERS, Host
from supervisor_core.ledger import jobs
from supervisor_core.ledger.store import Ledger
from supervisor_core.ledger.writer import LedgerUnavailable
from supervisor_core.runtime.logs import about

DISK_RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


def execute(job: Job, host: Host, ledger: Ledger, trouble: Callable[[str], None] = lambda _: None) -> Outcome | None:
    """Run a queued or claimed job to its end; None where somebody else has it.

    `trouble` hears, in words, while an outcome can't be written down.
    """
    with about(job.task_id, job.label):
        if job.state is JobState.QUEUED and not ledger.step(jobs.claim(job, _now())):
            return None
        if not ledger.step(jobs.begin(job, _now())):
            return None
        log.info("%s of %s started, asked for by %s", job.handler, job.worker_id, job.issuer.name or job.issuer.id)
        begun = time.monotonic()
        outcome = _handle(job, host)
        duration = time.monotonic() - begun
        crashpoints.reach("handler:after")
        _write_down(job, outcome, duration, ledger, trouble)
        if outcome.success:
            log.info("%s of %s succeeded in %.2f s", job.handler, job.worker_id, duration)
        else:
            log.error("%s of %s failed: %s", job.handler, job.worker_id, outcome.error)
        return outcome


def _handle(job: Job, host: Host) -> Outcome:
    handler = HANDLERS.get(job.handler)
    if handler is None:
        return Outcome.failed(f"{job.handler} is not built yet; nothing was done.")
    crashpoints.reach("handler:before")
    try:
        return handler(host, job)
    except SupervisorError as error:
        return Outcome.failed(str(error))
    except Exception as error:  # the edge: a handler's mistake must end as an outcome, not as a job without end
        log.exception("the handler %s raised", job.handler)
        return Outcome.failed(f"Unexpected {type(error).__name__}: {error}. The log has the details.")


def _write_down(job: Job, outcome: Outcome, duration: float, ledger: Ledger, trouble: Callable[[str], None]) -> None:
    """The outcome is known and must not be lost: a full disk is waited for, and said."""
    step = jobs.finish(job, outcome, _now(), duration)
    while True:
        try:
            ledger.step(step)
        except LedgerUnavailable as error:
            log.critical("the outcome of %s waits to be written: %s", job.task_id, error)
            trouble(f"the outcome of {job.task_id} waits to be written: {error}")
            time.sleep(DISK_RETRY_SECONDS)
        except Exception as error:  # what can't be written as it is must still end, as a failure that says so
            log.exception("the outcome of %s can't be written as it is", job.task_id)
            step = jobs.finish(job, Outcome.failed(f"Its outcome could not be written: {error}"), _now(), duration)
        else:
            trouble("")
            return


def _now() -> datetime:
    return datetime.now(UTC)
