"""conversations.*: what there is, who is in it, and what was said."""

from __future__ import annotations

import re

from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import LARGEST_SHORT_PAGE, SCOPE_FAMILIES, Call
from slack_playground.web_api.methods import handles
from slack_playground.world.event_payloads import with_counts
from slack_playground.world.workspace import Channel

TYPES = {"public_channel": "public", "private_channel": "private", "im": "im", "mpim": "mpim"}
MOST_USERS = 8


@handles("conversations.info")
def info(call: Call) -> Json:
    channel = call.channel()
    call.needs(channel, "read")
    told = channel.to_slack(call.world.bot.id)
    if call.flag("include_num_members"):
        told["num_members"] = len(channel.members)
    return {"ok": True, "channel": told}


@handles("conversations.list")
def list_(call: Call) -> Json:
    words = [word.strip() for word in call.text("types", "public_channel").split(",") if word.strip()]
    if any(word not in TYPES for word in words):
        raise SlackError("invalid_types")
    for word in words:
        call.scope(f"{SCOPE_FAMILIES[TYPES[word]]}:read")
    kinds, bot = {TYPES[word] for word in words}, call.world.bot.id
    seen = [
        channel
        for channel in call.world.workspace.channels.values()
        if channel.kind in kinds
        and (channel.kind == "public" or bot in channel.members)
        and not (call.flag("exclude_archived") and channel.archived)
    ]
    page, after = call.page(seen, 100, LARGEST_SHORT_PAGE)
    told = [channel.to_slack(bot) | {"num_members": len(channel.members)} for channel in page]
    return {"ok": True, "channels": told, "response_metadata": after}


@handles("conversations.members")
def members(call: Call) -> Json:
    channel = call.channel()
    call.needs(channel, "read")
    page, after = call.page(channel.members, 100)
    return {"ok": True, "members": page, "response_metadata": after}


@handles("conversations.join")
def join(call: Call) -> Json:
    channel = call.channel()
    if channel.kind != "public":
        raise SlackError("method_not_supported_for_channel_type")
    if channel.archived:
        raise SlackError("is_archived")
    answer: Json = {"ok": True}
    if not call.world.join(channel, call.world.bot):
        answer |= {"warning": "already_in_channel", "response_metadata": {"warnings": ["already_in_channel"]}}
    return answer | {"channel": channel.to_slack(call.world.bot.id)}


@handles("conversations.open")
def open_(call: Call) -> Json:
    world = call.world
    ids = [word for word in re.split(r"[,\s]+", call.text("users")) if word]
    if not ids:
        raise SlackError("users_list_not_supplied")
    if len(ids) > MOST_USERS:
        raise SlackError("too_many_users")
    call.scope("im:write" if len(ids) == 1 else "mpim:write")
    users = [world.workspace.users.get(word) for word in ids]
    if any(user is None for user in users):
        raise SlackError("user_not_found")
    if any(user and user.deleted for user in users):
        raise SlackError("user_disabled")
    people = [world.bot.id, *ids]
    was_open = world.workspace.direct(people) is not None
    channel = world.direct(people)
    told = channel.to_slack(call.world.bot.id) if call.flag("return_im") else {"id": channel.id}
    return {"ok": True, "channel": told} | ({"no_op": True, "already_open": True} if was_open else {})


@handles("conversations.history")
def history(call: Call) -> Json:
    """The messages of a conversation, newest first; replies only where they were sent to the channel as well."""
    channel = call.channel(member=True)
    call.needs(channel, "history")
    seen = [m for m in _span(call, channel) if m.get("thread_ts", m["ts"]) == m["ts"] or m.get("broadcast")]
    page, after = call.page(seen[::-1], 100, LARGEST_SHORT_PAGE)
    answer: Json = {"ok": True, "messages": [_told(call, message) for message in page]}
    answer |= {"has_more": bool(after["next_cursor"]), "pin_count": len(channel.pins)}
    return answer | ({"response_metadata": after} if after["next_cursor"] else {})


@handles("conversations.replies")
def replies(call: Call) -> Json:
    """A thread, oldest first."""
    channel = call.channel(member=True)
    call.needs(channel, "history")
    message = channel.messages.get(call.text("ts"))
    if message is None or message.get("ephemeral_for"):
        raise SlackError("thread_not_found")
    parent = message.get("thread_ts") or message["ts"]
    wanted = {parent, *(m["ts"] for m in _span(call, channel))}
    page, after = call.page([m for m in channel.thread(parent) if m["ts"] in wanted], 1000)
    answer: Json = {"ok": True, "messages": [_told(call, each) for each in page]}
    return answer | {"has_more": bool(after["next_cursor"]), "response_metadata": after}


def _span(call: Call, channel: Channel) -> list[Json]:
    oldest, latest = call.text("oldest") or "0", call.text("latest") or "9999999999.999999"
    for name, value in (("oldest", oldest), ("latest", latest)):
        if not re.fullmatch(r"\d+(\.\d+)?", value):
            raise SlackError(f"invalid_ts_{name}")
    low, high, inclusive = float(oldest), float(latest), call.flag("inclusive")
    return [
        m
        for m in channel.messages.values()
        if not m.get("ephemeral_for") and (low < float(m["ts"]) < high or (inclusive and float(m["ts"]) in (low, high)))
    ]


def _told(call: Call, message: Json) -> Json:
    told = with_counts(message)
    if message.get("broadcast"):
        told["subtype"] = "thread_broadcast"
    if not call.flag("include_all_metadata"):
        told.pop("metadata", None)
    return told
