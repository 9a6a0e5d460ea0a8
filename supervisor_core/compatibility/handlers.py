"""The handlers. Each queues a command and carries it out at once, or has the daemon do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from supervisor_core.cli.host import approvals_of, is_awake, shell_issuer
from supervisor_core.cli.send.command import describe_missing_outcome, wait_for_outcome
from supervisor_core.cli.send.without_daemon import look as read_outcome
from supervisor_core.commands.catalog import by_handler, check_params
from supervisor_core.commands.command import Command
from supervisor_core.commands.labels import clean_label
from supervisor_core.common.errors import RefusedError, SupervisorError, TemporaryError
from supervisor_core.compatibility.host import host_of, ledger_of
from supervisor_core.daemon.execution import execute
from supervisor_core.daemon.ownership import pass_ownership
from supervisor_core.intake.filing import LocalCarrier
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs.model import Job, check_own_id, new_task_id
from supervisor_core.jobs.results import result_document
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext

DOOR = "cli"

DAEMON_SECONDS = 600.0
"""The longest wait for the daemon's outcome."""


def pause_watcher(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Pause the worker; returns `success`, `error` and `details`, and each detail by its own name."""
    return _carry_out("pause", nas, db, worker_id, task)


def resume_watcher(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """End the worker's pause and start it."""
    return _carry_out("resume", nas, db, worker_id, task)


def restart_watcher(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Restart the worker; a paused one stays paused."""
    return _carry_out("restart_watcher", nas, db, worker_id, task)


def update_code(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Bring in new commits and restart the workers of the checkout."""
    return _carry_out("update_code", nas, db, worker_id, task)


def update_code_deps(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with the packages of the requirements file."""
    return _carry_out("update_code_deps", nas, db, worker_id, task)


def rollback_code(task: Mapping[str, Any], nas: object, db: object, worker_id: str) -> dict[str, Any]:
    """Revert the newest `params.commits_back` commits, 1 where it's left out. The task comes first here."""
    return _carry_out("rollback_code", nas, db, worker_id, task)


def undo_code(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Undo an update or a rollback: the newest, or that of `params.task_id`."""
    return _carry_out("undo_code", nas, db, worker_id, task)


def generate_diagnostics(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Write a diagnostic report."""
    return _carry_out("diagnostics", nas, db, worker_id, task)


def verify_database(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Check the database and write a report."""
    return _carry_out("verify_db", nas, db, worker_id, task)


diagnostics, verify_db = generate_diagnostics, verify_database


def _carry_out(handler: str, nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    _check_order(handler, worker_id, task)
    task_id = str(task.get("task_id") or new_task_id(datetime.now(UTC)))
    try:
        host = host_of(nas)
        command = _command(handler, host.config.worker(worker_id).id, task)
        run = _run_by_daemon if is_awake(str(host.config.state_dir)) else _run_here
        result = run(host, db, command, check_own_id(task_id))
    except SupervisorError as error:
        return {"task_id": task_id, "success": False, "error": str(error), "details": {}}
    return {**result["details"], **result}


def _check_order(handler: str, worker_id: object, task: object) -> None:
    """Raise `TypeError` with the expected order if the arguments aren't a worker and a task."""
    if isinstance(worker_id, str) and isinstance(task, Mapping):
        return
    names = "task, nas, db, worker_id" if handler == "rollback_code" else "nas, db, worker_id, task"
    raise TypeError(
        f"The arguments of this function are ({names}): worker_id is a string and task a dictionary,"
        f" not {type(worker_id).__name__} and {type(task).__name__}."
    )


def _run_here(host: HostContext, db: object, command: Command, task_id: str) -> dict[str, Any]:
    with pass_ownership(host.config.state_dir, command.target), ledger_of(db, host.config) as ledger:
        _submit(host, ledger, command, task_id)
        execute(_job(ledger, command, task_id), replace(host, ledger=ledger), ledger)
        return result_document(_job(ledger, command, task_id))


def _run_by_daemon(host: HostContext, db: object, command: Command, task_id: str) -> dict[str, Any]:
    with ledger_of(db, host.config) as ledger:
        _submit(host, ledger, command, task_id)
    state_dir, look = str(host.config.state_dir), partial(read_outcome, str(host.config.path))
    is_awake(state_dir)
    _, results = wait_for_outcome(state_dir, task_id, DAEMON_SECONDS, None, look)
    if results is None:
        raise TemporaryError(describe_missing_outcome(state_dir, task_id, DAEMON_SECONDS))
    return next(result for result in results if result["worker_id"] == command.target)


def _submit(host: HostContext, ledger: Ledger, command: Command, task_id: str) -> None:
    """Queue the command unless it was before; `RefusedError` while it waits for approval."""
    gateway = Gateway(host.config, LocalCarrier(ledger), approvals_of(host.config, ledger))
    if gateway.submit(command, shell_issuer(), DOOR, task_id).approval is not None:
        raise RefusedError(f"{command.name} waits for an approval.")


def _job(ledger: Ledger, command: Command, task_id: str) -> Job:
    return next(job for job in LocalCarrier(ledger).carried(task_id) if job.worker_id == command.target)


def _command(handler: str, worker_id: str, task: Mapping[str, Any]) -> Command:
    definition = by_handler(handler)
    assert definition is not None  # noqa: S101 (each handler above is in the catalog)
    params = check_params(definition, task.get("params"))
    return Command.for_worker(definition.name, worker_id, params, clean_label(task.get("label")))
