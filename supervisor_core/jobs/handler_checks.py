"""Checks before a worker is started or stopped, and the details that handlers report about a stop."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.common.errors import RefusedError
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.permissions import why_denied
from supervisor_core.jobs.model import Job
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.launch import LaunchError
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.processes.output.files import make_output_folder, output_path
from supervisor_core.processes.stopping import StopReport
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.worker import check_places, check_watcher_process, is_stopped

SELF = "supervisor"
SCHEDULED = "schedule:"
"""The prefix of issuer ids that aren't persons."""


def is_person(issuer: Issuer) -> bool:
    """True if a person requested it, and not a schedule or the supervisor."""
    return issuer.id != SELF and not issuer.id.startswith(SCHEDULED)


def why_paused(worker: WorkerSettings, pause: Pause) -> str:
    """Why a paused worker isn't started, and how to resume it."""
    return f"{worker.id} is {pause}. To end the pause: resume {worker.id}."


def start_objection(worker: WorkerSettings) -> str:
    """Why not even a person can start this worker, and what to do; empty if they can."""
    if worker.quarantined:
        key = f"workers.{worker.id}.quarantined"
        why = f"{worker.id} is quarantined in the configuration: nothing starts or stops it."
        return f"{why} To change that, set {key} to false."
    if not worker.enabled:
        key = f"workers.{worker.id}.enabled"
        return f"{worker.id} isn't enabled in the configuration. To run it, set {key} to true."
    return ""


def left_alone(host: HostContext, job: Job, worker: WorkerSettings) -> Outcome | None:
    """The outcome for a worker that's quarantined in the configuration, if the command is for others as well: it's
    skipped, which is no failure. None for any other worker or command."""
    if not worker.quarantined or host.ledger is None:
        return None
    from supervisor_core.jobs import rows as jobs  # late: a pass with nothing to do needs no database library

    if len(host.ledger.read(partial(jobs.of_task, task_id=job.task_id))) < 2:
        return None
    return Outcome.done(skipped=True, message=f"{worker.id} was left alone. {start_objection(worker)}")


def start_objection_for(host: HostContext, worker: WorkerSettings, issuer: Issuer) -> str:
    """The objection for this issuer: only a person can end a quarantine that the supervisor began."""
    if reason := start_objection(worker):
        return reason
    given_up = None if is_person(issuer) else host.quarantines.read(worker.id)
    return f"{worker.id} is {given_up.words}" if given_up else ""


def presence_text(host: HostContext, worker: WorkerSettings) -> str:
    """The state of a worker after a failed start, in words."""
    gone = is_stopped(check_watcher_process(host.processes, worker))
    return "it's down" if gone else "some of its processes may still be running"


def check_alone(found: FoundWorker) -> None:
    """Raise if another process claims to be the worker: it isn't stopped, started, or given new code.

    `found` comes from a search of all processes.
    """
    if found.others and found.identity is not None:
        pids = ", ".join(map(str, (found.identity.pid, *found.others)))
        raise RefusedError(
            f"{found.worker_id} is running more than once (pids {pids}).",
            remedy=f"To stop every copy: pause {found.worker_id}. Then: resume {found.worker_id}.",
        )
    if found.presence is Presence.UNVERIFIABLE:
        raise RefusedError(found.reason)


def check_startable(host: HostContext, worker: WorkerSettings) -> None:
    """Raise an error that a start would surely meet. Only the worker itself can find others."""
    make_output_folder(host.config.state_dir)
    log = output_path(host.config.state_dir, worker.id)
    if problem := _log_problem(log):
        raise LaunchError(f"Its output can't be captured: {log} {problem}.", remedy="Move or delete it.")
    check_places(host, worker)
    cause, _ = why_denied(worker.cwd, os.X_OK)
    if cause:
        raise LaunchError(
            f"Its working directory can't be entered: {cause}.",
            remedy=f"Let this user enter it, or change workers.{worker.id}.cwd.",
        )
    if not worker.cwd.is_dir():
        raise LaunchError(
            f"Its working directory doesn't exist: {worker.cwd}.",
            remedy=f"Create it, or fix workers.{worker.id}.cwd.",
        )
    program = host.config.command_for(worker)[0]
    if not _is_executable(program, worker.cwd, host.config.environment_for(worker).get("PATH", os.defpath)):
        raise LaunchError(
            f"Its program doesn't exist or isn't executable: {program}.",
            remedy=f"Install it, or fix workers.{worker.id}.command.",
        )


def _is_executable(program: str, cwd: Path, path: str) -> bool:
    """True if the worker's program is found as at a start: relative folders begin at its working directory."""
    if os.path.dirname(program):  # noqa: PTH120 (a Path forgets the `./` that makes the difference)
        return shutil.which(str(cwd / program)) is not None
    folders = os.pathsep.join(str(cwd / folder) for folder in path.split(os.pathsep))
    return shutil.which(program, path=folders) is not None


def _log_problem(log: Path) -> str:
    if log.is_symlink() or (log.exists() and not log.is_file()):
        return "isn't a regular file"
    return "" if os.access(log if log.exists() else log.parent, os.W_OK) else "isn't writable"


MOMENT_SECONDS = 5.0
"""The wait for a stop that was cut off. Most workers end within a second; the plan restarts slower ones later."""


def stop_reason(job: Job) -> str:
    """The command of a stop, recorded until the worker has ended."""
    return f"{job.command} of {job.worker_id}, {job.task_id}"


def find_stopped(processes: HostProcesses, worker: WorkerSettings) -> FoundWorker:
    """Observe the worker. If a crash cut off its stop, give it a moment to end first."""
    found = check_watcher_process(processes, worker)
    if not found.stopping or found.identity is None:
        return found
    processes.wait_exit(found.identity, min(worker.stop_timeout_seconds, MOMENT_SECONDS))
    return check_watcher_process(processes, worker)


def stop_details(report: StopReport) -> dict[str, Any]:
    """The end of the worker, for results and the audit trail."""
    return {
        "ending": str(report.ending),
        "stopped_in_seconds": round(report.seconds, 3),
        "exit_code": report.exit_code,
        "killed": [str(member) for member in report.killed],
    }


def stuck(report: StopReport, details: Mapping[str, Any], so: str = "") -> Outcome:
    """The failure if processes survived, with their names. `so` says what wasn't done because of that."""
    survivors = [str(member) for member in report.survivors]
    return Outcome.failed(
        f"{report.worker_id} is stuck: {', '.join(survivors)} can't be killed. {so}{' ' if so else ''}"
        "A process that ignores SIGKILL is waiting in the kernel, usually for a drive. Check the drives of this host.",
        **{**details, "message": f"{report.worker_id} is stuck", "survivors": survivors},
    )
