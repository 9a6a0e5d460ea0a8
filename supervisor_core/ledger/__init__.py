"""The local SQLite file in which a host writes first, always: tables, `step`, queries, migrations.

The name that others look for here is found here, fetched from its module when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.ledger.heartbeats import report_supervisor_heartbeat_to_database

_HOMES = {"report_supervisor_heartbeat_to_database": "heartbeats"}

__all__ = ["report_supervisor_heartbeat_to_database"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
