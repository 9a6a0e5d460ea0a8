"""`history`: uptime bars of colored squares, and sentences that say the same. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from bot.views.blocks import Content, context, join_lines, section, text_message
from bot.views.text import escape, fit, phrase_markup, without_ids
from supervisor_core.common.text import sentence
from supervisor_core.common.times import format_span
from supervisor_core.diagnosis.history import History, history_text, percent, slice_colors

LONGEST = 2900  # characters of a block

ONE, SEVERAL = (12, 7), (8, 7)
"""Squares for a day and for a week: with the percent, and a worker's name where there are several, as many as fit into
one line on a phone."""


def history_message(histories: Sequence[History], left_out: int = 0) -> Content:
    if not histories:
        return text_message("No workers to show.")
    first = histories[0]
    length = first.until - first.since
    day, week = ONE if len(histories) == 1 else SEVERAL
    squares = day if length <= timedelta(days=1) else week
    if len(histories) == 1:
        headline, *sentences = [
            sentence(phrase_markup(without_ids(phrase), mentions=False)) for phrase in history_text(first)
        ]
        lines = [f"*{headline.replace('*', '')}*", f"{_bar(first, squares)} {percent(first.uptime)}"]
        lines += [line if line[:1].isdigit() else f"• {line}" for line in sentences]
    else:
        lines = [f"*{len(histories)} workers in the last {first.length}*"]
        lines += [
            f"{_bar(history, squares)} *{escape(history.worker_id)}* {percent(history.uptime)}" for history in histories
        ]
    if left_out:
        lines.append(f"… and {left_out} more: `/supervisor history NAME`")
    slice_length = format_span(length.total_seconds() / squares)
    hint = f"A square is {slice_length}, and shows the worst of it: red down, yellow degraded, white paused or no data."
    text = fit("\n".join(lines), LONGEST)
    blocks = [section(each) for each in (join_lines(lines, LONGEST) if len(histories) > 1 else [text])]
    return {"text": text, "blocks": [*blocks, context(hint)]}


def _bar(history: History, squares: int) -> str:
    names = ("white_large" if color == "white" else f"large_{color}" for color in slice_colors(history, squares))
    return "".join(f":{name}_square:" for name in names)
