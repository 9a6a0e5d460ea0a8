"""The supervisor core: carries out commands on one host, safely and once, and writes down who asked."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.runtime.agent import SupervisorAgent
    from supervisor_core.runtime.supervisor import Supervisor
    from supervisor_core.runtime.teams import TeamManager

_HOMES = {"Supervisor": "runtime.supervisor", "SupervisorAgent": "runtime.agent", "TeamManager": "runtime.teams"}

__all__ = ["Supervisor", "SupervisorAgent", "TeamManager"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
