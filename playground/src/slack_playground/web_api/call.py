"""One call of a method: its arguments as their types, and the lookups that every handler needs."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from slack_playground.values import Json, SlackError
from slack_playground.world.grants import Grants
from slack_playground.world.workspace import Channel, User
from slack_playground.world.world import World

T = TypeVar("T")

SCOPE_FAMILIES = {"public": "channels", "private": "groups", "im": "im", "mpim": "mpim"}
LARGEST_PAGE = 1000
LARGEST_SHORT_PAGE = 999
OWN_LIMIT_ERROR = ("conversations.list", "conversations.members")


@dataclass
class Call:
    """The arguments of one call, checked one by one with Slack's error codes."""

    world: World
    grants: Grants
    method: str
    arguments: Json

    def text(self, name: str, default: str = "") -> str:
        value = self.arguments.get(name)
        if isinstance(value, (dict, list)):
            raise SlackError("invalid_arguments", f"must provide a string [json-pointer:/{name}]")
        return default if value is None else str(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """An argument as yes or no, in the ways that forms say it."""
        value = self.arguments.get(name)
        return default if value is None else str(value).lower() in ("true", "1", "yes")

    def number(self, name: str, default: int, error: str = "invalid_arguments") -> int:
        value = self.arguments.get(name)
        try:
            return default if value in (None, "") else int(str(value))
        except ValueError:
            raise SlackError(error, f"must provide an integer [json-pointer:/{name}]") from None

    def json(self, name: str, error: str) -> Any:  # noqa: ANN401 -- whatever JSON holds
        """An argument that is JSON, or JSON in a string as forms have it."""
        value = self.arguments.get(name)
        if isinstance(value, str):
            try:
                return json.loads(value) if value else None
            except json.JSONDecodeError:
                raise SlackError(error, f"must be valid JSON [json-pointer:/{name}]") from None
        return value

    def objects(self, name: str, error: str) -> list[Json] | None:
        """An argument that is a list of objects; nothing where it was not given."""
        value = self.json(name, error)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise SlackError(error, f"must provide an array of objects [json-pointer:/{name}]")
        return value

    def user(self, name: str = "user") -> User:
        user = self.world.workspace.users.get(self.text(name))
        if user is None:
            raise SlackError("user_not_found")
        return user

    def channel(self, name: str = "channel", *, member: bool = False) -> Channel:
        """The channel that this argument names, by id, where the bot can see it."""
        channel = self.world.workspace.channels.get(self.text(name))
        bot = self.world.bot.id
        if channel is None or (channel.kind != "public" and bot not in channel.members):
            raise SlackError("channel_not_found")
        if member and bot not in channel.members:
            raise SlackError("not_in_channel")
        return channel

    def needs(self, channel: Channel, verb: str) -> None:
        """The scope for this kind of conversation, `read` or `history`."""
        self.scope(f"{SCOPE_FAMILIES[channel.kind]}:{verb}")

    def scope(self, *wanted: str) -> None:
        """One of these scopes, or `missing_scope`."""
        app = self.world.app
        if not app.has_scope(*wanted):
            raise SlackError("missing_scope", needed=",".join(wanted), provided=",".join(sorted(app.scopes)))

    def message(self, channel: Channel, name: str = "ts") -> Json:
        """The message of this ts that all can see."""
        message = channel.messages.get(self.text(name))
        if message is None or message.get("ephemeral_for"):
            raise SlackError("message_not_found")
        return message

    def permalink(self, channel: Channel, message: Json) -> str:
        return f"{self.world.base_url}/archives/{channel.id}/p{message['ts'].replace('.', '')}"

    def page(self, items: Sequence[T], default: int, most: int = LARGEST_PAGE) -> tuple[list[T], Json]:
        """One page of the items, and the words about the next one."""
        limit = self.number(
            "limit", default, "invalid_limit" if self.method in OWN_LIMIT_ERROR else "invalid_arguments"
        )
        limit = default if limit <= 0 else min(limit, most)
        try:
            cursor = base64.b64decode(self.text("cursor").encode(), validate=True).decode()
            start = int(cursor.removeprefix("next:")) if cursor else 0
        except (binascii.Error, ValueError):
            raise SlackError("invalid_cursor") from None
        end = start + limit
        after = base64.b64encode(f"next:{end}".encode()).decode() if end < len(items) else ""
        return list(items[start:end]), {"next_cursor": after}
