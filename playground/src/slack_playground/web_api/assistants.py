"""assistant.threads.*: the status, the title and the prompts of a thread with the app."""

from __future__ import annotations

from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.workspace import Channel

MOST_PROMPTS = 4
MOST_LOADING_MESSAGES = 10


@handles("assistant.threads.setStatus")
def set_status(call: Call) -> Json:
    """Show what the app does, until it posts something; an empty status takes it away."""
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
