"""What a bot answers to a command or a click: in its acknowledgement, or by its response_url."""

from __future__ import annotations

from slack_playground.values import Json, SlackError
from slack_playground.web_api import content
from slack_playground.world.grants import ResponseUrl
from slack_playground.world.world import World


def _own(world: World) -> Json:
    app = world.app
    return {"user": world.bot.id, "bot_id": app.bot_id, "app_id": app.app_id, "team": app.team_id}


def read(body: Json) -> content.Content:
    """The content of an answer, judged."""
    text, blocks, attachments = body.get("text"), body.get("blocks"), body.get("attachments")
    for name, value, kind in (("text", text, str), ("blocks", blocks, list), ("attachments", attachments, list)):
        if value is not None and not isinstance(value, kind):
            raise SlackError("invalid_payload", f"must be of another kind [json-pointer:/{name}]")
    content.judge(text, blocks, attachments)
    return content.Content(text, blocks, attachments, body.get("metadata"))


def show(world: World, url: ResponseUrl, body: Json) -> None:
    """Show an answer where its command or click was, replace the original by it, or delete that."""
    channel = world.workspace.channels.get(url.channel)
    if channel is None:  # it was before everything was forgotten
        raise SlackError("expired_url")
    original = channel.messages.get(url.message)
    if body.get("delete_original"):
        if original is not None:
            world.delete(channel, original)
        return
    given = read(body)
    if given.empty:
        raise SlackError("no_text")
    if body.get("replace_original") and original is not None:
        fields: Json = {"text": given.text or "", "blocks": given.blocks, "attachments": given.attachments}
        world.change(channel, original, **fields)
        return
    alone = body.get("response_type", "ephemeral") != "in_channel"
    if channel.archived and not alone:
        raise SlackError("is_archived")
    fields = given.fields() | _own(world)
    parent = channel.messages.get(str(body.get("thread_ts") or ""))
    if parent is not None:
        fields["thread_ts"] = parent.get("thread_ts") or parent["ts"]
    if alone:
        fields["ephemeral_for"] = url.user
    message = world.post(channel, fields)
    url.message = url.message or message["ts"]
