"""Workers that aren't in the configuration, but have records or waiting commands."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from functools import partial

from supervisor_core.code.recovery import report_interrupted
from supervisor_core.commands.addresses import is_address
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon.execution import execute
from supervisor_core.daemon.ownership import BusyError, worker_ownership
from supervisor_core.host.logging.log import command_context
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.processes.records import read_record
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import DaemonContext, HostContext

log = logging.getLogger(__name__)


def unconfigured_workers(config: SupervisorConfig) -> list[WorkerSettings]:
    """The workers that were removed while no daemon ran, each with default settings, so that it can be stopped."""
    found = []
    for path in sorted((config.state_dir / "workers").glob("*.json")):
        if path.stem in config.workers:
            continue
        try:
            record = read_record(config.state_dir, path.stem)
        except (SupervisorError, OSError) as error:
            log.warning("%s belongs to no configured worker and can't be read: %s", path, error)
            continue
        if record is not None:
            found.append(WorkerSettings(command=record.command or ("unknown",), id=path.stem))
    return found


def refuse_orphaned_jobs(parts: DaemonContext, known: Collection[str]) -> list[Job]:
    """Fail the jobs that wait for unconfigured workers; return those workers.

    Otherwise a job would run months later, when a worker with that name is configured again.
    """
    refused: list[Job] = []
    host = (
        parts.host
    )  # by this configuration, to the end: of one that comes meanwhile only its `Worker` may do anything
    looked_after = set(known) | set(host.config.workers)
    while (
        waiting := _waiting_here(parts.ledger, host.config.supervisor.parallel) - looked_after
    ):  # of several, one makes way for the next
        before = len(refused)
        for worker_id in sorted(waiting):
            refused += _refused(host, parts.ledger, worker_id)
        if len(refused) == before:
            break
    return refused


def _waiting_here(ledger: Ledger, parallel: int) -> set[str]:
    """The workers of this host with a job that can start: the others' jobs are sent to their hosts."""
    return {
        worker_id
        for worker_id in ledger.read(partial(jobs.workers_with_work, parallel=parallel))
        if not is_address(worker_id)
    }


def unblock_worker(host: HostContext, ledger: Ledger, worker_id: str) -> None:
    """In a pass, log the workers that this worker's commands wait for; unconfigured ones don't block."""
    known: set[str] = set()
    while True:
        blocked = ledger.read(partial(jobs.blocked_jobs, worker_id=worker_id, parallel=host.config.supervisor.parallel))
        orphans = {first.worker_id for _, first in blocked} - set(host.config.workers) - known
        if not orphans:
            break
        for orphan in sorted(orphans):
            known.add(orphan)
            with suppress(BusyError), worker_ownership(host.config.state_dir, orphan):
                report_interrupted(host, ledger, [orphan])
                _refused(host, ledger, orphan)
    for job, first in blocked:
        with command_context(job.task_id, job.label, job.worker_id):
            log.info("%s of %s is waiting for %s", job.command, worker_id, first.worker_id)


def _refused(host: HostContext, ledger: Ledger, worker_id: str) -> list[Job]:
    refused = []
    read = partial(jobs.next_to_run, worker_id=worker_id, parallel=host.config.supervisor.parallel)
    while job := ledger.read(read):
        if execute(job, host, ledger) is None:
            break
        refused.append(job)
    return refused
