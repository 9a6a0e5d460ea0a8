"""What runs: the pass, the daemon with its services and actors, ownership, the control socket.

The names that others look for here are found here, each fetched from its module when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.domain.events import Event
    from supervisor_core.runtime.agent import SupervisorAgent
    from supervisor_core.runtime.config_service import ConfigService
    from supervisor_core.runtime.control_flags import check_control_flags
    from supervisor_core.runtime.environment import validate_supervisor_environment
    from supervisor_core.runtime.event_bus import EventBus
    from supervisor_core.runtime.reconciler import Reconciler
    from supervisor_core.runtime.supervisor import Supervisor
    from supervisor_core.runtime.teams import TeamManager

_HOMES = {
    "ConfigService": "config_service",
    "Event": "event_bus",
    "EventBus": "event_bus",
    "Reconciler": "reconciler",
    "Supervisor": "supervisor",
    "SupervisorAgent": "agent",
    "TeamManager": "teams",
    "check_control_flags": "control_flags",
    "validate_supervisor_environment": "environment",
}

__all__ = [
    "ConfigService",
    "Event",
    "EventBus",
    "Reconciler",
    "Supervisor",
    "SupervisorAgent",
    "TeamManager",
    "check_control_flags",
    "validate_supervisor_environment",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
