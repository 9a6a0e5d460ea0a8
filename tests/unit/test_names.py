"""The names that readers of the requirements look for are in their rooms."""

from __future__ import annotations

from importlib import import_module

import pytest

NAMES = {
    "supervisor_core": ("Supervisor", "SupervisorAgent", "TeamManager"),
    "supervisor_core.runtime": (
        "ConfigService",
        "Event",
        "EventBus",
        "Reconciler",
        "Supervisor",
        "SupervisorAgent",
        "TeamManager",
        "check_control_flags",
        "validate_supervisor_environment",
    ),
    "supervisor_core.domain": (
        "validate_label",
        "is_watcher_healthy",
        "plan",
        "ActionKind",
        "WorkerState",
        "Snapshot",
        "SupervisorStatus",
    ),
    "supervisor_core.adapters": (
        "check_watcher_process",
        "start_watcher",
        "stop_watcher_gracefully",
        "is_watcher_paused",
        "read_heartbeat_file",
        "read_watcher_heartbeat",
        "get_heartbeat_age_seconds",
        "write_supervisor_heartbeat_file",
        "run_command",
        "WorkerAdapter",
    ),
    "supervisor_core.ledger": ("report_supervisor_heartbeat_to_database",),
    "supervisor_core.handlers": (
        "pause_watcher",
        "restart_watcher",
        "resume_watcher",
        "generate_diagnostics",
        "verify_database",
    ),
    "supervisor_core.config": ("load_supervisor_config",),
    "supervisor_core.cli": ("main",),
}


@pytest.mark.parametrize(("room", "name"), [(room, name) for room, names in NAMES.items() for name in names])
def test_the_name_is_a_thing_to_call_or_to_make(room: str, name: str) -> None:
    assert callable(getattr(import_module(room), name))


@pytest.mark.parametrize("room", [room for room in NAMES if not room.endswith(("handlers", "cli"))])
def test_a_name_that_is_not_there_is_an_attribute_error(room: str) -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(import_module(room), "nonsense")  # noqa: B009 (the point is how it is looked up)


def test_the_supervisor_has_what_the_requirements_call_it() -> None:
    supervisor = import_module("supervisor_core").Supervisor
    for name in ("run_once", "check_watcher_health", "check_control_flags"):
        assert callable(getattr(supervisor, name))
    for name in ("report_heartbeat_to_database", "write_heartbeat_file"):
        assert callable(getattr(supervisor, name))
