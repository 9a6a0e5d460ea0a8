"""The app as its manifest describes it: name, scopes, slash commands, events and App Home."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from slack_playground.values import Json, PlaygroundError

ANY = "*"


@dataclass(frozen=True)
class App:
    """One installed app. Without a manifest it may do everything, every slash command is its own, and it gets every
    event."""

    name: str = "app"
    scopes: frozenset[str] = frozenset({ANY})
    commands: tuple[Json, ...] = ()
    shortcuts: tuple[Json, ...] = ()
    events: frozenset[str] = frozenset({ANY})
    home_tab: bool = True
    messages_tab: bool = True
    messages_read_only: bool = False
    interactive: bool = True
    any_command: bool = True
    app_id: str = "A0PLAYGROUND"
    bot_id: str = "B0PLAYGROUND"
    team_id: str = field(default="T0PLAYGROUND")

    def has_scope(self, *wanted: str) -> bool:
        return ANY in self.scopes or not wanted or any(scope in self.scopes for scope in wanted)

    def subscribes_to(self, event: str) -> bool:
        return ANY in self.events or event in self.events

    def command(self, word: str) -> Json | None:
        for command in self.commands:
            if command["command"] == word:
                return command
        return {"command": word, "should_escape": True} if self.any_command else None


def read(path: Path | str) -> App:
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise PlaygroundError("manifest", f"The manifest {path} can't be read: {error}") from error
    if not isinstance(document, dict):
        raise PlaygroundError("manifest", f"The manifest {path} must be a mapping.")
    return parse(document)


def parse(document: Json) -> App:
    features, settings = _at(document, "features"), _at(document, "settings")
    home, subscriptions = _at(features, "app_home"), _at(settings, "event_subscriptions")
    bot_name = _at(features, "bot_user").get("display_name")
    return App(
        name=bot_name or _at(document, "display_information").get("name") or "app",
        scopes=frozenset(_at(document, "oauth_config", "scopes").get("bot") or ()),
        commands=tuple(features.get("slash_commands") or ()),
        shortcuts=tuple(features.get("shortcuts") or ()),
        events=frozenset(subscriptions.get("bot_events") or ()),
        home_tab=bool(home.get("home_tab_enabled", False)),
        messages_tab=bool(home.get("messages_tab_enabled", True)),
        messages_read_only=bool(home.get("messages_tab_read_only_enabled", False)),
        interactive=bool(_at(settings, "interactivity").get("is_enabled", False)),
        any_command=False,
    )


def _at(document: Json, *path: str) -> Json:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
