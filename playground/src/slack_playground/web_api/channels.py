"""conversations.*: creates channels, sets their topic, and invites members."""

from __future__ import annotations

import re

from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.event_payloads import of_creation
from slack_playground.world.workspace import Channel, User

LONGEST_NAME = 80
MOST_INVITED = 1000


@handles("conversations.create")
def create(call: Call) -> Json:
    private = call.flag("is_private")
    call.scope(*(("groups:write",) if private else ("channels:manage",)))
    name = _free_name(call)
    channel = call.world.add_channel(name, "private" if private else "public", [call.world.bot.id])
    if not private:
        world = call.world
        world.send_event(of_creation(channel, world.bot.id, world.workspace.new_ts()))
    return _answer(call, channel)


@handles("conversations.invite")
def invite(call: Call) -> Json:
    channel = _room(call)
    users = [_user(call, word) for word in re.split(r"[,\s]+", call.text("users")) if word]
    if not users:
        raise SlackError("no_user")
    if len(users) > MOST_INVITED:
        raise SlackError("too_many_users")
    if any(user is call.world.bot for user in users):
        raise SlackError("cant_invite_self")
    if all(user.id in channel.members for user in users):
        raise SlackError("already_in_channel")
    for user in users:
        call.world.join(channel, user, call.world.bot.id)
    return _answer(call, channel)


@handles("conversations.setTopic")
def set_topic(call: Call) -> Json:
    channel = _room(call)
    if len(call.text("topic")) > 250:
        raise SlackError("too_long")
    call.world.set_channel(channel, topic=call.text("topic"))
    return _answer(call, channel)


def _room(call: Call) -> Channel:
    """An open channel that the bot is in."""
    channel = call.channel(member=True)
    if channel.kind in ("im", "mpim"):
        raise SlackError("method_not_supported_for_channel_type")
    if channel.archived:
        raise SlackError("is_archived")
    return channel


def _user(call: Call, word: str) -> User:
    user = call.world.workspace.users.get(word)
    if user is None:
        raise SlackError("user_not_found")
    return user


def _free_name(call: Call) -> str:
    name = call.text("name").strip().removeprefix("#")
    if not name:
        raise SlackError("invalid_name_required")
    if len(name) > LONGEST_NAME:
        raise SlackError("invalid_name_maxlength")
    if not re.search(r"\w", name):
        raise SlackError("invalid_name_punctuation")
    if not re.fullmatch(r"[\w-]+", name) or name != name.lower():
        raise SlackError("invalid_name_specials")
    taken = any(channel.name == name for channel in call.world.workspace.channels.values())
    if taken:
        raise SlackError("name_taken")
    return name


def _answer(call: Call, channel: Channel) -> Json:
    return {"ok": True, "channel": channel.to_slack(call.world.bot.id)}
