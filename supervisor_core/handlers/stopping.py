"""What the handlers that stop a worker say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor_core.adapters.processes import FoundWorker, ProcessDoor
from supervisor_core.adapters.processes_stop import StopReport
from supervisor_core.adapters.worker import check_watcher_process
from supervisor_core.config import Worker
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import Job

MOMENT_SECONDS = 5.0
"""Most workers end within one; the slow are brought back by the plan, whenever they have ended."""


def ordered_by(job: Job) -> str:
    """Which command a stop belongs to: it stays on record until the worker has ended."""
    return f"{job.handler} of {job.worker_id}, {job.task_id}"


def once_stopped(processes: ProcessDoor, worker: Worker) -> FoundWorker:
    """The worker by a fresh look; one whose stop a crash cut off is given a moment to end first."""
    found = check_watcher_process(processes, worker)
    if not found.stopping or found.identity is None:
        return found
    processes.wait_exit(found.identity, min(worker.stop_timeout_seconds, MOMENT_SECONDS))
    return check_watcher_process(processes, worker)


def stop_details(report: StopReport) -> dict[str, Any]:
    """How the worker ended, for results and the audit trail."""
    return {
        "ending": str(report.ending),
        "stopped_in_seconds": round(report.seconds, 3),
        "exit_code": report.exit_code,
        "killed": [str(member) for member in report.killed],
    }


def stuck(report: StopReport, details: Mapping[str, Any], so: str = "") -> Outcome:
    """Something of the worker survived: a failure that names it. `so` says what was not done because of it."""
    survivors = [str(member) for member in report.survivors]
    return Outcome.failed(
        f"{report.worker_id} is stuck: {', '.join(survivors)} could not be ended. {so}{' ' if so else ''}"
        "A process that not even KILL ends waits inside the kernel, mostly for a drive: look there.",
        **{**details, "message": f"{report.worker_id} is stuck", "survivors": survivors},
    )
