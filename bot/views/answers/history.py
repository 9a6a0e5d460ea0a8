"""`history` in words: what a picture shows, for whoever can't see it or where none can be drawn. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from bot.views.blocks import Content, actions, context, section
from bot.views.buttons import share_button
from bot.views.text import escape, fit, phrase_with_names, without_ids
from supervisor_core.code.change_plan import count
from supervisor_core.commands.command import Command
from supervisor_core.commands.phrases import name_of, render_phrase
from supervisor_core.common.text import sentence
from supervisor_core.diagnosis.history import History, history_text, percent
from supervisor_core.workers.conditions.rules import word_for

WORDS = 2700  # characters of all sentences
ALT = 900
"""Characters of a picture's description; Slack takes a thousand."""

IN_DIRECT = "The chart is in our direct messages."


def history_markup(histories: Sequence[History], left_out: int = 0) -> str:
    """The history in Slack's markup: sentences for one worker, a line each for several."""
    if not histories:
        return "No workers to show."
    if len(histories) == 1:
        lines = [sentence(phrase_with_names(without_ids(phrase))) for phrase in history_text(histories[0])]
        lines = [f"*{lines[0].replace('*', '')}*", *(line if line[:1].isdigit() else f"• {line}" for line in lines[1:])]
    else:
        lines = [f"*{len(histories)} workers in the last {histories[0].length}*", *map(_line, histories)]
    if left_out:
        lines.append(f"… and {left_out} more: `/supervisor history NAME`")
    return fit("\n".join(lines), WORDS)


def _line(history: History) -> str:
    name = f"• *{escape(history.worker_id)}*"
    if not history.known:
        return f"{name}: no history yet"
    last, done = history.stretches[-1], len(history.marks) + history.more
    state = word_for(last.condition, last.reason)
    commands = f", {count(done, 'command')}" if done else ""
    return f"{name}: uptime {percent(history.uptime)}, {count(history.changes, 'change')}{commands}; now {state}"


def picture_description(histories: Sequence[History], zone: tzinfo) -> str:
    """Of the picture, in plain text and the reader's own time."""

    def moment(at: datetime) -> str:
        return f"{at.astimezone(zone):%d %b %H:%M}"

    if len(histories) == 1:
        told = (render_phrase(without_ids(phrase), str, str, moment, name_of) for phrase in history_text(histories[0]))
        return fit(" ".join(map(sentence, told)), ALT)
    told = (f"{each.worker_id}: uptime {percent(each.uptime)}, {count(each.changes, 'change')}" for each in histories)
    return fit(f"{len(histories)} workers in the last {histories[0].length}. {'; '.join(told)}.", ALT)


def history_message(words: str, command: Command, nonce: str, which: str, *, drawn: bool, missing: str = "") -> Content:
    """The answer in the channel, for its requester alone; `which` names the picture that the button shares."""
    blocks: list[dict[str, Any]] = [section(words)]
    hint = IN_DIRECT if drawn else missing
    if hint:
        blocks.append(context(hint))
    button = share_button(command, nonce, which, "Share here")
    blocks.append(actions("share", [button]))
    return {"text": fit(f"{words}\n{hint}".rstrip(), 2900), "blocks": blocks}
