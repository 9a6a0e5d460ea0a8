"""The names that readers of the requirements look for."""

from __future__ import annotations

import pytest

import supervisor_core


@pytest.mark.parametrize("name", supervisor_core.__all__)
def test_the_name_is_a_thing_to_call_or_to_make(name: str) -> None:
    assert callable(getattr(supervisor_core, name))


def test_each_name_is_found_by_every_way_of_importing() -> None:
    namespace: dict[str, object] = {}
    exec("from supervisor_core import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(supervisor_core.__all__) <= set(dir(supervisor_core))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(supervisor_core, "nonsense")  # noqa: B009 (the point is how it is looked up)


def test_the_supervisor_has_the_methods_of_the_requirements() -> None:
    supervisor = supervisor_core.Supervisor
    for name in (
        "run_once",
        "check_watcher_health",
        "check_control_flags",
        "report_heartbeat_to_database",
        "write_heartbeat_file",
    ):
        assert callable(getattr(supervisor, name))
