"""The outside world, one door each: processes, files, locks, the inbox, the drive.

The names that others look for here are found here, each fetched from its module when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.adapters.heartbeats import (
        get_heartbeat_age_seconds,
        read_heartbeat_file,
        read_watcher_heartbeat,
        write_supervisor_heartbeat_file,
    )
    from supervisor_core.adapters.pauses import is_watcher_paused
    from supervisor_core.adapters.programs import run_command
    from supervisor_core.adapters.worker import check_watcher_process, start_watcher, stop_watcher_gracefully
    from supervisor_core.adapters.worker_adapter import WorkerAdapter

_HOMES = {
    "WorkerAdapter": "worker_adapter",
    "check_watcher_process": "worker",
    "get_heartbeat_age_seconds": "heartbeats",
    "is_watcher_paused": "pauses",
    "read_heartbeat_file": "heartbeats",
    "read_watcher_heartbeat": "heartbeats",
    "run_command": "programs",
    "start_watcher": "worker",
    "stop_watcher_gracefully": "worker",
    "write_supervisor_heartbeat_file": "heartbeats",
}

__all__ = [
    "WorkerAdapter",
    "check_watcher_process",
    "get_heartbeat_age_seconds",
    "is_watcher_paused",
    "read_heartbeat_file",
    "read_watcher_heartbeat",
    "run_command",
    "start_watcher",
    "stop_watcher_gracefully",
    "write_supervisor_heartbeat_file",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
