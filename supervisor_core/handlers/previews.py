"""The preview of a command on code: what it would do, tried where that can be tried, with nothing of it done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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


def preview(host: Host, command: Command) -> list[Preview]:
    """One preview for each checkout that this command would work on."""
    sites: dict[str, Site] = {}
    for worker_id in command.workers:
        site = site_of(host, host.config.worker(worker_id))
        sites.setdefault(str(site.top), site)
    return [_preview(host, site, command) for site in sites.values()]


def _preview(host: Host, site: Site, command: Command) -> Preview:
    handler = CATALOG[command.name].handler or ""
    base = Preview(
        command.name, str(site.top), site.code.branch, tuple(worker_now(host, worker) for worker in site.workers)
    )
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


def worker_now(host: Host, worker: Worker) -> WorkerNow:
    """How a worker stands that a command would be about."""
    found = find_watcher(host.processes, host.drive, host.config, worker)
    pause = host.pauses.read(worker.id)
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
