"""What carries out a command: one module per kind, one signature for all.

The registry is a mapping from the catalog's handler names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.context import Host
from supervisor_core.handlers.diagnostics import generate_diagnostics
from supervisor_core.handlers.pause import pause_watcher
from supervisor_core.handlers.restart import restart_watcher
from supervisor_core.handlers.resume import resume_watcher
from supervisor_core.handlers.rollback_code import rollback_code
from supervisor_core.handlers.undo_code import undo_code
from supervisor_core.handlers.update_code import update_code, update_code_deps
from supervisor_core.handlers.verify_database import verify_database

Handler = Callable[[Host, Job], Outcome]
"""Carries out one job and says what came of it. It runs in a thread of its own and may take its time; a
`SupervisorError` that it raises is a failure in words, anything else is a mistake of ours."""

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

__all__ = [
    "HANDLERS",
    "Handler",
    "Host",
    "generate_diagnostics",
    "pause_watcher",
    "restart_watcher",
    "resume_watcher",
    "rollback_code",
    "undo_code",
    "update_code",
    "update_code_deps",
    "verify_database",
]
