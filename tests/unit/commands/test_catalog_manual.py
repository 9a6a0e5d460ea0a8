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


def test_help_says_the_bounds_and_what_happens_without() -> None:
    assert "1 to 10, default 1" in help_text(CATALOG["rollback"])
    assert "default 1h" in help_text(CATALOG["mute"])
    assert "approval" in help_text(CATALOG["update"])


def test_the_overview_has_every_command_once() -> None:
    lines = help_overview(CATALOG.values()).splitlines()
    for definition in CATALOG.values():
        assert sum(definition.summary in line for line in lines) == 1


def test_the_overview_leaves_out_what_the_asker_may_not_know() -> None:
    text = help_overview([CATALOG["status"]])
    assert "status" in text
    assert "rollback" not in text
    assert "Actions" not in text


def test_help_on_a_host_with_one_worker_says_nothing_of_several() -> None:
    assert "--keep-going" in help_text(CATALOG["restart"], "North", 2)
    alone = help_text(CATALOG["restart"], "North", 1)
    assert "--keep-going" not in alone
    assert "several" not in alone


@pytest.mark.parametrize("definition", CATALOG.values(), ids=lambda definition: definition.name)
def test_help_names_no_handler_and_no_audit_action(definition: CommandDefinition) -> None:
    text = help_text(definition)
    assert "restart_watcher" not in text
    assert not definition.audit_action or definition.audit_action not in text


def test_the_examples_name_a_worker_of_the_reader_s_host() -> None:
    text = help_text(CATALOG["restart"], "North")
    assert "restart North hangs on a scan" in text
    assert "restart North*" in text
    assert "Orion" not in text
