"""The answer to `why`: the cause, the remedies with their buttons, the events before it, and lines of the log. Pure.

One worker is explained in full. Of several, each in trouble has a paragraph, and the others share a line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.views.blocks import Content, actions, context, section
from bot.views.buttons import command_button
from bot.views.text import code_span, escape, fit, moment, phrase_markup, phrase_with_names, shorten
from supervisor_core.commands.command import Command
from supervisor_core.commands.phrases import Phrase
from supervisor_core.common.text import sentence
from supervisor_core.diagnosis.why.model import Explanation

SHOWN = 12
"""Workers in trouble with a paragraph of their own: beyond it, all texts together are more than a message holds."""

NAMED = 40
"""Of those that are well."""

CAUSE, TODO, ALSO, EVENT, HELD, REASON = 900, 900, 300, 350, 250, 200  # characters
BRIEF = 400
"""Characters of a cause, and of what to do, among several."""

ASTERISK = "\N{ASTERISK OPERATOR}"
"""Stands for an asterisk of data where one would end what is bold."""

LOG = 1800
"""Characters of all lines together."""

May = Callable[[Command], bool]
"""The reader's right to a command."""


@dataclass(frozen=True, slots=True)
class _Reader:
    nonce: str
    may: May
    asks: Collection[str]
    say: Callable[[Phrase], str]
    """People by mention, or by their names."""


def why(
    explanations: Sequence[Explanation], nonce: str, may: May, asks: Collection[str] = (), *, alone: bool = True
) -> Content:
    """The message. `may`: which buttons its reader has; `asks`: the commands that need an approval; `alone`: whether
    nobody else reads it: then people are mentioned, and nobody is called by that."""
    if not explanations:
        text = "There are no workers to explain."
        return {"text": text, "blocks": [section(text)]}
    reader = _Reader(nonce, may, asks, phrase_markup if alone else phrase_with_names)
    if len(explanations) == 1:
        return _one(explanations[0], reader)
    return _several(explanations, reader)


def _one(explanation: Explanation, reader: _Reader) -> Content:
    found, say = explanation.found, reader.say
    cause = _cause(explanation, CAUSE, say)
    blocks = [section(f"{_sign(explanation)} *{cause}*")]
    also = [fit(sentence(say(phrase)), ALSO) for phrase in found.also[:3]]
    if also:
        blocks.append(section("\n".join(also)))
    todo = fit(say(found.todo), TODO)
    if todo:
        blocks.append(section(f"*What to do:* {todo}"))
    blocks += _buttons(explanation, reader)
    held = [_held(each.words, each.since) for each in explanation.conditions]
    if held:
        blocks.append(section("\n".join(["*It is*", *(f"• {each}" for each in held)])))
    before = [f"• {moment(event.at)}: {fit(say(event.words), EVENT)}" for event in explanation.before]
    if before:
        blocks.append(section("\n".join(["*What happened until then*", *before])))
    lines = _lines(explanation)
    if lines:
        blocks.append(section(f"*Lines of its log that matter*\n```{lines}```"))
    notes = [*([f"The whole log: {code_span(explanation.log)}"] if lines else []), *_unknown(explanation)]
    if notes:
        blocks.append(context(" · ".join(notes)))
    text = "\n".join(filter(None, [cause, *also, f"What to do: {todo}" if todo else "", *before]))
    return {"text": fit(text, 2900), "blocks": blocks}


def _several(explanations: Sequence[Explanation], reader: _Reader) -> Content:
    say = reader.say
    unwell = [each for each in explanations if not each.fine]
    well = [each for each in explanations if each.fine]
    count = len(explanations)
    title = f"{len(unwell)} of {count} workers {'needs' if len(unwell) == 1 else 'need'} a look"
    title = title if unwell else f"All {count} workers are well, or rest because somebody wants it"
    blocks, text = [section(f"*{title}*")], [title]
    for explanation in unwell[:SHOWN]:
        cause, todo = _cause(explanation, BRIEF, say), fit(say(explanation.found.todo), BRIEF)
        blocks.append(section("\n".join(filter(None, [f"{_sign(explanation)} *{cause}*", todo]))))
        blocks += _buttons(explanation, reader, several=True)
        text.append(fit(cause, 200))
    if len(unwell) > SHOWN:
        blocks.append(context(f"… and {len(unwell) - SHOWN} more in trouble: `/supervisor why NAME` explains each."))
    if well and unwell:
        names = shorten([escape(each.worker_id) for each in well], NAMED)
        line = f":white_check_mark: Well, or at rest: {names}"
        blocks.append(section(line))
        text.append(f"Well, or at rest: {names}")
    elif well:
        blocks += [section(fit("\n".join(f"• {_cause(each, REASON, say)}" for each in well[:SHOWN]), 2900))]
    if unwell:
        blocks.append(context("`/supervisor why NAME` tells all of one: since when, what happened before, its log."))
    return {"text": fit("\n".join(text), 2900), "blocks": blocks}


def _buttons(explanation: Explanation, reader: _Reader, *, several: bool = False) -> list[dict[str, Any]]:
    """The buttons that the reader has a right to; with several workers they name theirs."""
    offered = [each for each in explanation.found.remedies if reader.may(each)]
    if not offered:
        return []
    buttons = []
    for each in offered:
        text = f"{each.name.capitalize()} {each.target}".rstrip() if several else ""
        buttons.append(command_button(each, reader.nonce, text, asks=each.name in reader.asks))
    return [actions(f"why:{explanation.worker_id}", buttons)]


def _sign(explanation: Explanation) -> str:
    if not explanation.fine:
        return ":x:"
    return (
        ":double_vertical_bar:" if explanation.cause in ("paused", "not_enabled", "set_aside") else ":white_check_mark:"
    )


def _cause(explanation: Explanation, most: int, say: Callable[[Phrase], str]) -> str:
    """Without what would end the bold: an asterisk of data."""
    return fit(sentence(say(explanation.found.sentence)).replace("*", ASTERISK), most)


def _held(words: str, since: datetime | None) -> str:
    return fit(escape(words), HELD) + (f", since {moment(since)}" if since else "")


def _lines(explanation: Explanation) -> str:
    return fit("\n".join(escape(line.replace("`", "'")) for line in explanation.lines), LOG)


def _unknown(explanation: Explanation) -> list[str]:
    return [f"Not known: {fit(escape(each), ALSO)}" for each in explanation.unknown[:3]]
