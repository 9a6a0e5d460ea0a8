"""Rich text: the block, its four kinds of paragraph, and what may stand in a line."""

from __future__ import annotations

from slack_playground.blockkit.kinds import (
    FLAG,
    IDENTIFIER,
    Choice,
    Kind,
    ListOf,
    Needed,
    Number,
    Shape,
    String,
    one_of,
)

_STYLE = Shape(
    "a style",
    dict.fromkeys(("bold", "italic", "strike", "code", "underline", "highlight", "client_highlight", "unlink"), FLAG),
)
_WHOLE = Number(least=0)


def _inline(name: str, tag: str, fields: dict[str, Kind | Needed]) -> Shape:
    return Shape(name, {**fields, "style": _STYLE}, tag=tag)


TEXT = _inline("a piece of text", "text", {"text": Needed(String(least=1, counted=True))})
LINK = _inline(
    "a link",
    "link",
    {"url": Needed(String(least=1, most=3000)), "text": String(counted=True), "unsafe": FLAG},
)
_INLINE = one_of(
    "a piece of a line",
    TEXT,
    LINK,
    _inline("a person", "user", {"user_id": Needed(IDENTIFIER)}),
    _inline("a user group", "usergroup", {"usergroup_id": Needed(IDENTIFIER)}),
    _inline("a channel", "channel", {"channel_id": Needed(IDENTIFIER)}),
    _inline("a workspace", "team", {"team_id": Needed(IDENTIFIER)}),
    _inline("a broadcast", "broadcast", {"range": Needed(Choice("here", "channel", "everyone"))}),
    _inline("a colour", "color", {"value": Needed(String(least=1, most=50))}),
    _inline(
        "an emoji",
        "emoji",
        {"name": Needed(IDENTIFIER), "unicode": String(most=100), "skin_tone": Number(least=1, most=6)},
    ),
    _inline(
        "a date",
        "date",
        {
            "timestamp": Needed(_WHOLE),
            "format": Needed(String(least=1)),
            "url": String(most=3000),
            "fallback": String(),
        },
    ),
)

SECTION = Shape("a line of rich text", {"elements": Needed(ListOf(_INLINE))}, tag="rich_text_section")

_PARAGRAPH = one_of(
    "a paragraph of rich text",
    SECTION,
    Shape(
        "a list",
        {
            "elements": Needed(ListOf(SECTION)),
            "style": Needed(Choice("bullet", "ordered")),
            "indent": _WHOLE,
            "offset": _WHOLE,
            "border": _WHOLE,
        },
        tag="rich_text_list",
    ),
    Shape(
        "a block of code",
        {
            "elements": Needed(ListOf(one_of("a piece of code", TEXT, LINK))),
            "border": _WHOLE,
            "language": String(most=50),
        },
        tag="rich_text_preformatted",
    ),
    Shape("a quote", {"elements": Needed(ListOf(_INLINE)), "border": _WHOLE}, tag="rich_text_quote"),
)

RICH_TEXT = Shape(
    "a rich_text block",
    {"elements": Needed(ListOf(_PARAGRAPH, least=1)), "block_id": IDENTIFIER},
    tag="rich_text",
    block=True,
)
"""A block of its own, and also what a table's cell or a task's output holds."""
