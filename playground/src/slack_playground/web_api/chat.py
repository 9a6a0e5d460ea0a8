"""chat.*: posting, changing, deleting, and messages for one user alone."""

from __future__ import annotations

from slack_playground.values import Json, SlackError
from slack_playground.web_api import content
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.event_payloads import plain
from slack_playground.world.workspace import Channel

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


@handles("chat.postMessage")
def post_message(call: Call) -> Json:
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
    return {"ok": True, "channel": channel.id, "ts": message["ts"], "message": plain(message)}


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
    channel = call.channel()
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
    return answer | {"message": plain(message)}


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
    channel = call.channel()
    message = call.message(channel)
    if message.get("bot_id") != call.world.app.bot_id:
        raise SlackError("cant_delete_message")
    call.world.delete(channel, message)
    return {"ok": True, "channel": channel.id, "ts": message["ts"]}


@handles("chat.getPermalink")
def get_permalink(call: Call) -> Json:
    channel = call.channel()
    message = call.message(channel, "message_ts")
    return {"ok": True, "channel": channel.id, "permalink": call.permalink(channel, message)}
