"""The supervisor core: carries out commands on one host, safely and once, and writes down who asked."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.runtime.supervisor import Supervisor

_HOMES = {"Supervisor": "runtime.supervisor"}

__all__ = ["Supervisor"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
