"""The preview of a command on code: what it would do, tried where that can be tried, with nothing of it done.

All checkouts of a command are looked at concurrently, under one total deadline. A checkout that can't be looked at by
then is refused with the reason; the others aren't held up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace

from supervisor_core.adapters.threads import DaemonThreads
from supervisor_core.adapters.worker import find_watcher
from supervisor_core.config import Worker
from supervisor_core.domain.catalog import CATALOG
from supervisor_core.domain.code_preview import Preview, WorkerNow
from supervisor_core.domain.command import Command
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.jobs import Job, JobState
from supervisor_core.handlers.code_plans import plan_of
from supervisor_core.handlers.code_seen import state_of
from supervisor_core.handlers.code_site import Site, site_of
from supervisor_core.handlers.code_trial import tried
from supervisor_core.handlers.context import Host
from supervisor_core.handlers.starting import why_it_rests

PREVIEW_SECONDS = 20.0
"""For the whole preview of a command, however many checkouts it looks at."""

ENDING_SECONDS = 5.0
"""After the deadline: for a git that is late to be ended."""

CHECKOUTS_AT_ONCE = 64
"""Checkouts that all previews of this program look at concurrently."""

_looks = DaemonThreads("preview", CHECKOUTS_AT_ONCE)


def preview(host: Host, command: Command) -> list[Preview]:
    """One preview for each checkout that this command would work on, within `PREVIEW_SECONDS`."""
    deadline = time.monotonic() + PREVIEW_SECONDS
    host = replace(host, deadline=deadline)
    sites: dict[str, Site] = {}
    for worker_id in command.workers:
        site = site_of(host, host.config.worker(worker_id))
        sites.setdefault(str(site.top), site)
    looks = [(site, _looks.submit(_preview, host, site, command)) for site in sites.values()]
    wait([look for _, look in looks], timeout=max(deadline + ENDING_SECONDS - time.monotonic(), 0))
    return [_ended(host, site, command, look) for site, look in looks]


def _ended(host: Host, site: Site, command: Command, look: Future[Preview]) -> Preview:
    """What came of a look; one that is still under way is left behind, and refused."""
    if look.done():
        return look.result()
    look.cancel()
    late = f"{site.top} couldn't be looked at within {PREVIEW_SECONDS:g} s. Try again."
    return replace(_before(host, site, command), refused=late)


def _preview(host: Host, site: Site, command: Command) -> Preview:
    handler, base = CATALOG[command.name].handler or "", _before(host, site, command)
    try:
        plan = plan_of(host, site, handler, command.params)
    except SupervisorError as error:
        return replace(base, refused=str(error))
    shown = tried(host, site, plan)
    return replace(
        base,
        plan=plan,
        conflict=shown.conflict,
        untried=shown.problem,
        state=state_of(host, site, plan, command.params),
    )


def _before(host: Host, site: Site, command: Command) -> Preview:
    workers = tuple(worker_now(host, worker) for worker in site.workers)
    return Preview(command.name, str(site.top), site.code.branch, workers)


def worker_now(host: Host, worker: Worker) -> WorkerNow:
    """How a worker stands that a command would be about."""
    found = find_watcher(host.processes, host.drive, host.config, worker)
    pause = host.pauses.preview(worker.id)
    return WorkerNow(
        id=worker.id,
        pid=found.identity.pid if found.identity else None,
        paused=str(pause) if pause else "",
        rests=why_it_rests(worker),
        busy=_busy(_waiting(host, worker)),
    )


def _waiting(host: Host, worker: Worker) -> list[Job]:
    if host.ledger is None:
        return []
    from supervisor_core.ledger import jobs  # late: whoever only looks at workers must not pay for it

    under_way = (JobState.STARTED, JobState.CLAIMED, JobState.QUEUED)
    return host.ledger.read(lambda connection: jobs.waiting(connection, [worker.id], under_way))


def _busy(waiting: Sequence[Job]) -> str:
    started = [job for job in waiting if job.state is JobState.STARTED]
    if started:
        return f"busy: {started[0].command} ({started[0].task_id}) is under way"
    if len(waiting) == 1:
        return "another command waits for it"
    return f"{len(waiting)} other commands wait for it" if waiting else ""
