"""The correction of a start that was reported as a success, after which the worker ended within its start grace.

The record of the launch names the command until the worker has outlived its grace, so the next daemon
finds the end, too, after a `kill -9` of this one. The compare-and-set on the job's success makes it happen once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from supervisor_core.commands.command import Outcome
from supervisor_core.common.log_events import LogEvent
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.logging.log import command_context
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.linux import since_boot
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.handlers import restart_failed, resume_failed
from supervisor_core.jobs.model import Job
from supervisor_core.processes.records import START
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.worker import failed_start

log = logging.getLogger(__name__)

_FAILURES: Mapping[str, Callable[[HostContext, WorkerSettings, Mapping[str, Any], str], Outcome]] = MappingProxyType(
    {"resume": resume_failed, "restart_watcher": restart_failed}
)
"""The failure of each command that starts a worker, from what it reported and the error of the start."""

_OF_A_SUCCESS = ("message", "pid", "new_pid", "seconds")
"""The details that only a success has."""


def correct_start(
    host: HostContext, ledger: Ledger, worker: WorkerSettings, ended: ProcessIdentity | None, ago_seconds: float
) -> Job | None:
    """Correct the command that started this worker if it has ended within its start grace; return that command.

    `ended` is the process whose end was noticed, so many seconds ago. An end that nobody noticed, as while no daemon
    ran, counts as well: nobody has seen the worker alive after its grace, else its record wouldn't name the command.
    """
    record = host.processes.record(worker.id)
    if record is None or record.identity is None or record.order is None or record.order.what != START:
        return None
    late = record.identity == ended and since_boot() - ago_seconds > record.order.until
    if late or not host.processes.state(record.identity).ended:
        return None
    job = ledger.read(partial(jobs.find, task_id=record.order.why, worker_id=worker.id))
    fails = _FAILURES.get(job.handler) if job is not None else None
    if job is None or fails is None or job.outcome is None or not job.outcome.success:
        return None
    error = failed_start(host.config, worker, record, host.processes.exit_code(record.identity))
    with command_context(job.task_id, job.label, job.worker_id):
        details = {name: value for name, value in job.outcome.details.items() if name not in _OF_A_SUCCESS}
        outcome = fails(host, worker, details, error)
        if not ledger.step(jobs.correct(job, outcome, host.now())):
            return None
        about = LogEvent.COMMAND_FAILED.extra(command=job.command, error=outcome.error)
        log.error("%s of %s failed: %s", job.command, job.worker_id, outcome.error, extra=about)
        return replace(job, outcome=outcome)
