"""The inner events of the Events API that follow from each change."""

from __future__ import annotations

from collections.abc import Iterator

from slack_playground.values import Json
from slack_playground.world.workspace import Channel, User

CHANNEL_TYPES = {"public": "channel", "private": "group", "im": "im", "mpim": "mpim"}
SUBSCRIPTIONS = {"public": "message.channels", "private": "message.groups", "im": "message.im", "mpim": "message.mpim"}
COUNTS = ("reply_count", "reply_users", "reply_users_count", "latest_reply")
ICONS = {"icon_emoji": "emoji", "icon_url": "image_48"}
HIDDEN = ("ephemeral_for", "state", "broadcast", *COUNTS)

EVENTS = {
    **{event: (f"{event.removeprefix('message.')}:history",) for event in SUBSCRIPTIONS.values()},
    "app_home_opened": (),
    "app_mention": ("app_mentions:read",),
    "channel_created": ("channels:read",),
    "file_shared": ("files:read",),
    "member_joined_channel": ("channels:read", "groups:read", "mpim:read"),
    "member_left_channel": ("channels:read", "groups:read"),
    **dict.fromkeys(("pin_added", "pin_removed"), ("pins:read",)),
    "reaction_added": ("reactions:read",),
    "reaction_removed": ("reactions:read",),
    "team_join": ("users:read",),
}
"""All events that are sent, each with its scopes; any one of them is enough."""

# An event is handed on as {"subscription", "scopes", "channel" (its members must include the bot), "event"}.


def plain(message: Json) -> Json:
    """A message without the playground's own words."""
    told = {key: value for key, value in message.items() if key not in (*HIDDEN, *ICONS, "channel", "pinned")}
    icons = {name: message[key] for key, name in ICONS.items() if key in message}
    return told | ({"icons": icons} if icons else {})


def with_counts(message: Json) -> Json:
    """A message with what Slack says of its replies, as it tells a thread's parent."""
    return plain(message) | {key: message[key] for key in COUNTS if key in message}


def of_message(message: Json, channel: Channel, bot: str) -> Iterator[Json]:
    """A new message, and a mention of the bot in it."""
    event = plain(message) | {
        "channel": channel.id,
        "channel_type": CHANNEL_TYPES[channel.kind],
        "event_ts": message["ts"],
        "team": "T0PLAYGROUND",
    }
    if message.get("files"):
        event["subtype"] = "file_share"
    if message.get("broadcast"):
        event |= {"subtype": "thread_broadcast", "root": with_counts(channel.messages[message["thread_ts"]])}
    yield _event(SUBSCRIPTIONS[channel.kind], event, channel)
    yield from of_mention(message, channel, bot)
    yield from of_files(message, channel)


def of_mention(message: Json, channel: Channel, bot: str) -> Iterator[Json]:
    """A mention of the bot, if there is one. Slack sends it again after an edit; the event then has `edited`."""
    if f"<@{bot}>" in message["text"] and message.get("user") != bot and channel.kind != "im":
        own = {"type": "app_mention", "channel": channel.id, "team": "T0PLAYGROUND"}
        ts = message.get("edited", message)["ts"]
        mention = {key: value for key, value in plain(message).items() if key != "subtype"}
        yield _event("app_mention", mention | own | {"event_ts": ts}, channel)


def of_files(message: Json, channel: Channel) -> Iterator[Json]:
    for file in message.get("files") or []:
        event = {"type": "file_shared", "file_id": file["id"], "file": {"id": file["id"]}, "user_id": message["user"]}
        yield _event("file_shared", event | {"channel_id": channel.id, "event_ts": message["ts"]}, channel)


def of_change(message: Json, before: Json, channel: Channel, ts: str) -> Json:
    return _edit_event("message_changed", channel, ts, message=plain(message), previous_message=plain(before))


def of_deletion(message: Json, channel: Channel, ts: str) -> Json:
    return _edit_event("message_deleted", channel, ts, deleted_ts=message["ts"], previous_message=plain(message))


def _edit_event(subtype: str, channel: Channel, ts: str, **fields: object) -> Json:
    event = {"type": "message", "subtype": subtype, "channel": channel.id, "channel_type": CHANNEL_TYPES[channel.kind]}
    return _event(SUBSCRIPTIONS[channel.kind], event | fields | {"ts": ts, "event_ts": ts, "hidden": True}, channel)


def of_reaction(name: str, message: Json, channel: Channel, user: User, emoji: str, ts: str) -> Json:
    item = {"type": "message", "channel": channel.id, "ts": message["ts"]}
    event = {"type": name, "user": user.id, "reaction": emoji, "item": item, "event_ts": ts}
    return _event(name, event | {"item_user": message.get("user")}, channel)


def of_pin(name: str, message: Json, channel: Channel, user: User, ts: str) -> Json:
    now = int(float(ts))
    item: Json = {
        "type": "message",
        "channel": channel.id,
        "message": plain(message),
        "created": now,
        "created_by": user.id,
    }
    event: Json = {"type": name, "user": user.id, "channel_id": channel.id, "item": item, "event_ts": ts}
    event |= {"item_user": message.get("user"), "pin_count": str(len(channel.pins))}
    event |= {"pinned_info": {"channel": channel.id, "pinned_by": user.id, "pinned_ts": now}}
    return _event(name, event | ({"has_pins": bool(channel.pins)} if name == "pin_removed" else {}), channel)


def of_creation(channel: Channel, bot: str, ts: str) -> Json:
    event = {"type": "channel_created", "channel": channel.to_slack(bot), "event_ts": ts}
    return _event("channel_created", event, None)


def of_membership(name: str, channel: Channel, user: User, ts: str, inviter: str = "") -> Json:
    """Somebody joined, perhaps on an invitation, or left."""
    event = {"type": name, "user": user.id, "channel": channel.id, "team": user.team_id, "event_ts": ts}
    event |= {"inviter": inviter} if inviter else {}
    return _event(name, event | {"channel_type": CHANNEL_TYPES[channel.kind][0].upper()}, channel)


def of_joining(user: Json, ts: str) -> Json:
    event = {"type": "team_join", "user": user, "cache_ts": int(float(ts)), "event_ts": ts}
    return _event("team_join", event, None)


def of_home(user: User, tab: str, channel: Channel, view: Json | None, ts: str) -> Json:
    event: Json = {"type": "app_home_opened", "user": user.id, "channel": channel.id, "tab": tab, "event_ts": ts}
    if view and tab == "home":
        event["view"] = view
    return _event("app_home_opened", event, None)


def _event(subscription: str, event: Json, channel: Channel | None) -> Json:
    return {"subscription": subscription, "scopes": EVENTS[subscription], "channel": channel, "event": event}
