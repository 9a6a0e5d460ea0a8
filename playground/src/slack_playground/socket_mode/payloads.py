"""The payloads of commands and clicks, as Slack sends them."""

from __future__ import annotations

from slack_playground.values import Json
from slack_playground.web_api import views
from slack_playground.world.event_payloads import plain
from slack_playground.world.grants import Grants
from slack_playground.world.workspace import Channel, User
from slack_playground.world.world import World

CHANNEL_NAMES = {"im": "directmessage", "private": "privategroup"}


class Payloads:
    def __init__(self, world: World, grants: Grants) -> None:
        self._world, self._grants = world, grants

    def command(self, user: User, channel: Channel, command: str, text: str) -> Json:
        app, team = self._world.app, self._world.workspace.team
        return {
            "token": "playground",
            "team_id": app.team_id,
            "team_domain": team["domain"],
            "is_enterprise_install": "false",
            "channel_id": channel.id,
            "channel_name": CHANNEL_NAMES.get(channel.kind, channel.name),
            "user_id": user.id,
            "user_name": user.name,
            "command": command,
            "text": text,
            "api_app_id": app.app_id,
            "response_url": self._grants.response_url("commands", channel.id, user.id),
            "trigger_id": self._grants.trigger(user.id, channel=channel.id),
        }

    def base(self, kind: str, user: User) -> Json:
        """The common part of all interactive payloads."""
        team = self._world.workspace.team
        who = {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team_id}
        return {
            "type": kind,
            "team": {"id": team["id"], "domain": team["domain"]},
            "enterprise": None,
            "is_enterprise_install": False,
            "user": who,
            "api_app_id": self._world.app.app_id,
            "token": "playground",
        }

    def trigger(self, user: User, channel: str = "") -> str:
        """Leave to show this user a view; `channel`: what they look at."""
        return self._grants.trigger(user.id, channel=channel)

    def on_message(
        self, kind: str, user: User, channel: Channel, message: Json, *, attachment: int | None = None
    ) -> Json:
        """An action on a message, or in the attachment of this number."""
        alone = bool(message.get("ephemeral_for"))
        container: Json = {"type": "message", "message_ts": message["ts"], "channel_id": channel.id}
        container["is_ephemeral"] = alone
        if attachment is not None:
            container |= {"type": "message_attachment", "attachment_id": attachment, "is_app_unfurl": False}
        if message.get("thread_ts"):
            container["thread_ts"] = message["thread_ts"]
        payload = self.base(kind, user) | {
            "container": container,
            "trigger_id": self._grants.trigger(user.id, channel=channel.id),
            "channel": {"id": channel.id, "name": CHANNEL_NAMES.get(channel.kind, channel.name)},
            "response_url": self._grants.response_url("actions", channel.id, user.id, message=message["ts"]),
        }
        return payload if alone else payload | {"message": plain(message)}

    def in_view(self, kind: str, user: User, view: Json) -> Json:
        container = {"type": "view", "view_id": view["id"]}
        trigger = self._grants.trigger(user.id, view["id"] if view["type"] == "modal" else "")
        return self.base(kind, user) | {"container": container, "trigger_id": trigger, "view": views.for_bot(view)}

    def action(self, block: Json, element: Json, state: Json) -> Json:
        action: Json = {"type": element["type"], "block_id": block["block_id"], "action_id": element["action_id"]}
        for name in ("text", "value", "url", "style", "placeholder", "confirm"):
            if name in element and (name != "value" or element["type"] == "button"):
                action[name] = element[name]
        return action | state | {"action_ts": self._world.workspace.new_ts()}

    def response_urls(self, user: User, view: Json) -> list[Json]:
        """For selects of a conversation that ask for one: addresses to answer at."""
        made = []
        for block in view["blocks"]:
            element = block.get("element") or {}
            if not element.get("response_url_enabled"):
                continue
            state = view["state"]["values"].get(block["block_id"], {}).get(element["action_id"], {})
            channel = state.get("selected_conversation") or state.get("selected_channel")
            if channel:
                url = self._grants.response_url("app", channel, user.id)
                place = {"block_id": block["block_id"], "action_id": element["action_id"]}
                made.append(place | {"channel_id": channel, "response_url": url})
        return made
