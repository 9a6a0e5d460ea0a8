"""The world: the workspace with everything around it. It publishes every change to the page and to the bot."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable
from pathlib import Path

from slack_playground.values import Clock, Json, Timings
from slack_playground.world import elements, event_payloads
from slack_playground.world.faults import Faults, Rates
from slack_playground.world.feed import Feed, Journal
from slack_playground.world.manifest import App
from slack_playground.world.workspace import Channel, User, UserGroup, Workspace

BOT_TOKEN = "xoxb-playground-bot"  # noqa: S105 -- the playground's own, worth nothing elsewhere
APP_TOKEN = "xapp-1-A0PLAYGROUND-playground"  # noqa: S105


class World:
    def __init__(
        self,
        app: App,
        timings: Timings | None = None,
        *,
        journal: Path | None = None,
        rate_limits: bool = False,
        latency: float = 0.0,
    ) -> None:
        self.app = app
        self.timings = timings or Timings()
        self.clock = Clock()
        self.feed = Feed(self.clock)
        self.journal = Journal(self.clock, self.feed, journal)
        self.faults = Faults(self.feed)
        self.rates = Rates(self.clock, on=rate_limits)
        self.bot_token, self.app_token = BOT_TOKEN, APP_TOKEN
        self.latency = latency
        """Seconds added to each call of the Web API, a response URL or an upload."""
        self.revoked = False
        self.base_url = ""
        self.connections: Callable[[], int] = lambda: 0
        self.send_event: Callable[[Json], None] = lambda _event: None
        """Hands an event to Socket Mode."""
        self.settle: Callable[[], None] = lambda: None
        """Adds the people who are there from the beginning; called again after each reset."""
        self.tell_warning: Callable[[str], None] = lambda _words: None
        """Shows a warning where the playground runs."""
        self._warned: set[str] = set()
        self.fill()

    def app_json(self) -> Json:
        app = self.app
        return {
            "app_id": app.app_id,
            "bot_id": app.bot_id,
            "bot_user_id": self.bot.id,
            "name": app.name,
            "scopes": sorted(app.scopes),
            "commands": list(app.commands),
            "shortcuts": list(app.shortcuts),
            "home_tab": app.home_tab,
            "messages_tab": app.messages_tab,
            "messages_read_only": app.messages_read_only,
            "events": sorted(app.events),
            "connections": self.connections(),
        }

    def tell_app(self) -> None:
        self.feed.publish("app", app=self.app_json())

    def warn(self, words: str) -> None:
        """Say once what would be different in Slack."""
        if words not in self._warned:
            self._warned.add(words)
            self.journal.write("warning", text=words)
            self.tell_warning(words)

    def fill(self) -> None:
        """A small workspace to start with."""
        self.workspace = Workspace(self.clock)
        self.bot = self.add_user(self.app.name.lower().replace(" ", "-"), real_name=self.app.name, is_bot=True)
        self.add_channel("general")
        self.add_channel("ops")

    def reset(self) -> None:
        """Delete all messages and settings; the app stays connected."""
        self._warned.clear()
        self.faults.clear()
        self.revoked = False
        self.fill()
        self.settle()
        self.feed.publish("reset")

    def fresh(self) -> str:
        """A short random id, such as Slack gives to blocks."""
        return secrets.token_urlsafe(4)

    # People and places

    def add_user(self, name: str, **fields: object) -> User:
        """A new user, who is in every public channel from the start."""
        space = self.workspace
        user = User(space.new_id("U", name), name, self.app.team_id, real_name=name.capitalize())
        user.email = "" if fields.get("is_bot") else f"{name}@playground.example"
        space.users[user.id] = user
        self._know(user, **fields)
        for channel in space.channels.values():
            if channel.kind == "public" and not user.is_bot and not user.is_ultra_restricted and not user.is_restricted:
                channel.members.append(user.id)
                self.feed.publish("channel", channel=channel.to_json())
        return user

    def greet(self, user: User) -> None:
        self.send_event(event_payloads.of_joining(user.to_slack(email=True), self.workspace.new_ts()))

    def set_user(self, user: User, **fields: object) -> None:
        self._know(user, **fields)

    def _know(self, user: User, **fields: object) -> None:
        for key, value in fields.items():
            if key in vars(user) and key != "id":
                setattr(user, key, value)
        self.feed.publish("user", user=user.to_json())

    def add_channel(self, name: str, kind: str = "public", members: list[str] | None = None) -> Channel:
        """A new channel with these members, else with everybody and the bot."""
        space = self.workspace
        letter = {"im": "D", "mpim": "G"}.get(kind, "C")
        if members is None:
            members = [u.id for u in space.users.values() if not u.is_restricted and not u.is_ultra_restricted]
        channel = Channel(
            space.new_id(letter, name),
            name,
            kind,
            int(self.clock.now()),
            members[0] if members else "",
            members=members,
        )
        space.channels[channel.id] = channel
        self.feed.publish("channel", channel=channel.to_json())
        return channel

    def direct(self, users: list[str]) -> Channel:
        """The direct message between these users, opened where it is not yet."""
        known = self.workspace.direct(users)
        if known:
            return known
        members = list(dict.fromkeys(users))
        if len(members) <= 2:
            return self.add_channel("", "im", members)
        names = "--".join(self.workspace.users[member].name for member in members)
        return self.add_channel(f"mpdm-{names}-1", "mpim", members)

    def set_channel(self, channel: Channel, **fields: object) -> None:
        for key, value in fields.items():
            setattr(channel, key, value)
        self.feed.publish("channel", channel=channel.to_json())

    def join(self, channel: Channel, user: User, inviter: str = "") -> bool:
        """Return False where the user is a member already."""
        if user.id in channel.members:
            return False
        channel.members.append(user.id)
        self.feed.publish("channel", channel=channel.to_json())
        ts = self.workspace.new_ts()
        self.send_event(event_payloads.of_membership("member_joined_channel", channel, user, ts, inviter))
        return True

    def leave(self, channel: Channel, user: User) -> None:
        if user.id in channel.members:
            channel.members.remove(user.id)
            self.feed.publish("channel", channel=channel.to_json())
            ts = self.workspace.new_ts()
            self.send_event(event_payloads.of_membership("member_left_channel", channel, user, ts))

    def set_group(self, handle: str, name: str, users: list[str]) -> UserGroup:
        space = self.workspace
        group = next((g for g in space.groups.values() if g.handle == handle), None)
        if group is None:
            group = UserGroup(space.new_id("S", handle), handle, name or handle, self.app.team_id)
            space.groups[group.id] = group
        group.name, group.users = name or group.name, users
        self.feed.publish("usergroup", usergroup=group.to_json())
        return group

    # Messages

    def post(self, channel: Channel, message: Json) -> Json:
        """Post a message: give it a ts and ids, and publish it."""
        # A copy: what is filled in must not show in the journal as if the bot had sent it.
        message = copy.deepcopy({"type": "message", "channel": channel.id, "ts": self.workspace.new_ts(), **message})
        message = {key: value for key, value in message.items() if value not in (None, [], "") or key == "text"}
        elements.fill_ids(elements.message_blocks(message), self.fresh)
        elements.settle_attachments(message)
        parent = channel.messages.get(message.get("thread_ts") or "")
        if parent is not None:
            message["parent_user_id"] = parent["user"]
        channel.messages[message["ts"]] = message
        if parent is not None and not message.get("ephemeral_for"):
            self._count_replies(channel, parent)
        self.feed.publish("message", channel=channel.id, message=copy.deepcopy(message), new=True)
        if not message.get("ephemeral_for"):
            if not message.get("bot_id"):
                self.read(channel, message["user"], message["ts"])
            for event in event_payloads.of_message(message, channel, self.bot.id):
                self.send_event(event)
        return message

    def change(
        self, channel: Channel, message: Json, *, by: str | None = None, told: bool = False, **fields: object
    ) -> None:
        """Change a message; with `by`, it's marked as edited; then, or with `told`, the bot gets an event."""
        before = copy.deepcopy(message)
        message.update(copy.deepcopy(fields))
        for key in [key for key, value in fields.items() if value in (None, [])]:
            del message[key]
        elements.fill_ids(elements.message_blocks(message), self.fresh)
        elements.settle_attachments(message)
        ts = self.workspace.new_ts()
        if by:
            message["edited"] = {"user": by, "ts": ts}
        self.feed.publish("message", channel=channel.id, message=copy.deepcopy(message), new=False)
        if (by or told) and not message.get("ephemeral_for"):
            self.send_event(event_payloads.of_change(message, before, channel, ts))
            for event in event_payloads.of_mention(message, channel, self.bot.id) if by else ():
                self.send_event(event)

    def delete(self, channel: Channel, message: Json) -> None:
        del channel.messages[message["ts"]]
        if message["ts"] in channel.pins:
            channel.pins.remove(message["ts"])
        self.feed.publish("message_deleted", channel=channel.id, ts=message["ts"])
        parent = channel.messages.get(message.get("thread_ts") or "")
        if parent is not None and parent is not message:
            self._count_replies(channel, parent)
            self.feed.publish("message", channel=channel.id, message=copy.deepcopy(parent), new=False)
        if not message.get("ephemeral_for"):
            self.send_event(event_payloads.of_deletion(message, channel, self.workspace.new_ts()))

    def react(self, channel: Channel, message: Json, user: User, name: str, *, remove: bool = False) -> bool:
        """Add or remove a reaction; False if nothing changed."""
        reactions: list[Json] = [dict(r, users=list(r["users"])) for r in message.get("reactions") or []]
        mine = next((r for r in reactions if r["name"] == name), None)
        if (mine is not None and user.id in mine["users"]) is not remove:
            return False
        if mine is None:
            mine = {"name": name, "users": [], "count": 0}
            reactions.append(mine)
        if remove:
            mine["users"].remove(user.id)
        else:
            mine["users"].append(user.id)
        mine["count"] = len(mine["users"])
        self.change(channel, message, reactions=[r for r in reactions if r["count"]])
        event = "reaction_removed" if remove else "reaction_added"
        self.send_event(event_payloads.of_reaction(event, message, channel, user, name, self.workspace.new_ts()))
        return True

    def pin(self, channel: Channel, message: Json, user: User, *, remove: bool = False) -> bool:
        """Pin a message or take its pin away; False if nothing changed."""
        if (message["ts"] in channel.pins) is not remove:
            return False
        kept = [ts for ts in channel.pins if ts != message["ts"]]
        self.set_channel(channel, pins=kept if remove else [*kept, message["ts"]])
        self.change(channel, message, pinned=None if remove else True, pinned_to=None if remove else [channel.id])
        name = "pin_removed" if remove else "pin_added"
        self.send_event(event_payloads.of_pin(name, message, channel, user, self.workspace.new_ts()))
        return True

    def notice(self, user: User, channel: Channel, text: str) -> None:
        self.journal.write("notice", user=user.id, channel=channel.id, text=text)
        self.post(
            channel,
            {"user": "USLACKBOT", "username": "Slackbot", "bot_id": "B0SLACKBOT", "subtype": "notice", "text": text}
            | {"ephemeral_for": user.id},
        )

    def read(self, channel: Channel, user: str, ts: str) -> None:
        if ts > channel.last_read.get(user, ""):
            channel.last_read[user] = ts
            self.feed.publish("read", channel=channel.id, user=user, ts=ts)

    def _count_replies(self, channel: Channel, parent: Json) -> None:
        replies = [m for m in channel.thread(parent["ts"]) if m["ts"] != parent["ts"]]
        parent["thread_ts"] = parent["ts"]
        parent["reply_count"] = len(replies)
        parent["reply_users"] = list(dict.fromkeys(reply["user"] for reply in replies))
        parent["reply_users_count"] = len(parent["reply_users"])
        parent["latest_reply"] = replies[-1]["ts"] if replies else ""
        self.feed.publish("message", channel=channel.id, message=copy.deepcopy(parent), new=False)

    # Views

    def set_home(self, user: User, view: Json) -> None:
        self.workspace.homes[user.id] = view
        self.feed.publish("home", user=user.id, view=copy.deepcopy(view))

    def set_modals(self, user: str, views: list[Json]) -> None:
        self.workspace.modals[user] = views
        self.feed.publish("modals", user=user, views=copy.deepcopy(views))
