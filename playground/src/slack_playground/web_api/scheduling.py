"""chat.scheduleMessage: a message that is posted later."""

from __future__ import annotations

import asyncio

from slack_playground.values import Json, SlackError
from slack_playground.web_api import chat, content
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.world import World

FARTHEST = 120 * 24 * 3600  # seconds
LOOKS_EVERY = 0.1  # seconds; the clock may be put forward at any moment


@handles("chat.scheduleMessage")
def schedule(call: Call) -> Json:
    """Keep a message until its time."""
    world = call.world
    channel = chat.target(call)
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
    message_id = world.workspace.new_id("Q")
    fields = given.fields() | chat.thread(call, channel) | content.bot_fields(call)
    world.scheduled.append({"id": message_id, "at": at, "channel": channel.id, "fields": fields})
    answer = {"ok": True, "channel": channel.id, "scheduled_message_id": message_id, "post_at": at}
    return answer | {"message": {"type": "delayed_message"} | fields}


async def post_what_is_due(world: World) -> None:
    """For ever: post what was scheduled, when its time has come."""
    while True:
        await asyncio.sleep(LOOKS_EVERY)
        for item in [item for item in world.scheduled if item["at"] <= world.clock.now()]:
            world.scheduled.remove(item)
            channel = world.workspace.channels.get(item["channel"])
            if channel is not None and not channel.archived:
                world.post(channel, item["fields"])
