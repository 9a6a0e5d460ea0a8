"""conversations.*: creates, renames and archives channels, and changes their members."""

from __future__ import annotations

import re

from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.event_payloads import of_channel
from slack_playground.world.workspace import Channel, User

LONGEST_NAME = 80
MOST_INVITED = 1000


@handles("conversations.create")
def create(call: Call) -> Json:
    """A new channel, with the bot in it."""
    private = call.flag("is_private")
    call.scope(*(("groups:write",) if private else ("channels:manage",)))
    name = _free_name(call)
    channel = call.world.add_channel(name, "private" if private else "public", [call.world.bot.id])
    if not private:
        _send_event(call, "channel_created", channel)
    return _answer(call, channel)


@handles("conversations.rename")
def rename(call: Call) -> Json:
    """Give a channel another name."""
    channel = _room(call)
    call.world.set_channel(channel, name=_free_name(call))
    _send_event(call, "channel_rename", channel)
    return _answer(call, channel)


@handles("conversations.archive")
def archive(call: Call) -> Json:
    """Close a channel."""
    channel = _room(call)
    if channel.name == "general":
        raise SlackError("cant_archive_general")
    call.world.set_channel(channel, archived=True)
    _send_event(call, "channel_archive", channel)
    return {"ok": True}


@handles("conversations.unarchive")
def unarchive(call: Call) -> Json:
    """Open a closed channel again."""
    channel = call.channel(member=True)
    if not channel.archived:
        raise SlackError("not_archived")
    call.world.set_channel(channel, archived=False)
    _send_event(call, "channel_unarchive", channel)
    return {"ok": True}


@handles("conversations.leave")
def leave(call: Call) -> Json:
    """Leave a channel."""
    channel = call.channel()
    if call.world.bot.id not in channel.members:
        return {"ok": False, "not_in_channel": True}
    if channel.kind == "im":
        raise SlackError("method_not_supported_for_channel_type")
    if channel.archived:
        raise SlackError("is_archived")
    if channel.name == "general" and channel.kind == "public":
        raise SlackError("cant_leave_general")
    call.world.leave(channel, call.world.bot)
    return {"ok": True}


@handles("conversations.invite")
def invite(call: Call) -> Json:
    """Make users members."""
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


@handles("conversations.kick")
def kick(call: Call) -> Json:
    """End a user's membership."""
    channel, user = _room(call), call.user()
    if user is call.world.bot:
        raise SlackError("cant_kick_self")
    if channel.name == "general":
        raise SlackError("cant_kick_from_general")
    if user.id not in channel.members:
        raise SlackError("not_in_channel")
    call.world.leave(channel, user)
    return {"ok": True, "errors": {}}


@handles("conversations.setTopic")
def set_topic(call: Call) -> Json:
    """Give a channel a topic."""
    channel = _room(call)
    if len(call.text("topic")) > 250:
        raise SlackError("too_long")
    call.world.set_channel(channel, topic=call.text("topic"))
    return _answer(call, channel)


@handles("users.conversations")
def of_user(call: Call) -> Json:
    """The conversations that a user is in, else the bot."""
    user = call.user() if call.text("user") else call.world.bot
    words = [word.strip() for word in call.text("types", "public_channel").split(",") if word.strip()]
    kinds = {"public_channel": "public", "private_channel": "private", "im": "im", "mpim": "mpim"}
    if any(word not in kinds for word in words):
        raise SlackError("invalid_types")
    bot, wanted = call.world.bot.id, {kinds[word] for word in words}
    seen = [
        channel
        for channel in call.world.workspace.channels.values()
        if channel.kind in wanted
        and user.id in channel.members
        and (channel.kind == "public" or bot in channel.members)
        and not (call.flag("exclude_archived") and channel.archived)
    ]
    page, after = call.page(seen, 100)
    return {"ok": True, "channels": [channel.to_slack(bot) for channel in page], "response_metadata": after}


def _room(call: Call) -> Channel:
    """An open channel that the bot is in."""
    channel = call.channel(member=True)
    if channel.kind in ("im", "mpim"):
        raise SlackError("method_not_supported_for_channel_type")
    if channel.archived:
        raise SlackError("is_archived" if call.method != "conversations.archive" else "already_archived")
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


def _send_event(call: Call, name: str, channel: Channel) -> None:
    world = call.world
    world.send_event(of_channel(name, channel, world.bot.id, world.workspace.new_ts()))


def _answer(call: Call, channel: Channel) -> Json:
    return {"ok": True, "channel": channel.to_slack(call.world.bot.id)}
