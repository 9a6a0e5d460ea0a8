"""Help says what the catalog says."""

from __future__ import annotations

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.manual import help_overview


def test_the_overview_has_every_command_once() -> None:
    lines = help_overview(CATALOG.values()).splitlines()
    for definition in CATALOG.values():
        assert sum(definition.summary in line for line in lines) == 1


def test_the_overview_leaves_out_what_the_asker_may_not_know() -> None:
    text = help_overview([CATALOG["status"]])
    assert "status" in text
    assert "rollback" not in text
    assert "Actions" not in text
