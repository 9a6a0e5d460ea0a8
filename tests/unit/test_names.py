"""The names that readers of the requirements look for are in their rooms."""

from __future__ import annotations

from importlib import import_module

import pytest

NAMES = {
    "supervisor_core.domain": ("validate_label", "plan", "ActionKind", "WorkerState"),
    "supervisor_core.adapters": (
        "check_watcher_process",
        "start_watcher",
        "stop_watcher_gracefully",
        "is_watcher_paused",
        "run_command",
    ),
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


@pytest.mark.parametrize("room", ["supervisor_core.domain", "supervisor_core.adapters", "supervisor_core.config"])
def test_a_name_that_is_not_there_is_an_attribute_error(room: str) -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(import_module(room), "nonsense")  # noqa: B009 (the point is how it is looked up)
