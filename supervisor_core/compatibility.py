"""The handlers and utilities of the requirement documents, with their names and argument order.

`nas` is the `HostContext` of this host and `db` its `Ledger`. A handler is filed as a command and carried out at once,
so that it's audited, needs the same approvals as in the shell, and runs once for each task id. Beside a daemon, or a
pass for the same worker, it's refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.cli.host import approvals_of, shell_issuer
from supervisor_core.commands.catalog import by_handler, check_params
from supervisor_core.commands.command import Command
from supervisor_core.commands.labels import clean_label
from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon import environment
from supervisor_core.daemon.execution import execute
from supervisor_core.daemon.ownership import pass_ownership
from supervisor_core.daemon.single_pass.waiting_work import do_waiting_work
from supervisor_core.daemon.single_pass.work import Findings
from supervisor_core.host import programs
from supervisor_core.host.process_facts.signals import StopRequest
from supervisor_core.intake.filing import LocalCarrier
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs.model import new_task_id
from supervisor_core.jobs.results import result_document
from supervisor_core.storage.store import Ledger
from supervisor_core.workers import health, pauses, worker
from supervisor_core.workers.context import HostContext, open_doors
from supervisor_core.workers.heartbeats import files, writer

DOOR = "cli"


def pause_watcher(nas: HostContext, db: Ledger, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Pause the worker; returns `success`, `error` and `details`."""
    return _carry_out("pause", nas, db, worker_id, task)


def resume_watcher(nas: HostContext, db: Ledger, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """End the worker's pause and start it."""
    return _carry_out("resume", nas, db, worker_id, task)


def restart_watcher(nas: HostContext, db: Ledger, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Restart the worker; a paused one stays paused."""
    return _carry_out("restart_watcher", nas, db, worker_id, task)


def update_code(nas: HostContext, db: Ledger, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Bring in new commits and restart the workers of the checkout."""
    return _carry_out("update_code", nas, db, worker_id, task)


def update_code_deps(nas: HostContext, db: Ledger, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with the packages of the requirements file."""
    return _carry_out("update_code_deps", nas, db, worker_id, task)


def rollback_code(task: Mapping[str, Any], nas: HostContext, db: Ledger, worker_id: str) -> dict[str, Any]:
    """Revert the newest `params.commits_back` commits, 1 where it's left out. The task comes first here."""
    return _carry_out("rollback_code", nas, db, worker_id, task)


def generate_diagnostics(nas: HostContext, db: Ledger, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Write a diagnostic report."""
    return _carry_out("diagnostics", nas, db, worker_id, task)


def verify_database(nas: HostContext, db: Ledger, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Check the database and write a report."""
    return _carry_out("verify_db", nas, db, worker_id, task)


def check_control_flags(inbox_path: Path, nas: HostContext, worker_id: str, db: Ledger) -> list[str]:
    """Take the worker's flags and do what waits for it by priority; the actions taken."""
    if Path(inbox_path) != nas.inbox.folder:
        raise ValueError(f"{inbox_path} isn't the inbox of this configuration: {nas.inbox.folder}")
    findings = Findings()
    with pass_ownership(nas.config.state_dir, worker_id):
        nas.drive.call(nas.inbox.prepare)
        do_waiting_work(nas, nas.config.worker(worker_id), db, findings, StopRequest())
    return findings.actions


def check_watcher_process(worker_id: str, config_path: str | Path | None = None) -> bool:
    """Whether a process of the worker runs."""
    host = _host(config_path)
    found = worker.find_watcher(host.processes, host.drive, host.config, host.config.worker(worker_id))
    return found.identity is not None


def start_watcher(worker_id: str, config_path: str | Path | None = None) -> bool:
    """Start the worker; False where it doesn't come up."""
    host = _host(config_path)
    try:
        worker.start_watcher(host.processes, host.drive, host.config, host.config.worker(worker_id))
    except (SupervisorError, OSError):
        return False
    return True


def stop_watcher_gracefully(worker_id: str, timeout_seconds: float = 30, config_path: str | Path | None = None) -> bool:
    """Stop the worker, by force after the timeout. True if none of its processes is left."""
    host = _host(config_path)
    settings = host.config.worker(worker_id).model_copy(update={"stop_timeout_seconds": timeout_seconds})
    return worker.stop_watcher_gracefully(host.processes, settings).stopped


def is_watcher_healthy(heartbeat: Mapping[str, Any]) -> bool:
    """Whether a running worker with this heartbeat is healthy now."""
    return health.is_watcher_healthy(heartbeat, datetime.now(UTC))


def is_watcher_paused(nas: HostContext, worker_id: str) -> bool:
    """Whether the worker's pause flag exists."""
    return nas.drive.call(pauses.is_watcher_paused, nas.config.folder("state"), worker_id)


def read_heartbeat_file(path: Path) -> dict[str, Any]:
    """A heartbeat file; empty where there is none that can be read."""
    return files.read_heartbeat_file(path) or {}


def read_watcher_heartbeat(nas: HostContext, worker_id: str) -> dict[str, Any]:
    """The worker's newest heartbeat; empty if none can be read."""
    return nas.drive.call(files.read_watcher_heartbeat, nas.config.folder("state"), worker_id) or {}


def get_heartbeat_age_seconds(heartbeat_file: Path) -> float:
    """The age of the file; infinite where there is none."""
    age = files.get_heartbeat_age_seconds(heartbeat_file)
    return math.inf if age is None else age


def run_command(cmd: Sequence[str], cwd: Path | None = None, timeout_seconds: float = 30) -> dict[str, Any]:
    """Run a program, never through a shell. `returncode` is None where it didn't end in time."""
    done = programs.run_command(cmd, cwd=cwd, timeout=timeout_seconds)
    return {
        "returncode": None if done.timed_out else done.exit_code,
        "stdout": done.output,
        "stderr": done.errors,
    }


def write_supervisor_heartbeat_file(
    nas: HostContext,
    worker_id: str,
    success: bool,
    error: str | None = None,
    actions_taken: Sequence[str] | None = None,
) -> Path:
    """Replace the supervisor's heartbeat file of the worker in one step; returns its path."""
    heartbeat = _heartbeat(nas.config.supervisor.id, worker_id, success, error, actions_taken)
    writer.write_heartbeat_files(nas, [heartbeat])
    return files.supervisor_heartbeat_path(nas.config.folder("state"), worker_id)


def report_supervisor_heartbeat_to_database(
    db: Ledger,
    worker_id: str,
    success: bool,
    error: str | None = None,
    actions_taken: Sequence[str] | None = None,
    watcher_state: str = "unknown",
) -> None:
    """Insert or update the supervisor's row of the worker in `workers_t`."""
    heartbeat = _heartbeat(db.supervisor_id, worker_id, success, error, actions_taken, watcher_state)
    report = partial(writer.report_supervisor_heartbeat_to_database, heartbeat=heartbeat)
    db.write(lambda connection: report(connection.exec_driver_sql, pid=os.getpid(), hostname=worker.host_name()))


def validate_supervisor_environment(nas: HostContext, worker_id: str) -> environment.EnvironmentReport:
    """Whether the supervisor can work here: `valid`, and the `issues`."""
    nas.config.worker(worker_id)
    return environment.validate_supervisor_environment(nas.config, nas.drive)


def _host(config_path: str | Path | None) -> HostContext:
    config = load_supervisor_config(config_path)
    environment.prepare_state_dir(config)
    return open_doors(config)


def _heartbeat(
    supervisor_id: str,
    worker_id: str,
    success: bool,
    error: str | None,
    actions: Sequence[str] | None,
    state: str = "unknown",
) -> files.SupervisorHeartbeat:
    now = datetime.now(UTC)
    return files.SupervisorHeartbeat(supervisor_id, worker_id, now, success, error, tuple(actions or ()), state)


def _carry_out(handler: str, nas: HostContext, db: Ledger, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    task_id, carrier = str(task.get("task_id") or new_task_id(datetime.now(UTC))), LocalCarrier(db)
    try:
        command = _command(handler, nas.config.worker(worker_id).id, task)
        gateway = Gateway(nas.config, carrier, approvals_of(nas.config, db))
        with pass_ownership(nas.config.state_dir, worker_id):
            if gateway.submit(command, shell_issuer(), DOOR, task_id).approval is not None:
                raise RefusedError(f"{command.name} waits for an approval.")
            (job,) = carrier.carried(task_id)
            execute(job, replace(nas, ledger=db), db)
    except SupervisorError as error:
        return {"task_id": task_id, "success": False, "error": str(error), "details": {}}
    (job,) = carrier.carried(task_id)
    return result_document(job)


def _command(handler: str, worker_id: str, task: Mapping[str, Any]) -> Command:
    definition = by_handler(handler)
    assert definition is not None  # noqa: S101 (each handler above is in the catalog)
    params = check_params(definition, task.get("params"))
    return Command.for_worker(definition.name, worker_id, params, clean_label(task.get("label")))
