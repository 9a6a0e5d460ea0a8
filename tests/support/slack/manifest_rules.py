"""What Slack accepts as the manifest of an app like ours: keys, lengths, patterns, and what goes with Socket Mode.

Keys, lengths and patterns are those of Slack's published schemas for manifests, versions 1.0.0 and 2.0.0, which agree
on these parts (github.com/slackapi/manifest-schema, July 2026). Rules about Socket Mode and optional scopes are from
Slack's documentation. Only the parts that such an app can use are here; other parts count as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Rule = Callable[[Any, str], Iterator[str]]

COLOUR = r"#(?:[0-9a-fA-F]{3}){1,2}"
COMMAND = r"/\S+"
WEB = r"https?://.+"


def text(low: int = 0, high: int = 10_000, pattern: str = "") -> Rule:
    """Text of so many characters, of this shape as a whole."""

    def check(value: Any, where: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield f"{where} must be text"
        elif not low <= len(value) <= high:
            yield f"{where} must have {low} to {high} characters, not {len(value)}"
        elif pattern and not re.fullmatch(pattern, value, re.DOTALL):
            yield f"{where} must look like {pattern}"

    return check


def flag(value: Any, where: str) -> Iterator[str]:
    """True or false."""
    if not isinstance(value, bool):
        yield f"{where} must be true or false"


def whole(value: Any, where: str) -> Iterator[str]:
    """A whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        yield f"{where} must be a whole number"


def one_of(*words: str) -> Rule:
    """One of these words."""

    def check(value: Any, where: str) -> Iterator[str]:
        if value not in words:
            yield f"{where} must be one of {', '.join(words)}"

    return check


def many(item: Rule, low: int = 0, high: int = 255, *, unique: bool = False) -> Rule:
    """A list of so many, each of which follows its rule."""

    def check(value: Any, where: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{where} must be a list"
            return
        if not low <= len(value) <= high:
            yield f"{where} must have {low} to {high} items, not {len(value)}"
        if unique and len({str(each) for each in value}) < len(value):
            yield f"{where} names one twice"
        for place, each in enumerate(value):
            yield from item(each, f"{where}[{place}]")

    return check


def section(required: str = "", **keys: Rule) -> Rule:
    """A mapping with these keys and no others."""

    def check(value: Any, where: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield f"{where or 'the manifest'} must be a section"
            return
        inside = f"{where}." if where else ""
        yield from (f"{inside}{key} is not known" for key in value if key not in keys)
        yield from (f"{inside}{key} is missing" for key in required.split() if key not in value)
        for key, rule in keys.items():
            if key in value:
                yield from rule(value[key], f"{inside}{key}")

    return check


SCOPES = many(text(high=50))
EVENTS = many(text(high=50), high=100, unique=True)
ADDRESS = text(high=3500, pattern=WEB)

MANIFEST = section(
    "display_information",
    **{"$schema": text()},
    _metadata=section(schema_version=whole, min_version=whole, major_version=whole, minor_version=whole),
    display_information=section(
        "name",
        name=text(1, 35),
        description=text(1, 140),
        background_color=text(4, 7, COLOUR),
        long_description=text(175, 4000),
    ),
    features=section(
        app_home=section(home_tab_enabled=flag, messages_tab_enabled=flag, messages_tab_read_only_enabled=flag),
        bot_user=section("display_name", display_name=text(1, 80), always_online=flag),
        shortcuts=many(
            section(
                "name type callback_id description",
                name=text(1, 24),
                type=one_of("message", "global"),
                callback_id=text(1, 255),
                description=text(1, 150),
            ),
            1,
            10,
        ),
        slash_commands=many(
            section(
                "command description",
                command=text(2, 32, COMMAND),
                url=text(high=3000, pattern=WEB),
                description=text(1, 2000),
                usage_hint=text(1, 1000),
                should_escape=flag,
            ),
            1,
            50,
        ),
    ),
    oauth_config=section(
        redirect_urls=many(text(high=2500), high=1000, unique=True),
        scopes=section(bot=SCOPES, bot_optional=SCOPES, user=SCOPES, user_optional=SCOPES),
        token_management_enabled=flag,
        pkce_enabled=flag,
    ),
    settings=section(
        event_subscriptions=section(request_url=ADDRESS, bot_events=EVENTS, user_events=EVENTS),
        interactivity=section("is_enabled", is_enabled=flag, request_url=ADDRESS, message_menu_options_url=ADDRESS),
        org_deploy_enabled=flag,
        socket_mode_enabled=flag,
        token_rotation_enabled=flag,
    ),
)


def problems(manifest: Any) -> list[str]:
    """Why Slack would refuse this manifest, or would not do with it what was meant; empty where it is well."""
    found = list(MANIFEST(manifest, ""))
    return found or list(_together(manifest))


def _together(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What is right alone, and wrong beside the rest."""
    features, settings = manifest.get("features", {}), manifest.get("settings", {})
    granted = manifest.get("oauth_config", {}).get("scopes", {})
    for kind in ("bot", "user"):
        for scope in granted.get(f"{kind}_optional", ()):
            if scope not in granted.get(kind, ()):
                yield f"oauth_config.scopes.{kind}_optional: {scope} must be in {kind} as well"
    if granted.get("bot") and "bot_user" not in features:
        yield "oauth_config.scopes.bot needs features.bot_user"
    if features.get("slash_commands") and "commands" not in granted.get("bot", ()):
        yield "features.slash_commands needs the scope commands"
    yield from _addresses(features, settings)


def _addresses(features: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    """With Socket Mode nothing has an address; without it everything needs one."""
    socket = settings.get("socket_mode_enabled", False)
    places = [
        (f"features.slash_commands[{place}].url", command.get("url"))
        for place, command in enumerate(features.get("slash_commands", ()))
    ]
    events, interactivity = settings.get("event_subscriptions"), settings.get("interactivity", {})
    if events is not None:
        places.append(("settings.event_subscriptions.request_url", events.get("request_url")))
    if interactivity.get("is_enabled"):
        places.append(("settings.interactivity.request_url", interactivity.get("request_url")))
    for where, address in places:
        if socket and address:
            yield f"{where} has no meaning with Socket Mode"
        if not socket and not address:
            yield f"{where} is missing, or settings.socket_mode_enabled"
