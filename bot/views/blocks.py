"""Blocks of Block Kit, and messages of one piece of text. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from bot.views.text import escape, fit
from supervisor_core.common.text import canonical_json

LONGEST = 2900
"""Characters of one section; what is longer is cut, and says so."""

PIECE, PIECES = 2800, 4  # of a listing: characters, and blocks; together they are less than a message holds

PLAIN_BYTES = 3900
"""Bytes of a plain text. An edit takes 4,000 characters, or bytes by one report."""

OPTION = 75  # characters of a button and of a choice

Json = dict[str, Any]

Content = dict[str, Any]
"""A message: `text`, and `blocks` that say the same; or a card, whose `text` is its headline above `attachments`."""

HEADLINE = 500  # characters

FIELD, FIELDS = 1000, 10  # characters of a field: more than two links have; fields of one section


class Color(StrEnum):
    """The bar beside a card. Its headline says the same in words."""

    CRITICAL = "#c0392b"
    WARNING = "#d9822b"
    GOOD = "#2e9e5b"
    ACTIVE = "#2f6fb0"
    QUIET = "#8a8f98"


def card(headline: str, color: Color, blocks: Sequence[Json]) -> Content:
    """A headline, which is the notification as well, above blocks with a bar of this color. Without blocks there is
    no bar."""
    text = fit(headline, HEADLINE)
    return {"text": text, "attachments": [{"color": str(color), "blocks": list(blocks)}] if blocks else []}


def blocks_of(content: Mapping[str, Any]) -> list[Json]:
    inside = (each.get("blocks") or () for each in content.get("attachments") or ())
    return [*(content.get("blocks") or ()), *(block for blocks in inside for block in blocks)]


def text_message(text: str) -> Content:
    text = fit(text, LONGEST)
    return {"text": text, "blocks": [section(text)]}


def code_message(text: str) -> Content:
    """Text in fixed columns: in as many blocks as it needs, cut where there would be too many."""
    pieces = join_lines([fit(line, PIECE) for line in escape(text.replace("`", "'")).split("\n")], PIECE)
    blocks = [section(f"```{piece.rstrip()}```") for piece in pieces[:PIECES]]
    return {
        "text": fit(escape(text), LONGEST),
        "blocks": blocks if len(pieces) <= PIECES else [*blocks, context("… (cut)")],
    }


def without_blocks(content: Content) -> Content:
    """The same as text alone, for where Slack refuses the blocks."""
    lines = [str(content["text"])]
    if content.get("attachments"):
        lines += [line for block in blocks_of(content) for line in _texts(block)]
    text = fit("\n".join(lines), LONGEST)
    return {"text": text.encode()[:PLAIN_BYTES].decode(errors="ignore")}


def is_plain(content: Mapping[str, Any]) -> bool:
    return set(content) == {"text"}


def _texts(block: Json) -> Iterator[str]:
    parts = [block.get("text"), *(block.get("fields") or ())]
    if block["type"] == "context":
        parts += block["elements"]
    return (str(part["text"]) for part in parts if part and "text" in part)


def section(text: str) -> Json:
    """A block of text. `verbatim`: what looks like a link or a mention in it is none, unless it is marked up as one."""
    return {"type": "section", "text": {"type": "mrkdwn", "verbatim": True, "text": fit(text, LONGEST)}}


def fields(facts: Mapping[str, str]) -> list[Json]:
    """A section of facts in two columns; nothing where no fact has a value."""
    shown = [(name, value) for name, value in facts.items() if value][:FIELDS]
    if not shown:
        return []
    texts = [f"*{name}*\n{fit(value, FIELD)}" for name, value in shown]
    return [{"type": "section", "fields": [{"type": "mrkdwn", "verbatim": True, "text": each} for each in texts]}]


def code_block(text: str) -> Json:
    """A block of text in letters of one width. The text is data: see `in_code`."""
    return section(f"```{text}```")


def context(text: str) -> Json:
    element = {"type": "mrkdwn", "verbatim": True, "text": fit(text, 1900)}
    return {"type": "context", "elements": [element]}


def actions(block_id: str, elements: Sequence[Json]) -> Json:
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


def plain_text(text: str) -> Json:
    """A text object in which nothing is markup."""
    return {"type": "plain_text", "text": text}


def modal(
    callback_id: str, title: str, blocks: Sequence[Json], metadata: str, submit: str = "", close: str = "Cancel"
) -> Json:
    """A form; `metadata` comes back with it when it's sent. Without `submit` it can only be closed."""
    made: Json = {"type": "modal", "callback_id": callback_id, "private_metadata": metadata}
    made |= {"title": plain_text(title), "close": plain_text(close), "blocks": list(blocks)}
    return made | ({"submit": plain_text(submit)} if submit else {})


def option(text: str, value: str) -> Json:
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
    if is_plain(content):
        return {"text": f"{content['text']}\n{hint}"}
    if attachments := content.get("attachments"):
        last = attachments[-1]
        return {**content, "attachments": [*attachments[:-1], {**last, "blocks": [*last["blocks"], context(hint)]}]}
    return {**content, "blocks": [*content.get("blocks", ()), context(hint)]}


def join_lines(lines: Sequence[str], most: int) -> list[str]:
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + 1 + len(line) <= most:
            texts[-1] += f"\n{line}"
        else:
            texts.append(line)
    return texts


def fingerprint(content: Content) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:16]
