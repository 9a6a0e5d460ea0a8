"""Rules as pure functions and frozen values; imports nothing but the standard library.

The names that others look for here are found here, each fetched from its module when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.domain.agent import SupervisorStatus
    from supervisor_core.domain.health import WorkerState, is_watcher_healthy
    from supervisor_core.domain.labels import validate_label
    from supervisor_core.domain.planning import ActionKind, plan
    from supervisor_core.domain.snapshots import Snapshot

_HOMES = {
    "ActionKind": "planning",
    "Snapshot": "snapshots",
    "SupervisorStatus": "agent",
    "WorkerState": "health",
    "is_watcher_healthy": "health",
    "plan": "planning",
    "validate_label": "labels",
}

__all__ = ["ActionKind", "Snapshot", "SupervisorStatus", "WorkerState", "is_watcher_healthy", "plan", "validate_label"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
