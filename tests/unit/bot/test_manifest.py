"""manifest.yml is what Slack accepts, and asks for what the bot needs and for no more."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from slack_sdk.web.async_client import AsyncWebClient

from bot import scopes
from tests.support.homes import ROOT
from tests.support.slack.manifest_rules import problems

NOT_THE_BOT = ("demo",)
"""Folders in bot/ whose code does not run with the bot's token."""


def ours() -> dict[str, Any]:
    """manifest.yml as it is."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "manifest.yml").read_text(encoding="utf-8"))
    return document


def changed(path: str, value: Any) -> dict[str, Any]:
    """manifest.yml with one thing changed; None takes it out."""
    document = copy.deepcopy(ours())
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place: Any = document
    for step in way:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


def test_ours_is_what_slack_accepts() -> None:
    assert problems(ours()) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("nonsense", 1, "nonsense is not known"),
        ("display_information", None, "display_information is missing"),
        ("display_information.name", None, "display_information.name is missing"),
        ("display_information.name", "", "display_information.name must have 1 to 35 characters"),
        ("display_information.name", "x" * 36, "display_information.name must have 1 to 35 characters"),
        ("display_information.name", 7, "display_information.name must be text"),
        ("display_information.description", "x" * 141, "display_information.description must have 1 to 140 characters"),
        ("display_information.long_description", "short", "long_description must have 175 to 4000 characters"),
        ("display_information.background_color", "blue", "background_color must look like"),
        ("display_information.background_color", "#12345", "background_color must look like"),
        ("display_information.icon", "x.png", "display_information.icon is not known"),
        ("features.app_home.home_tab_enabled", "yes", "home_tab_enabled must be true or false"),
        ("features.app_home.home", True, "features.app_home.home is not known"),
        ("features.bot_user", None, "oauth_config.scopes.bot needs features.bot_user"),
        ("features.bot_user.display_name", None, "features.bot_user.display_name is missing"),
        ("features.bot_user.display_name", "x" * 81, "features.bot_user.display_name must have 1 to 80 characters"),
        ("features.slash_commands", [], "features.slash_commands must have 1 to 50 items"),
        ("features.slash_commands.0.description", None, "features.slash_commands[0].description is missing"),
        ("features.slash_commands.0.command", "supervisor", "features.slash_commands[0].command must look like"),
        ("features.slash_commands.0.command", "/" + "x" * 32, "[0].command must have 2 to 32 characters"),
        ("features.slash_commands.0.usage_hint", "x" * 1001, "[0].usage_hint must have 1 to 1000 characters"),
        ("features.slash_commands.0.url", "https://h/", "[0].url has no meaning with Socket Mode"),
        ("features.slash_commands.0.url", "h", "features.slash_commands[0].url must look like"),
        ("features.slash_commands.0.escape", True, "features.slash_commands[0].escape is not known"),
        ("features.shortcuts", [{"name": "x", "type": "local"}], "features.shortcuts[0].type must be one of"),
        ("oauth_config.scopes.bot", "chat:write", "oauth_config.scopes.bot must be a list"),
        ("oauth_config.scopes.bot", ["x" * 51], "oauth_config.scopes.bot[0] must have 0 to 50 characters"),
        ("oauth_config.scopes.bot", ["chat:write"], "bot_optional: channels:history must be in bot as well"),
        ("oauth_config.scopes.app", [], "oauth_config.scopes.app is not known"),
        ("settings.event_subscriptions.request_url", "https://h/", "request_url has no meaning with Socket Mode"),
        ("settings.event_subscriptions.bot_events", ["x", "x"], "bot_events names one twice"),
        ("settings.interactivity.is_enabled", None, "settings.interactivity.is_enabled is missing"),
        ("settings.interactivity.request_url", "https://h/", "request_url has no meaning with Socket Mode"),
        ("settings.socket_mode_enabled", False, "[0].url is missing, or settings.socket_mode_enabled"),
        ("settings.socket_mode_enabled", None, "request_url is missing, or settings.socket_mode_enabled"),
        ("settings.socket_mode", True, "settings.socket_mode is not known"),
    ],
)
def test_what_slack_would_refuse_is_found(path: str, value: Any, problem: str) -> None:
    assert problem in "\n".join(problems(changed(path, value)))


def test_a_slash_command_needs_its_scope() -> None:
    bot = [scope for scope in ours()["oauth_config"]["scopes"]["bot"] if scope != "commands"]
    assert problems(changed("oauth_config.scopes.bot", bot)) == ["features.slash_commands needs the scope commands"]


@pytest.mark.parametrize("document", [None, [], "name: x"])
def test_what_is_no_manifest_at_all_is_said(document: Any) -> None:
    assert problems(document) == ["the manifest must be a section"]


def test_it_asks_for_the_scopes_that_are_needed_and_for_no_more() -> None:
    asked = ours()["oauth_config"]["scopes"]
    assert sorted(asked["bot"]) == asked["bot"] == sorted(scopes.REQUIRED | scopes.OPTIONAL)
    assert sorted(asked["bot_optional"]) == asked["bot_optional"] == sorted(scopes.OPTIONAL)


def test_its_events_are_those_whose_scopes_are_known() -> None:
    assert set(ours()["settings"]["event_subscriptions"]["bot_events"]) == set(scopes.EVENTS)


def test_no_event_depends_on_a_scope_that_may_be_left_out() -> None:
    assert not set(scopes.EVENTS.values()) & scopes.OPTIONAL


def test_the_guide_names_every_scope() -> None:
    guide = (ROOT / "docs" / "how-to" / "connect-to-slack.md").read_text(encoding="utf-8")
    section = guide.partition("## Scopes")[2].partition("\n## ")[0]
    named = {word for line in section.splitlines() if line.startswith("| `") for word in line.split("`")[1::2]}
    assert named - {"/supervisor"} == scopes.REQUIRED | scopes.OPTIONAL


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


@pytest.mark.parametrize("path", modules_of_the_bot(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_method_that_is_used_has_its_scopes_written_down(path: Path) -> None:
    unknown = sorted(set(used_in(path.read_text(encoding="utf-8"))) - scopes.METHODS)
    assert unknown == [], f"add these to bot/scopes.py, and their scopes to manifest.yml: {', '.join(unknown)}"


def test_the_search_finds_calls_in_every_form() -> None:
    source = 'client.pins_add(x)\nself._c.chat_update\nask(a.b.users_info, user=1)\nc.api_call("x.y")\nc.api_call(name)'
    assert set(used_in(source)) == {
        "pins.add",
        "chat.update",
        "users.info",
        "x.y",
        "api_call with a name that can't be read",
    }
    found = {method for path in modules_of_the_bot() for method in used_in(path.read_text(encoding="utf-8"))}
    assert {"chat.postMessage", "users.info", "apps.connections.open"} <= found


def test_missing_scopes_are_told_the_required_ones_first() -> None:
    told = scopes.missing(scopes.REQUIRED - {"users:read"})
    assert [need.scope for need in told][:1] == ["users:read"]
    assert {need.scope for need in told} == {"users:read"} | scopes.OPTIONAL
    assert scopes.missing(["*"]) == scopes.missing(scopes.REQUIRED | scopes.OPTIONAL) == []


def test_one_module_opens_forms_so_that_each_opens_in_time() -> None:
    forms = {"views.open", "views.push", "views.update"}
    found = {path.name for path in modules_of_the_bot() if forms & set(used_in(path.read_text(encoding="utf-8")))}
    assert found == {"modals.py"}
