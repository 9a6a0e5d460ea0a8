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
from slack_playground.world.installation import Installation
from slack_playground.world.manifest import App
from slack_playground.world.workspace import Channel, User, UserGroup, Workspace

BOT_TOKEN = "xoxb-playground-bot"  # noqa: S105 -- the playground's own, worth nothing elsewhere
CLIENT_ID, CLIENT_SECRET = "1111.2222", "playground-client-secret"
SIGNING_SECRET = "playground-signing-secret"  # noqa: S105
APP_TOKEN = "xapp-1-A0PLAYGROUND-playground"  # noqa: S105


class World:
    """All state of one playground."""

    def __init__(
        self,
        app: App,
        timings: Timings | None = None,
        *,
        journal: Path | None = None,
        rate_limits: bool = False,
        latency: float = 0.0,
        enterprise: str = "",
    ) -> None:
        self.app = app
        self.installation = Installation(app.team_id, enterprise)
        self.timings = timings or Timings()
        self.clock = Clock()
        self.feed = Feed(self.clock)
        self.journal = Journal(self.clock, self.feed, journal)
        self.faults = Faults(self.feed)
        self.rates = Rates(self.clock, on=rate_limits)
        self.bot_token, self.app_token, self.signing_secret = BOT_TOKEN, APP_TOKEN, SIGNING_SECRET
        self.client_id, self.client_secret = CLIENT_ID, CLIENT_SECRET
        self.latency = latency
        """Seconds added to each call of the Web API, a response URL or an upload."""
        self.revoked = False
        self.scheduled: list[Json] = []
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
        """The app, for the page."""
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
            "assistant": app.assistant,
            "events": sorted(app.events),
            "connections": self.connections(),
        }

    def tell_app(self) -> None:
        """The app's connections changed."""
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
        self.scheduled.clear()
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
        """Tell the app that somebody is new in the workspace."""
        self.send_event(event_payloads.of_joining(self.user_json(user, email=True), self.workspace.new_ts()))

    def set_user(self, user: User, **fields: object) -> None:
        """Change what is known of a user."""
        self._know(user, **fields)
        ts = self.workspace.new_ts()
        self.send_event(event_payloads.of_user(self.user_json(user, email=True), ts))

    def user_json(self, user: User, *, email: bool) -> Json:
        """A user as the bot is told of them."""
        return self.installation.user(user.to_slack(email=email), user.teams or [self.app.team_id])

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
        """Change a channel."""
        for key, value in fields.items():
            setattr(channel, key, value)
        self.feed.publish("channel", channel=channel.to_json())

    def join(self, channel: Channel, user: User, inviter: str = "") -> bool:
        """Make a user a member; false where they are already."""
        if user.id in channel.members:
            return False
        channel.members.append(user.id)
        self.feed.publish("channel", channel=channel.to_json())
        ts = self.workspace.new_ts()
        self.send_event(event_payloads.of_membership("member_joined_channel", channel, user, ts, inviter))
        return True

    def leave(self, channel: Channel, user: User) -> None:
        """End a membership."""
        if user.id in channel.members:
            channel.members.remove(user.id)
            self.feed.publish("channel", channel=channel.to_json())
            ts = self.workspace.new_ts()
            self.send_event(event_payloads.of_membership("member_left_channel", channel, user, ts))

    def set_group(self, handle: str, name: str, users: list[str]) -> UserGroup:
        """Make a user group, or change it."""
        space = self.workspace
        group = next((g for g in space.groups.values() if g.handle == handle), None)
        if group is None:
            group = UserGroup(space.new_id("S", handle), handle, name or handle, self.app.team_id)
            space.groups[group.id] = group
        group.name, group.users = name or group.name, users
        self.feed.publish("usergroup", usergroup=group.to_json())
        return group

    # Messages

    def post(self, channel: Channel, message: Json, *, silent: bool = False) -> Json:
        """Post a message: give it a ts and ids, and publish it; silently without an event for the bot."""
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
        if not message.get("ephemeral_for") and not silent:
            if not message.get("bot_id"):
                self.read(channel, message["user"], message["ts"])
            for event in event_payloads.of_message(message, channel, self.bot.id):
                self.send_event(event)
            self._tell_metadata(message, channel, None)
            if parent is not None and message.get("bot_id") and parent.get("assistant", {}).get("status"):
                self.set_assistant(channel, parent, status="", loading_messages=[])
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
        self._tell_metadata(message, channel, before.get("metadata"))

    def _tell_metadata(self, message: Json, channel: Channel, before: Json | None) -> None:
        """Send the event about metadata that was posted, changed or deleted."""
        now = message.get("metadata")
        if now == before:
            return
        kind = (now or before or {}).get("event_type", "")
        if not kind or not {"*", kind} & self.app.metadata:
            return
        name = "message_metadata_" + ("deleted" if not now else "updated" if before else "posted")
        more = {"previous_metadata": before} if before else {}
        more |= {"metadata": now} if now else {"deleted_ts": message["ts"]}
        ts = self.workspace.new_ts()
        self.send_event(event_payloads.of_metadata(name, message, channel, self.app.team_id, ts, **more))

    def delete(self, channel: Channel, message: Json) -> None:
        """Delete a message."""
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
            self._tell_metadata({k: v for k, v in message.items() if k != "metadata"}, channel, message.get("metadata"))

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

    def set_assistant(self, channel: Channel, parent: Json, **fields: object) -> None:
        """Change the status or the prompts of a thread with the assistant."""
        self.change(channel, parent, assistant=parent.get("assistant", {}) | fields)

    def notice(self, user: User, channel: Channel, text: str) -> None:
        """Show one user a message from Slackbot."""
        self.journal.write("notice", user=user.id, channel=channel.id, text=text)
        self.post(
            channel,
            {"user": "USLACKBOT", "username": "Slackbot", "bot_id": "B0SLACKBOT", "subtype": "notice", "text": text}
            | {"ephemeral_for": user.id},
        )

    def read(self, channel: Channel, user: str, ts: str) -> None:
        """Mark the channel as read by this user up to this message."""
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
        """Show this Home to a user."""
        self.workspace.homes[user.id] = view
        self.feed.publish("home", user=user.id, view=copy.deepcopy(view))

    def set_modals(self, user: str, views: list[Json]) -> None:
        """Show this stack of modals to a user."""
        self.workspace.modals[user] = views
        self.feed.publish("modals", user=user, views=copy.deepcopy(views))
