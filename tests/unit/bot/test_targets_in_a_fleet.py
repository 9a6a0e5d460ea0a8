"""Targets across hosts in Slack: menus for thousands of workers, and the facts that conditions are checked against."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from bot.access.rules import AccessRules
from bot.requests.commands import MOST_CHOICES, Mistakes, TargetFacts
from bot.views.forms import command_form, matching_options, target_names
from slack_playground.blockkit import check_message
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from tests.unit.bot.views.test_answers import ASKED, OPERATOR, config
from tests.unit.bot.views.test_forms import found, target_of

OWN = config()


def fleet(hosts: int, workers: int) -> SupervisorConfig:
    """The configuration of a hub with three workers of its own, and so many on each of so many hosts."""
    one = OWN.workers["OrionMX"]
    there = {f"web-{host}/w{number}": one for host in range(hosts) for number in range(workers)}
    return structs.replace(OWN, workers={**OWN.workers, **there})


SMALL, LARGE = fleet(2, 2), fleet(1000, 10)


def which_worker(there: SupervisorConfig) -> Mapping[str, Any]:
    """The answer to a restart without a target."""
    with pytest.raises(GrammarError) as caught:
        parse("restart", grammar_context(there))
    rules = AccessRules(there.slack, there.teams, there.workers, "T0HOME")
    return Mistakes(there, rules).answer(ASKED, caught.value, OPERATOR)


def menu_of(content: Mapping[str, Any]) -> list[str]:
    blocks = content.get("blocks") or content["attachments"][0]["blocks"]
    (menu,) = [each for block in blocks if block["type"] == "actions" for each in block["elements"]]
    return [each["value"] for each in menu["options"]]


def test_a_menu_offers_hosts_in_a_fleet_alone() -> None:
    groups = ["team:archive", "all", "host:Host", "host:web-0", "host:web-1"]
    assert target_names(grammar_context(SMALL)) == [*SMALL.workers, *groups]
    assert target_names(grammar_context(OWN)) == [*OWN.workers, "team:archive", "all"]
    assert menu_of(which_worker(SMALL)) == [*SMALL.workers, *groups]


def test_a_menu_of_ten_thousand_workers_has_the_groups_and_says_how_to_type_others() -> None:
    content = which_worker(LARGE)
    offered = menu_of(content)
    assert len(offered) == MOST_CHOICES
    assert offered[:4] == ["team:archive", "all", "host:Host", "host:web-0"]
    assert "type `/supervisor restart WORKER`" in content["text"]
    assert check_message(content) == []


def test_a_form_for_ten_thousand_workers_finds_them_as_they_are_typed() -> None:
    context = grammar_context(LARGE)
    assert target_of(command_form(CATALOG["restart"], context))["type"] == "external_select"
    assert found("web-123/w4", context) == ["web-123/w4"]
    assert found("host:web-77", context)[0] == "host:web-77"
    assert found("*/w3", context) == ["*/w3"]
    assert len(matching_options("w3", context)) == MOST_CHOICES


def test_conditions_are_checked_against_a_look_at_the_workers_right_before() -> None:
    looks: list[str] = []

    async def look() -> list[dict[str, Any]]:
        looks.append("status")
        stale = {"id": "North", "state": "running", "health": "stale", "fine": False, "paused": False}
        return [stale, {**stale, "id": "South", "health": "healthy", "fine": True}]

    async def versions() -> dict[str, str]:
        looks.append("versions")
        return {"South": "3f2a" * 10}

    facts = TargetFacts(look, versions)
    context = grammar_context(OWN, facts)
    asyncio.run(facts.refresh_for("restart all"))
    assert not looks
    with pytest.raises(GrammarError, match="can't be checked right now"):
        parse("restart where state=stale", context)
    asyncio.run(facts.refresh_for("restart WHERE state=stale"))
    assert looks == ["status"]
    assert parse("restart where state=stale", context).workers == ("North",)
    asyncio.run(facts.refresh_for("restart where version=3f2a"))
    assert looks == ["status", "status", "versions"]
    assert parse("restart where version=3f2a", context).workers == ("South",)
