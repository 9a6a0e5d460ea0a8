"""The blocks: what a message, a modal or a home tab is stacked out of."""

from __future__ import annotations

from collections.abc import Mapping

from slack_playground.blockkit import elements
from slack_playground.blockkit.kinds import (
    FLAG,
    IDENTIFIER,
    Kind,
    ListOf,
    Needed,
    Rule,
    Shape,
    String,
    at_least_one,
    one_of,
)
from slack_playground.blockkit.objects import IMAGE_FIELDS, any_text, mrkdwn, plain
from slack_playground.blockkit.problems import EVERYWHERE, MESSAGE
from slack_playground.blockkit.richtext import RICH_TEXT

MARKDOWN_TEXT = 12_000


def _block(
    tag: str,
    fields: Mapping[str, Kind | Needed],
    *rules: Rule,
    places: frozenset[str] = EVERYWHERE,
) -> Shape:
    name = f"{'an' if tag[0] in 'ai' else 'a'} {tag} block"
    return Shape(name, {"block_id": IDENTIFIER, **fields}, tag=tag, rules=rules, places=places, block=True)


_IN_CONTEXT = one_of("an element of a context block", plain(3000), mrkdwn(3000), elements.IMAGE)

SECTION = _block(
    "section",
    {
        "text": any_text(3000),
        "fields": ListOf(any_text(2000), least=1, most=10),
        "accessory": elements.IN_SECTION,
        "expand": FLAG,
    },
    at_least_one("text", "fields"),
)
HEADER = _block("header", {"text": Needed(plain(150))})
DIVIDER = _block("divider", {})
ACTIONS = _block("actions", {"elements": Needed(ListOf(elements.IN_ACTIONS, least=1, most=25))})
CONTEXT = _block("context", {"elements": Needed(ListOf(_IN_CONTEXT, least=1, most=10))})
IMAGE = _block("image", {**IMAGE_FIELDS, "title": plain(2000)})
INPUT = _block(
    "input",
    {
        "label": Needed(plain(2000)),
        "element": Needed(elements.IN_INPUT),
        "dispatch_action": FLAG,
        "hint": plain(2000),
        "optional": FLAG,
    },
)
MARKDOWN = _block("markdown", {"text": Needed(String(most=MARKDOWN_TEXT, least=1))}, places=frozenset({MESSAGE}))
BLOCK = one_of(
    "a block",
    *(SECTION, HEADER, DIVIDER, CONTEXT, ACTIONS, IMAGE, INPUT, MARKDOWN, RICH_TEXT),
)
