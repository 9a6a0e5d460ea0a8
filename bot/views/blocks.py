"""Blocks of Block Kit, and messages of one piece of text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.views.text import escape, fit

LONGEST = 2900
"""Characters of one section; what is longer is cut, and says so."""

PIECE, PIECES = 2800, 4  # of a listing: characters, and blocks; together they are less than a message holds

OPTION = 75  # characters of a button and of a choice

Json = dict[str, Any]

Content = dict[str, Any]
"""A message: `text` and `blocks`, which say the same."""


def text_message(text: str) -> Content:
    """One piece of text."""
    text = fit(text, LONGEST)
    return {"text": text, "blocks": [section(text)]}


def code_message(text: str) -> Content:
    """Text in fixed columns: in as many blocks as it needs, cut where there would be too many."""
    pieces, piece = [], ""
    for line in escape(text.replace("`", "'")).split("\n"):
        if piece and len(piece) + len(line) > PIECE:
            pieces.append(piece)
            piece = ""
        piece += f"{fit(line, PIECE)}\n"
    pieces.append(piece)
    blocks = [section(f"```{piece.rstrip()}```") for piece in pieces[:PIECES]]
    return {
        "text": fit(escape(text), LONGEST),
        "blocks": blocks if len(pieces) <= PIECES else [*blocks, context("… (cut)")],
    }


def without_blocks(content: Content) -> Content:
    """The same in plain text: what is always understood, where the blocks are not."""
    return {"text": fit(str(content["text"]), LONGEST), "blocks": []}


def section(text: str) -> Json:
    """A block of text. `verbatim`: what looks like a link or a mention in it is none, unless it is marked up as one."""
    return {"type": "section", "text": {"type": "mrkdwn", "verbatim": True, "text": fit(text, LONGEST)}}


def context(text: str) -> Json:
    """A block of small print."""
    element = {"type": "mrkdwn", "verbatim": True, "text": fit(text, 1900)}
    return {"type": "context", "elements": [element]}


def actions(block_id: str, elements: Sequence[Json]) -> Json:
    """A row of buttons or menus."""
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


def plain_text(text: str) -> Json:
    """A text object in which nothing is markup."""
    return {"type": "plain_text", "text": text}


def option(text: str, value: str) -> Json:
    """One choice of a menu."""
    return {"text": plain_text(fit(text, OPTION)), "value": value}


def button(action_id: str, text: str, value: str, *, label: str = "", style: str = "") -> Json:
    """A button; `label` is read aloud in the place of its text."""
    made: Json = {"type": "button", "action_id": action_id, "text": plain_text(fit(text, OPTION))}
    made |= {"accessibility_label": fit(label, OPTION)} if label else {}
    return made | {"value": value} | ({"style": style} if style else {})


def with_hint(content: Content, hint: str) -> Content:
    """The same message with a line of small print below it, where there is something to say."""
    if not hint:
        return content
    return {**content, "blocks": [*content["blocks"], context(hint)]}


def join_lines(lines: Sequence[str], most: int) -> list[str]:
    """Lines together, as many in one text as fit."""
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + 1 + len(line) <= most:
            texts[-1] += f"\n{line}"
        else:
            texts.append(line)
    return texts
