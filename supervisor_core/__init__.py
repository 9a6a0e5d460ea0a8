"""The supervisor core: carries out commands on one host, safely and once, and records who requested them.

The names that readers of the requirements look for are importable from here. Each is fetched when it is first used,
so that `supervisor status` stays quick. `supervisor_core.compatibility` has them with the argument order of the
requirement documents.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.cli import main
    from supervisor_core.code.change import rollback_code, undo_code, update_code, update_code_deps
    from supervisor_core.commands.labels import validate_label
    from supervisor_core.common.events import Event, EventBus, SystemEvent
    from supervisor_core.config.load import load_supervisor_config
    from supervisor_core.daemon.configuration.service import ConfigService
    from supervisor_core.daemon.environment import validate_supervisor_environment
    from supervisor_core.daemon.reconciler import Reconciler
    from supervisor_core.daemon.services.agent import SupervisorAgent
    from supervisor_core.daemon.single_pass import Supervisor, check_control_flags
    from supervisor_core.diagnosis.reports.handlers import generate_diagnostics, verify_database
    from supervisor_core.host.programs import run_command
    from supervisor_core.jobs.handlers import pause_watcher, restart_watcher, resume_watcher
    from supervisor_core.storage.supervisors import SupervisorStatus
    from supervisor_core.workers.adapter import ProcessWorkerAdapter, WorkerAdapter
    from supervisor_core.workers.adapter_fake import FakeWorkerAdapter
    from supervisor_core.workers.health import WorkerState, is_watcher_healthy
    from supervisor_core.workers.heartbeats.files import (
        get_heartbeat_age_seconds,
        read_heartbeat_file,
        read_watcher_heartbeat,
        report_supervisor_heartbeat_to_database,
        write_supervisor_heartbeat_file,
    )
    from supervisor_core.workers.pauses import is_watcher_paused
    from supervisor_core.workers.planning import ActionKind, plan
    from supervisor_core.workers.status import Snapshot
    from supervisor_core.workers.teams import TeamManager
    from supervisor_core.workers.worker import check_watcher_process, start_watcher, stop_watcher_gracefully

_HOMES = {
    "ActionKind": "workers.planning",
    "ConfigService": "daemon.configuration.service",
    "Event": "common.events",
    "EventBus": "common.events",
    "FakeWorkerAdapter": "workers.adapter_fake",
    "ProcessWorkerAdapter": "workers.adapter",
    "Reconciler": "daemon.reconciler",
    "Snapshot": "workers.status",
    "Supervisor": "daemon.single_pass",
    "SupervisorAgent": "daemon.services.agent",
    "SupervisorStatus": "storage.supervisors",
    "SystemEvent": "common.events",
    "TeamManager": "workers.teams",
    "WorkerAdapter": "workers.adapter",
    "WorkerState": "workers.health",
    "check_control_flags": "daemon.single_pass",
    "check_watcher_process": "workers.worker",
    "generate_diagnostics": "diagnosis.reports.handlers",
    "get_heartbeat_age_seconds": "workers.heartbeats.files",
    "is_watcher_healthy": "workers.health",
    "is_watcher_paused": "workers.pauses",
    "load_supervisor_config": "config.load",
    "main": "cli",
    "pause_watcher": "jobs.handlers",
    "plan": "workers.planning",
    "read_heartbeat_file": "workers.heartbeats.files",
    "read_watcher_heartbeat": "workers.heartbeats.files",
    "report_supervisor_heartbeat_to_database": "workers.heartbeats.files",
    "restart_watcher": "jobs.handlers",
    "resume_watcher": "jobs.handlers",
    "rollback_code": "code.change",
    "run_command": "host.programs",
    "start_watcher": "workers.worker",
    "stop_watcher_gracefully": "workers.worker",
    "undo_code": "code.change",
    "update_code": "code.change",
    "update_code_deps": "code.change",
    "validate_label": "commands.labels",
    "validate_supervisor_environment": "daemon.environment",
    "verify_database": "diagnosis.reports.handlers",
    "write_supervisor_heartbeat_file": "workers.heartbeats.files",
}

__all__ = [
    "ActionKind",
    "ConfigService",
    "Event",
    "EventBus",
    "FakeWorkerAdapter",
    "ProcessWorkerAdapter",
    "Reconciler",
    "Snapshot",
    "Supervisor",
    "SupervisorAgent",
    "SupervisorStatus",
    "SystemEvent",
    "TeamManager",
    "WorkerAdapter",
    "WorkerState",
    "check_control_flags",
    "check_watcher_process",
    "generate_diagnostics",
    "get_heartbeat_age_seconds",
    "is_watcher_healthy",
    "is_watcher_paused",
    "load_supervisor_config",
    "main",
    "pause_watcher",
    "plan",
    "read_heartbeat_file",
    "read_watcher_heartbeat",
    "report_supervisor_heartbeat_to_database",
    "restart_watcher",
    "resume_watcher",
    "rollback_code",
    "run_command",
    "start_watcher",
    "stop_watcher_gracefully",
    "undo_code",
    "update_code",
    "update_code_deps",
    "validate_label",
    "validate_supervisor_environment",
    "verify_database",
    "write_supervisor_heartbeat_file",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
