"""chat.startStream, chat.appendStream and chat.stopStream: a message that grows while the app writes it."""

from __future__ import annotations

import copy

from slack_playground import blockkit
from slack_playground.values import Json, SlackError
from slack_playground.web_api import content
from slack_playground.web_api.call import Call
from slack_playground.web_api.chat import target, thread
from slack_playground.web_api.methods import handles
from slack_playground.world.event_payloads import plain
from slack_playground.world.workspace import Channel

PLAN = "plan"


@handles("chat.startStream")
def start(call: Call) -> Json:
    """Post a message that is still being written."""
    channel = target(call)
    if channel.kind != "im" and not call.text("recipient_user_id"):
        raise SlackError("missing_recipient_user_id")
    if channel.kind != "im" and not call.text("recipient_team_id"):
        raise SlackError("missing_recipient_team_id")
    inside = thread(call, channel)
    if not inside:
        raise SlackError("invalid_thread_ts")
    blocks: list[Json] = []
    mode = call.text("task_display_mode", "timeline")
    _append(blocks, _chunks(call), mode)
    fields = {"text": _text(blocks), "blocks": blocks, "streaming": mode}
    message = call.world.post(channel, fields | inside | content.bot_fields(call))
    return {"ok": True, "channel": channel.id, "ts": message["ts"]}


@handles("chat.appendStream")
def append(call: Call) -> Json:
    """Add to it."""
    channel, message = _stream(call)
    chunks = _chunks(call)
    if not chunks:
        raise SlackError("no_text")
    _grow(call, channel, message, chunks)
    return {"ok": True, "channel": channel.id, "ts": message["ts"]}


@handles("chat.stopStream")
def stop(call: Call) -> Json:
    """Finish it, with blocks at its end where some are given."""
    channel, message = _stream(call)
    added = call.objects("blocks", "invalid_blocks_format") or []
    if added:
        content.check_message({"blocks": added})
    metadata = content.metadata(call)
    _grow(call, channel, message, _chunks(call), added)
    fields: Json = {"streaming": None}
    if metadata:
        fields["metadata"] = metadata
    call.world.change(channel, message, **fields)
    return {"ok": True, "channel": channel.id, "ts": message["ts"], "message": plain(message)}


def _stream(call: Call) -> tuple[Channel, Json]:
    channel = call.channel()
    message = call.message(channel)
    if message.get("bot_id") != call.world.app.bot_id:
        raise SlackError("message_not_owned_by_app")
    if not message.get("streaming"):
        raise SlackError("message_not_in_streaming_state")
    return channel, message


def _grow(call: Call, channel: Channel, message: Json, chunks: list[Json], added: list[Json] | None = None) -> None:
    blocks = copy.deepcopy(message.get("blocks") or [])
    _append(blocks, chunks, message["streaming"])
    blocks += added or []
    if len(_text(blocks)) > content.MARKDOWN:
        raise SlackError("msg_too_long")
    call.world.change(channel, message, text=_text(blocks), blocks=blocks)


def _chunks(call: Call) -> list[Json]:
    """What is added: `markdown_text`, or chunks of text, tasks and a plan."""
    chunks = list(call.objects("chunks", "invalid_chunks") or [])
    if call.text("markdown_text"):
        chunks.insert(0, {"type": "markdown_text", "text": call.text("markdown_text")})
    wants = {"markdown_text": ("text",), "task_update": ("id", "title"), "plan_update": ("title",), "blocks": ()}
    for chunk in chunks:
        kind = chunk.get("type")
        needed = wants.get(kind) if isinstance(kind, str) else None
        if needed is None or not all(isinstance(chunk.get(name), str) for name in needed):
            raise SlackError("invalid_chunks")
    return chunks


def _append(blocks: list[Json], chunks: list[Json], mode: str) -> None:
    for chunk in chunks:
        match chunk["type"]:
            case "markdown_text":
                if blocks and blocks[-1]["type"] == "markdown":
                    blocks[-1] = blocks[-1] | {"text": blocks[-1]["text"] + chunk["text"]}
                elif chunk["text"]:
                    blocks.append({"type": "markdown", "text": chunk["text"]})
            case "task_update":
                _update_task(blocks, chunk, mode)
            case "plan_update":
                _plan(blocks)["title"] = chunk["title"]
            case "blocks":
                content.check_message({"blocks": chunk.get("blocks") or []})
                blocks.extend(chunk.get("blocks") or [])


def _update_task(blocks: list[Json], chunk: Json, mode: str) -> None:
    """Show a task, or change the one of this id."""
    task: Json = {"type": "task_card", "task_id": chunk["id"], "title": chunk["title"]}
    task["status"] = chunk.get("status", "pending")
    for name in ("details", "output"):
        if isinstance(chunk.get(name), str):
            words = {"type": "text", "text": chunk[name]}
            section = {"type": "rich_text_section", "elements": [words]}
            task[name] = {"type": "rich_text", "elements": [section]}
    if chunk.get("sources"):
        task["sources"] = chunk["sources"]
    if blockkit.check_message({"blocks": [task]}):
        raise SlackError("invalid_chunks")
    tasks: list[Json] = _plan(blocks)["tasks"] if mode == PLAN else blocks
    for place, known in enumerate(tasks):
        if known.get("task_id") == chunk["id"]:
            tasks[place] = known | task
            return
    tasks.append(task)


def _plan(blocks: list[Json]) -> Json:
    for block in blocks:
        if block["type"] == "plan":
            return block
    plan: Json = {"type": "plan", "title": "Plan", "tasks": []}
    blocks.insert(0, plan)
    return plan


def _text(blocks: list[Json]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "markdown")
