"""reactions.* and pins.*: marks that people and bots put on messages."""

from __future__ import annotations

import re

from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.event_payloads import plain
from slack_playground.world.workspace import Channel

TIMESTAMP = r"\d+\.\d+"


@handles("reactions.add")
def add(call: Call) -> Json:
    return _react(call, remove=False)


@handles("reactions.remove")
def remove(call: Call) -> Json:
    if not call.text("timestamp") or not call.text("channel"):
        raise SlackError("no_item_specified")
    return _react(call, remove=True)


def _react(call: Call, *, remove: bool) -> Json:
    channel = call.channel()
    name = call.text("name").strip(":")
    if not re.fullmatch(r"[a-z0-9_'+-]+(::skin-tone-[2-6])?", name):
        raise SlackError("invalid_name")
    if not re.fullmatch(TIMESTAMP, call.text("timestamp")):
        raise SlackError("bad_timestamp")
    message = call.message(channel, "timestamp")
    if channel.archived:
        raise SlackError("no_access" if remove else "is_archived")
    if call.world.bot.id not in channel.members:
        raise SlackError("no_access" if remove else "not_in_channel")
    if not call.world.react(channel, message, call.world.bot, name, remove=remove):
        raise SlackError("no_reaction" if remove else "already_reacted")
    return {"ok": True}


@handles("pins.add")
def pin(call: Call) -> Json:
    channel, message = _pinnable(call)
    if not call.world.pin(channel, message, call.world.bot):
        raise SlackError("already_pinned")
    return {"ok": True}


@handles("pins.remove")
def unpin(call: Call) -> Json:
    channel, message = _pinnable(call)
    if not call.world.pin(channel, message, call.world.bot, remove=True):
        raise SlackError("no_pin")
    return {"ok": True}


@handles("pins.list")
def pins(call: Call) -> Json:
    channel = call.channel(member=True)
    items = [_item(call, channel, channel.messages[ts]) | {"created": int(float(ts))} for ts in channel.pins[::-1]]
    return {"ok": True, "items": items}


def _pinnable(call: Call) -> tuple[Channel, Json]:
    channel = call.channel(member=True)
    if not call.text("timestamp"):
        raise SlackError("no_item_specified")
    if not re.fullmatch(TIMESTAMP, call.text("timestamp")):
        raise SlackError("bad_timestamp")
    return channel, call.message(channel, "timestamp")


def _item(call: Call, channel: Channel, message: Json) -> Json:
    link = call.permalink(channel, message)
    return {"type": "message", "channel": channel.id, "message": plain(message) | {"permalink": link}}
