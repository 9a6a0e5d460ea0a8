"""The inner events of the Events API that follow from each change."""

from __future__ import annotations

from collections.abc import Iterator

from slack_playground.values import Json
from slack_playground.world.workspace import Channel, User

CHANNEL_TYPES = {"public": "channel", "private": "group", "im": "im", "mpim": "mpim"}
SUBSCRIPTIONS = {"public": "message.channels", "private": "message.groups", "im": "message.im", "mpim": "message.mpim"}
HIDDEN = ("ephemeral_for", "state", "broadcast", "reply_count", "reply_users", "reply_users_count", "latest_reply")

# An event is handed on as {"subscription", "channel" (its members must include the bot), "event"}.


def plain(message: Json) -> Json:
    """A message without the playground's own words."""
    return {key: value for key, value in message.items() if key not in (*HIDDEN, "channel", "pinned")}


def of_message(message: Json, channel: Channel, bot: str) -> Iterator[Json]:
    """A new message, and a mention of the bot in it."""
    event = plain(message) | {
        "channel": channel.id,
        "channel_type": CHANNEL_TYPES[channel.kind],
        "event_ts": message["ts"],
        "team": "T0PLAYGROUND",
    }
    if message.get("broadcast"):
        event["subtype"] = "thread_broadcast"
    yield _event(SUBSCRIPTIONS[channel.kind], event, channel)
    if f"<@{bot}>" in message["text"] and message.get("user") != bot and channel.kind != "im":
        mention = {key: value for key, value in event.items() if key not in ("channel_type", "subtype")}
        yield _event("app_mention", mention | {"type": "app_mention"}, channel)


def of_change(message: Json, before: Json, channel: Channel) -> Json:
    """An edited message."""
    return _event(
        SUBSCRIPTIONS[channel.kind],
        {
            "type": "message",
            "subtype": "message_changed",
            "channel": channel.id,
            "channel_type": CHANNEL_TYPES[channel.kind],
            "message": plain(message),
            "previous_message": plain(before),
            "ts": message["edited"]["ts"],
            "event_ts": message["edited"]["ts"],
            "hidden": True,
        },
        channel,
    )


def of_deletion(message: Json, channel: Channel, ts: str) -> Json:
    """A deleted message."""
    return _event(
        SUBSCRIPTIONS[channel.kind],
        {
            "type": "message",
            "subtype": "message_deleted",
            "channel": channel.id,
            "channel_type": CHANNEL_TYPES[channel.kind],
            "deleted_ts": message["ts"],
            "previous_message": plain(message),
            "ts": ts,
            "event_ts": ts,
            "hidden": True,
        },
        channel,
    )


def of_reaction(name: str, message: Json, channel: Channel, user: User, emoji: str, ts: str) -> Json:
    """A reaction that was added or removed."""
    item = {"type": "message", "channel": channel.id, "ts": message["ts"]}
    event = {"type": name, "user": user.id, "reaction": emoji, "item": item, "event_ts": ts}
    return _event(name, event | {"item_user": message.get("user")}, channel)


def of_membership(name: str, channel: Channel, user: User) -> Json:
    """Somebody joined or left."""
    event = {"type": name, "user": user.id, "channel": channel.id, "team": user.team_id}
    return _event(name, event | {"channel_type": CHANNEL_TYPES[channel.kind][0].upper()}, channel)


def of_user(user: Json) -> Json:
    """Somebody's record changed."""
    return _event("user_change", {"type": "user_change", "user": user}, None)


def of_home(user: User, tab: str, channel: Channel, view: Json | None, ts: str) -> Json:
    """Somebody opened the app's Home."""
    event: Json = {"type": "app_home_opened", "user": user.id, "channel": channel.id, "tab": tab, "event_ts": ts}
    if view and tab == "home":
        event["view"] = view
    return _event("app_home_opened", event, None)


def _event(subscription: str, event: Json, channel: Channel | None) -> Json:
    return {"subscription": subscription, "channel": channel, "event": event}
