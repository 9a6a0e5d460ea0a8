"""The handlers of commands, by the catalog's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from supervisor_core.added_commands import run_added
from supervisor_core.code.change import rollback_code, undo_code, update_code, update_code_deps
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.command import Outcome
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.diagnosis.reports.handlers import generate_diagnostics, verify_database
from supervisor_core.jobs.handlers import pause_watcher, restart_watcher, resume_watcher
from supervisor_core.jobs.model import Job
from supervisor_core.processes.stopping import FREEZE_BOUND_SECONDS, KILL_WAIT_SECONDS, REST_GRACE_SECONDS
from supervisor_core.workers.context import HostContext

Handler = Callable[[HostContext, Job], Outcome]
"""Executes one job and returns its outcome. It runs in a thread of its own and may take long. A `SupervisorError` is a
failure whose text people see; any other exception is a bug."""

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "pause": pause_watcher,
        "resume": resume_watcher,
        "restart_watcher": restart_watcher,
        "update_code": update_code,
        "update_code_deps": update_code_deps,
        "rollback_code": rollback_code,
        "undo_code": undo_code,
        "diagnostics": generate_diagnostics,
        "verify_db": verify_database,
    }
)

STOP_LIMIT_SECONDS = 600.0
"""A daemon that stops waits so long for running commands. They're cut off then, and reported as interrupted."""


def added_handler(name: str) -> Handler | None:
    """The handler of a command that isn't built in; None if this host has no such command."""
    definition = by_handler(name)
    return run_added if definition is not None and definition.extension is not None else None


def stop_seconds(worker: WorkerSettings) -> float:
    """The most that stopping this worker may take."""
    return worker.stop_timeout_seconds + REST_GRACE_SECONDS + FREEZE_BOUND_SECONDS + KILL_WAIT_SECONDS
