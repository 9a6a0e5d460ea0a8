"""manifest.yml asks for what the bot needs and for no more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from slack_sdk.web.async_client import AsyncWebClient

from bot import scopes
from tests.support.homes import ROOT

NOT_THE_BOT = ("demo",)
"""Folders in bot/ whose code does not run with the bot's token."""


def ours() -> dict[str, Any]:
    """manifest.yml as it is."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "manifest.yml").read_text(encoding="utf-8"))
    return document


def test_it_asks_for_the_scopes_that_are_needed_and_for_no_more() -> None:
    asked = ours()["oauth_config"]["scopes"]
    assert sorted(asked["bot"]) == asked["bot"] == sorted(scopes.REQUIRED | scopes.OPTIONAL)
    assert sorted(asked["bot_optional"]) == asked["bot_optional"] == sorted(scopes.OPTIONAL)


def test_its_events_are_those_whose_scopes_are_known() -> None:
    assert set(ours()["settings"]["event_subscriptions"]["bot_events"]) == set(scopes.EVENTS)


def test_no_event_depends_on_a_scope_that_may_be_left_out() -> None:
    assert not set(scopes.EVENTS.values()) & scopes.OPTIONAL


def web_methods() -> dict[str, str]:
    """What the SDK's functions are called in Slack's words: `usergroups_users_list` is `usergroups.users.list`."""
    return {name: name.replace("_", ".") for name in vars(AsyncWebClient) if "_" in name and not name.startswith("_")}


def used_in(source: str) -> Iterator[str]:
    """Every method of the Web API that a module names, called at once or handed on."""
    known = web_methods()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in known:
            yield known[node.attr]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "api_call":
            word = node.args[0] if node.args else None
            yield str(word.value) if isinstance(word, ast.Constant) else "api_call with a name that can't be read"


def modules_of_the_bot() -> list[Path]:
    """Every module whose calls are made with the bot's token."""
    folder = ROOT / "bot"
    return [path for path in folder.rglob("*.py") if path.relative_to(folder).parts[0] not in NOT_THE_BOT]


def test_every_method_that_is_used_has_its_scopes_written_down() -> None:
    used = {method for path in modules_of_the_bot() for method in used_in(path.read_text(encoding="utf-8"))}
    assert sorted(used - scopes.METHODS) == [], "add these to bot/scopes.py, and their scopes to manifest.yml"
    assert {"chat.postMessage", "users.info", "apps.connections.open"} <= used


def test_missing_scopes_are_told_the_required_ones_first() -> None:
    told = scopes.missing(scopes.REQUIRED - {"users:read"})
    assert [need.scope for need in told][:1] == ["users:read"]
    assert {need.scope for need in told} == {"users:read"} | scopes.OPTIONAL
    assert scopes.missing(["*"]) == scopes.missing(scopes.REQUIRED | scopes.OPTIONAL) == []
