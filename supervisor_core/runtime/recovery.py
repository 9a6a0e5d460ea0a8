"""After a crash: what was started is reported as interrupted, and never run again by itself.

Only whoever holds a worker's lock may do this, before it executes anything: then no executor of its jobs is alive.
What was claimed and not yet started needs no recovery: it is simply the next to run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from supervisor_core.adapters.processes import FoundWorker, Presence
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.definitions import Tier
from supervisor_core.domain.jobs import Job, JobState
from supervisor_core.handlers import Host
from supervisor_core.handlers.code_recovery import Left, code_as_it_is, start_all_again
from supervisor_core.handlers.starting import why_it_rests
from supervisor_core.handlers.stopping import once_stopped
from supervisor_core.ledger import jobs
from supervisor_core.ledger.jobs import tier_of
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.checkout_lock import checkout_shared
from supervisor_core.runtime.logs import about
from supervisor_core.runtime.passed_over import tell_passed_over

log = logging.getLogger(__name__)


def report_interrupted(
    host: Host,
    ledger: Ledger,
    worker_ids: Collection[str],
    told: Callable[[], object] = lambda: False,
    *,
    plans: bool = False,
) -> list[Job]:
    """Give every job of these workers that was under way its outcome, its audit row and its result; which they were.

    `plans`: whether whoever asks starts those workers afterwards that should run and don't.
    Whoever has the checkout of one is waited for. Once told to stop, such a job is left to the next program.
    """
    ended = []
    for job in ledger.read(lambda connection: jobs.waiting(connection, worker_ids, (JobState.STARTED,))):
        with about(job.task_id, job.label, job.worker_id):
            outcome = _what_is_known(job, host, told, plans=plans)
            if outcome is None:
                continue
            if ledger.step(jobs.interrupt(job, outcome, datetime.now(UTC))):
                ended.append(job)
                log.error("%s of %s was interrupted: %s", job.handler, job.worker_id, outcome.error)
                tell_passed_over(job, ledger)
    return ended


def _what_is_known(job: Job, host: Host, told: Callable[[], object], *, plans: bool) -> Outcome | None:
    """How the worker stands now, for whoever decides whether to ask again. One whose stop was cut off is given a moment
    to exit first, so that this names no process that is about to go."""
    left = Left("", {})
    if job.worker_id not in host.config.workers:
        left = Left(f"{job.worker_id} is not in the configuration any more.", {})
    elif tier_of(job.handler) == Tier.CODE:
        with checkout_shared(host, host.config.worker(job.worker_id), wait=True, told=told) as ours:
            if not ours:
                return None
            left = code_as_it_is(host, job)
            left = left._replace(details={**left.details, "workers": start_all_again(host, job)})
    worker = host.config.workers.get(job.worker_id)
    found = once_stopped(host.processes, worker) if worker else host.processes.find(job.worker_id)
    pause = host.pauses.read(job.worker_id)
    rests = pause is not None or host.quarantines.read(job.worker_id) is not None
    ends = found.presence is Presence.STOPPED or found.stopping
    back = plans and ends and not rests and worker is not None and not why_it_rests(worker)
    now = f"{_in_words(found)} and is {'paused' if pause else 'not paused'} now."
    again = (
        "Once it has exited, it's started again automatically."
        if found.stopping
        else "It's started again automatically."
    )
    words = [f"{job.worker_id} {now}", again if back else "", left.words]
    return Outcome.failed(
        f"The supervisor ended while this was under way; it was not run again. "
        f"{' '.join(filter(None, (*words, _what_next(job, left))))}",
        **left.details,
        interrupted=True,
        pid=found.identity.pid if found.identity else None,
        paused=pause is not None,
    )


def _in_words(found: FoundWorker) -> str:
    if found.identity is None:
        return f"is {found.presence}"
    if found.stopping:
        return f"was told to stop, hasn't exited yet (pid {found.identity.pid})"
    return f"runs as pid {found.identity.pid}"


def _what_next(job: Job, left: Left) -> str:
    """Whether asking again as it stands would do what was asked for."""
    if job.handler == "rollback_code" and left.details.get("commits"):
        back = f"git -C {left.details['checkout']['folder']} reset --hard {left.details['before']}"
        return (
            "Do not ask again as it stands: it would take back what it has just made, and an undo counts as a commit, "
            f"too. To begin anew, pause the workers of that checkout, then: {back}"
        )
    return "Look at it, and ask again if that is not what you want."
