"""The outside world, one door each: processes, files, locks, the inbox, the drive.

The names that others look for here are found here, each fetched from its module when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.adapters.pauses import is_watcher_paused
    from supervisor_core.adapters.programs import run_command
    from supervisor_core.adapters.worker import check_watcher_process, start_watcher, stop_watcher_gracefully

_HOMES = {
    "check_watcher_process": "worker",
    "is_watcher_paused": "pauses",
    "run_command": "programs",
    "start_watcher": "worker",
    "stop_watcher_gracefully": "worker",
}

__all__ = ["check_watcher_process", "is_watcher_paused", "run_command", "start_watcher", "stop_watcher_gracefully"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
