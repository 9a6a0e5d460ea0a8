"""Threads with an app: assistant.threads.*, and the messages of chat.*Stream, which grow while the app writes them."""

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

MOST_PROMPTS = 4
MOST_LOADING_MESSAGES = 10
PLAN = "plan"


@handles("assistant.threads.setStatus")
def set_status(call: Call) -> Json:
    """Show what the app is doing until it posts something; an empty status clears it."""
    channel, parent = _thread(call)
    messages = call.json("loading_messages", "invalid_arguments") or []
    if not isinstance(messages, list) or len(messages) > MOST_LOADING_MESSAGES:
        words = f"must be an array of at most {MOST_LOADING_MESSAGES} items [json-pointer:/loading_messages]"
        raise SlackError("invalid_arguments", words)
    call.world.set_assistant(channel, parent, status=call.text("status"), loading_messages=messages)
    return {"ok": True}


@handles("assistant.threads.setTitle")
def set_title(call: Call) -> Json:
    """Name the thread in the app's history."""
    channel, parent = _thread(call)
    title = call.text("title")
    if parent.get("subtype") != "assistant_app_thread":
        raise SlackError("invalid_thread_ts")
    named = parent["assistant_app_thread"] | {"title": title}
    call.world.change(channel, parent, text=title, assistant_app_thread=named)
    return {"ok": True}


@handles("assistant.threads.setSuggestedPrompts")
def set_prompts(call: Call) -> Json:
    """Offer messages that the user can send with a click."""
    channel, parent = _thread(call)
    prompts = call.objects("prompts", "invalid_arguments") or []
    if not prompts or len(prompts) > MOST_PROMPTS:
        raise SlackError("invalid_arguments", f"must provide 1 to {MOST_PROMPTS} prompts [json-pointer:/prompts]")
    for number, prompt in enumerate(prompts):
        for name in ("title", "message"):
            if not isinstance(prompt.get(name), str) or not prompt[name]:
                raise SlackError("invalid_arguments", f"must be a string [json-pointer:/prompts/{number}/{name}]")
    call.world.set_assistant(channel, parent, prompts=prompts, prompts_title=call.text("title"))
    return {"ok": True}


def _thread(call: Call) -> tuple[Channel, Json]:
    """The parent of the thread; in a direct message the newest thread stands for a missing one."""
    channel = call.channel("channel_id")
    if call.world.bot.id not in channel.members:
        raise SlackError("channel_not_found")
    ts = call.text("thread_ts")
    if not ts and channel.kind == "im":
        started = [m["ts"] for m in channel.messages.values() if m.get("subtype") == "assistant_app_thread"]
        ts = started[-1] if started else ""
    message = channel.messages.get(ts)
    if message is None or message.get("ephemeral_for"):
        raise SlackError("invalid_thread_ts")
    return channel, channel.messages.get(message.get("thread_ts") or ts, message)


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
    """The added parts: `markdown_text`, or chunks of text, tasks and a plan."""
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
