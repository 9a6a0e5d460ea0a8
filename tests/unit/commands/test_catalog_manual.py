"""Help says what the catalog says."""

from __future__ import annotations

import pytest

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.commands.manual import help_overview, help_text


@pytest.mark.parametrize("definition", CATALOG.values(), ids=lambda definition: definition.name)
def test_help_for_a_command_shows_all_about_it(definition: CommandDefinition) -> None:
    text = help_text(definition)
    assert text.startswith(f"{definition.usage}\n{definition.summary}")
    for said in (*(each.help for each in definition.parameters), *definition.examples):
        assert said in text
    for alias in definition.aliases:
        assert (alias in text) is ("_" not in alias)


def test_the_overview_has_every_command_once() -> None:
    lines = help_overview(CATALOG.values()).splitlines()
    for definition in CATALOG.values():
        assert sum(definition.summary in line for line in lines) == 1


def test_the_overview_leaves_out_what_the_asker_may_not_know() -> None:
    text = help_overview([CATALOG["status"]])
    assert "status" in text
    assert "rollback" not in text
    assert "Actions" not in text


@pytest.mark.parametrize("definition", CATALOG.values(), ids=lambda definition: definition.name)
def test_help_names_no_handler_and_no_audit_action(definition: CommandDefinition) -> None:
    text = help_text(definition)
    assert "restart_watcher" not in text
    assert not definition.audit_action or definition.audit_action not in text
