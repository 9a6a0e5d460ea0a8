"""The answer to `why`: the cause, the remedies with their buttons, the events before it, and lines of the log. Pure.

One worker is explained in full. Of several, each that needs attention has a paragraph; the others share a line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from bot.views.blocks import Color, Content, actions, card, code_block, context, section, text_message
from bot.views.buttons import command_button
from bot.views.text import code_span, escape, fit, inert, phrase_markup, shorten, when, without_ids
from supervisor_core.commands.command import Command
from supervisor_core.commands.phrases import Phrase
from supervisor_core.common.text import sentence
from supervisor_core.diagnosis.why.model import Explanation

SHOWN = 12
"""Workers with a paragraph of their own: with more, all texts together could be longer than a message."""

NAMED = 40
"""Names of healthy workers."""

CAUSE, TODO, ALSO, EVENT, HELD, REASON = 450, 900, 300, 350, 250, 200  # characters
BRIEF = 400
"""Characters of a cause, and of what to do, among several."""

ASTERISK = "\N{ASTERISK OPERATOR}"
"""Stands for an asterisk of data where one would end what is bold."""

LOG = 1800
"""Characters of all lines together."""

RESTING = ("paused", "not_enabled", "set_aside")
"""Causes by which a worker doesn't run on purpose."""

May = Callable[[Command], bool]
"""The reader's right to a command."""

Say = Callable[[Phrase], str]
Buttons = Callable[[Explanation], list[dict[str, Any]]]


def why(
    explanations: Sequence[Explanation], nonce: str, may: May, asks: Collection[str] = (), *, alone: bool = True
) -> Content:
    """The message. `may`: which buttons its reader has; `asks`: the commands that need an approval; `alone`: whether
    nobody else reads it: then people are mentioned, and nobody is called by that."""
    if not explanations:
        return text_message("No workers to explain.")
    say = partial(phrase_markup, now=explanations[0].at, mentions=alone)
    several = len(explanations) > 1

    def buttons(explanation: Explanation) -> list[dict[str, Any]]:
        """The buttons that the reader has a right to; with several workers they name theirs."""
        row = [
            command_button(
                command,
                nonce,
                f"{command.name.capitalize()} {command.target}".rstrip() if several else "",
                asks=command.name in asks,
            )
            for command in explanation.found.remedies
            if may(command)
        ]
        return [actions(f"why:{explanation.worker_id}", row)] if row else []

    return _several(explanations, say, buttons) if several else _one(explanations[0], say, buttons)


def _one(explanation: Explanation, say: Say, buttons: Buttons) -> Content:
    found = explanation.found
    also = [fit(sentence(say(phrase)), ALSO) for phrase in found.also[:3]]
    todo = fit(say(found.todo), TODO)
    paragraphs = [*also, *([f"*Next step*\n{todo}"] if todo else [])]
    blocks = [section("\n".join(paragraphs))] if paragraphs else []
    blocks += buttons(explanation)
    conditions = [
        f"• {inert(each.words, HELD)}" + (f", since {when(each.since, explanation.at)}" if each.since else "")
        for each in explanation.conditions
    ]
    if conditions:
        blocks.append(section("\n".join(["*Conditions*", *conditions])))
    before = [
        f"• {when(event.at, explanation.at)}: {fit(say(without_ids(event.words)), EVENT)}"
        for event in explanation.before
    ]
    if before:
        blocks.append(section("\n".join(["*Recent events*", *before])))
    lines = fit("\n".join(escape(line.replace("`", "'")) for line in explanation.lines), LOG)
    if lines:
        blocks.append(code_block(lines))
    notes = [
        *([f"Full log: {code_span(explanation.log)}"] if lines else []),
        *(f"Unknown: {inert(each, ALSO)}" for each in explanation.unknown[:3]),
    ]
    if notes:
        blocks.append(context(" · ".join(notes)))
    return card(f"{_sign(explanation)} *{_cause(explanation, CAUSE, say)}*", _color([explanation]), blocks)


def _several(explanations: Sequence[Explanation], say: Say, buttons: Buttons) -> Content:
    count = len(explanations)
    unhealthy = [each for each in explanations if not each.fine]
    healthy = [each for each in explanations if each.fine]
    blocks = []
    for explanation in unhealthy[:SHOWN]:
        cause, todo = _cause(explanation, BRIEF, say), fit(say(explanation.found.todo), BRIEF)
        blocks.append(section("\n".join(filter(None, [f"{_sign(explanation)} *{cause}*", todo]))))
        blocks += buttons(explanation)
    if not unhealthy:
        blocks.append(section(fit("\n".join(f"• {_cause(each, REASON, say)}" for each in healthy[:SHOWN]), 2900)))
        return card(f":white_check_mark: *None of {count} workers needs attention*", Color.GOOD, blocks)
    if healthy:
        names = shorten([escape(each.worker_id) for each in healthy], NAMED)
        blocks.append(section(f":large_green_circle: Fine: {names}"))
    more = [f"… and {len(unhealthy) - SHOWN} more"] if len(unhealthy) > SHOWN else []
    blocks.append(context(" · ".join([*more, "`/supervisor why NAME` shows events and the log of one worker"])))
    verb = "needs" if len(unhealthy) == 1 else "need"
    return card(f":red_circle: *{len(unhealthy)} of {count} workers {verb} attention*", _color(unhealthy), blocks)


def _color(explanations: Sequence[Explanation]) -> Color:
    if any(not each.fine for each in explanations):
        return Color.CRITICAL
    return Color.QUIET if any(each.cause in RESTING for each in explanations) else Color.GOOD


def _sign(explanation: Explanation) -> str:
    if not explanation.fine:
        return ":red_circle:"
    return ":double_vertical_bar:" if explanation.cause in RESTING else ":white_check_mark:"


def _cause(explanation: Explanation, most: int, say: Callable[[Phrase], str]) -> str:
    """The cause, without an asterisk that would end the bold."""
    return fit(sentence(say(explanation.found.sentence)).replace("*", ASTERISK), most)
