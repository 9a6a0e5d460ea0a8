"""chat.*: posting, changing, deleting, scheduling, and messages for one user alone."""

from __future__ import annotations

import asyncio

from slack_playground.values import Json, SlackError
from slack_playground.web_api import content
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.event_payloads import plain
from slack_playground.world.workspace import Channel
from slack_playground.world.world import World

KEEPS = ("blocks", "attachments")


def target(call: Call) -> Channel:
    """The conversation to post in, by id or name or as a user's direct message; with the right to post there."""
    world, word = call.world, call.text("channel")
    user = world.workspace.users.get(word)
    if user is not None:
        if user.deleted:
            raise SlackError("user_disabled")
        channel = world.direct([world.bot.id, user.id])
    else:
        found = world.workspace.find_channel(word)
        if found is None or (found.kind != "public" and world.bot.id not in found.members):
            raise SlackError("channel_not_found")
        channel = found
    if channel.archived:
        raise SlackError("is_archived")
    if channel.kind == "im" and not world.app.messages_tab:
        raise SlackError("messages_tab_disabled")
    if world.bot.id not in channel.members and not world.app.has_scope("chat:write.public"):
        raise SlackError("not_in_channel")
    return channel


def thread(call: Call, channel: Channel) -> Json:
    """The thread that is answered to; the ts of a reply stands for its parent's."""
    ts = call.text("thread_ts")
    if not ts:
        return {}
    parent = channel.messages.get(ts)
    if parent is None or parent.get("ephemeral_for"):
        raise SlackError("cannot_reply_to_message")
    return {"thread_ts": parent.get("thread_ts") or ts} | ({"broadcast": True} if call.flag("reply_broadcast") else {})


def told(message: Json) -> Json:
    """A message as the bot is told of it."""
    return plain(message)


@handles("chat.postMessage")
def post_message(call: Call) -> Json:
    """Post into a channel."""
    channel = target(call)
    given = content.read(call)
    if given.empty:
        raise SlackError("no_text")
    wait = call.world.rates.post(channel.id)
    if wait:
        raise SlackError("ratelimited", retry_after=wait)
    fields = given.fields() | thread(call, channel) | content.bot_fields(call)
    fields["text"] = fields["text"][: content.TEXT_TRUNCATED]
    message = call.world.post(channel, fields)
    return {"ok": True, "channel": channel.id, "ts": message["ts"], "message": told(message)}


@handles("chat.postEphemeral")
def post_ephemeral(call: Call) -> Json:
    """Show something to one member of a channel."""
    channel = target(call)
    given = content.read(call)
    if given.empty:
        raise SlackError("no_text")
    if len(given.text or "") > content.TEXT_TRUNCATED:
        raise SlackError("msg_too_long")
    if call.text("user") not in channel.members:
        raise SlackError("user_not_in_channel")
    fields = given.fields() | thread(call, channel) | content.bot_fields(call)
    message = call.world.post(channel, fields | {"ephemeral_for": call.text("user")})
    return {"ok": True, "message_ts": message["ts"]}


@handles("chat.update")
def update(call: Call) -> Json:
    """Change a message of the bot's own."""
    channel = _own_channel(call)
    if channel.archived:
        raise SlackError("is_inactive")
    message = call.message(channel)
    if message.get("bot_id") != call.world.app.bot_id:
        raise SlackError("cant_update_message")
    given = content.read(call)
    if len(given.text or "") > content.TEXT_REFUSED_IN_UPDATE:
        raise SlackError("msg_too_long")
    changes = updated(message, given)
    if changes is None:
        raise SlackError("no_text")
    if call.flag("reply_broadcast"):
        changes["broadcast"] = True
    silent = bool(given.blocks)  # only text is marked as edited
    call.world.change(channel, message, by=None if silent else call.world.bot.id, told=True, **changes)
    answer = {"ok": True, "channel": channel.id, "ts": message["ts"], "text": message["text"]}
    return answer | {"message": told(message)}


def updated(message: Json, given: content.Content) -> Json | None:
    """The changes: a text alone takes the blocks away, what is not given stays. `None` where nothing was given."""
    if given.text is None and given.blocks is None and given.attachments is None:
        return None
    changes: Json = {}
    if given.text is not None:
        changes["text"] = given.text
        changes["blocks"] = given.blocks or None
    elif given.blocks is not None:
        changes |= {"blocks": given.blocks or None, "text": ""}
    if given.attachments is not None:
        changes["attachments"] = given.attachments or None
    if given.metadata is not None:
        changes["metadata"] = given.metadata or None
    left = {key: changes.get(key, message.get(key)) for key in ("text", *KEEPS)}
    return changes if any(left.values()) or message.get("files") else None


@handles("chat.delete")
def delete(call: Call) -> Json:
    """Take back a message of the bot's own."""
    channel = _own_channel(call)
    message = call.message(channel)
    if message.get("bot_id") != call.world.app.bot_id:
        raise SlackError("cant_delete_message")
    call.world.delete(channel, message)
    return {"ok": True, "channel": channel.id, "ts": message["ts"]}


@handles("chat.getPermalink")
def get_permalink(call: Call) -> Json:
    """The address of a message."""
    channel = call.channel()
    message = call.message(channel, "message_ts")
    return {"ok": True, "channel": channel.id, "permalink": call.permalink(channel, message)}


def _own_channel(call: Call) -> Channel:
    """A channel by its id alone, as these methods take it."""
    return call.channel()


FARTHEST = 120 * 24 * 3600  # seconds
WINDOW, MOST_IN_WINDOW = 300, 30  # seconds; messages to be posted in one channel within them
LOOKS_EVERY = 0.1  # seconds; the clock may be put forward at any moment


@handles("chat.scheduleMessage")
def schedule(call: Call) -> Json:
    """Keep a message until its time."""
    world = call.world
    channel = target(call)
    given = content.read(call)
    if given.empty:
        raise SlackError("no_text")
    if len(given.text or "") > content.TEXT_TRUNCATED:
        raise SlackError("msg_too_long")
    at, now = call.number("post_at", 0, "invalid_time"), world.clock.now()
    if at <= now:
        raise SlackError("time_in_past")
    if at > now + FARTHEST:
        raise SlackError("time_too_far")
    near = [item for item in world.scheduled if item["channel"] == channel.id and abs(item["at"] - at) < WINDOW]
    if len(near) >= MOST_IN_WINDOW:
        raise SlackError("restricted_too_many")
    message_id = world.workspace.new_id("Q")
    fields = given.fields() | thread(call, channel) | content.bot_fields(call)
    world.scheduled.append({"id": message_id, "at": at, "made": int(now), "channel": channel.id, "fields": fields})
    answer = {"ok": True, "channel": channel.id, "scheduled_message_id": message_id, "post_at": at}
    return answer | {"message": {"type": "delayed_message"} | fields}


@handles("chat.scheduledMessages.list")
def list_scheduled(call: Call) -> Json:
    """The scheduled messages, the next one first."""
    wanted = call.text("channel")
    if wanted and wanted not in call.world.workspace.channels:
        raise SlackError("invalid_channel")
    oldest, latest = call.number("oldest", 0), call.number("latest", 0)
    found = [
        {
            "id": item["id"],
            "channel_id": item["channel"],
            "post_at": item["at"],
            "date_created": item["made"],
            "text": item["fields"]["text"],
        }
        for item in sorted(call.world.scheduled, key=lambda item: int(item["at"]))
        if wanted in ("", item["channel"]) and oldest <= item["at"] <= (latest or item["at"])
    ]
    page, after = call.page(found, 100)
    return {"ok": True, "scheduled_messages": page, "response_metadata": after}


@handles("chat.deleteScheduledMessage")
def delete_scheduled(call: Call) -> Json:
    """Delete a scheduled message before it is posted."""
    channel, wanted = call.channel(), call.text("scheduled_message_id")
    for item in call.world.scheduled:
        if item["id"] == wanted and item["channel"] == channel.id:
            call.world.scheduled.remove(item)
            return {"ok": True}
    raise SlackError("invalid_scheduled_message_id")


async def post_what_is_due(world: World) -> None:
    """Post each scheduled message when its time comes; runs until it is canceled."""
    while True:
        await asyncio.sleep(LOOKS_EVERY)
        for item in [item for item in world.scheduled if item["at"] <= world.clock.now()]:
            world.scheduled.remove(item)
            channel = world.workspace.channels.get(item["channel"])
            if channel is not None and not channel.archived:
                world.post(channel, item["fields"])
