"""The blocks: what a message, a modal or a home tab is stacked out of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slack_playground.blockkit import elements
from slack_playground.blockkit.kinds import IDENTIFIER, Kind, ListOf, String, choice, url
from slack_playground.blockkit.objects import IMAGE_FIELDS, SLACK_ICON, Text, one_image, plain
from slack_playground.blockkit.problems import HOME, MESSAGE, MODAL, Report
from slack_playground.blockkit.richtext import RICH_TEXT
from slack_playground.blockkit.shapes import FLAG, Needed, Rule, Shape, at_least_one, join, one_of, shape
from slack_playground.blockkit.tables import DATA_TABLE, DATA_VISUALIZATION, TABLE

MARKDOWN_TEXT = 12_000


def _block(
    tag: str,
    fields: Mapping[str, Kind | Needed],
    *rules: Rule,
    places: frozenset[str] = frozenset({MESSAGE, MODAL, HOME}),
    tag_optional: bool = False,
) -> Shape:
    article = "an" if tag[0] in "aeiou" else "a"
    return shape(
        f"{article} {tag} block",
        {"block_id": IDENTIFIER, **fields},
        tag=tag,
        tag_optional=tag_optional,
        rules=rules,
        places=places,
        block=True,
    )


@dataclass(frozen=True)
class _Markdown:
    """The text of a markdown block; all of them in a message share one limit, and say so where it is passed."""

    def check(self, value: object, path: str, report: Report) -> None:
        String(most=MARKDOWN_TEXT, least=1).check(value, path, report)
        if isinstance(value, str):
            before, report.markdown = report.markdown, report.markdown + len(value)
            if before <= MARKDOWN_TEXT < report.markdown and before:
                report.add(path, f"at most {MARKDOWN_TEXT} characters in all markdown blocks")


def _collapsed_only_if_collapsible(value: Mapping[str, object], path: str, report: Report) -> None:
    if value.get("default_collapsed") is True and value.get("is_collapsible") is not True:
        report.add(join(path, "default_collapsed"), "requires is_collapsible")


@dataclass(frozen=True)
class ContextPart:
    """One element of a context block: a text or a picture."""

    def check(self, value: object, path: str, report: Report) -> None:
        tag = value.get("type") if isinstance(value, Mapping) else None
        if tag == "image":
            elements.IMAGE.check(value, path, report)
        elif isinstance(value, Mapping) and tag not in ("plain_text", "mrkdwn"):
            report.add(join(path, "type"), "a context block can only have plain_text, mrkdwn and image elements")
        else:
            Text(3000).check(value, path, report)


SECTION = _block(
    "section",
    {
        "text": Text(3000),
        "fields": ListOf(Text(2000), least=1, most=10),
        "accessory": elements.IN_SECTION,
        "expand": FLAG,
    },
    at_least_one("text", "fields"),
)
HEADER = _block("header", {"text": Needed(plain(150))})
DIVIDER = _block("divider", {})
ACTIONS = _block("actions", {"elements": Needed(ListOf(elements.IN_ACTIONS, least=1, most=25))})
CONTEXT = _block("context", {"elements": Needed(ListOf(ContextPart(), least=1, most=10))})
CONTEXT_ACTIONS = _block(
    "context_actions",
    {"elements": Needed(ListOf(elements.IN_CONTEXT_ACTIONS, least=1, most=5))},
    places=frozenset({MESSAGE}),
)
IMAGE = _block("image", {**IMAGE_FIELDS, "title": plain(2000)}, one_image)
INPUT = _block(
    "input",
    {
        "label": Needed(plain(2000)),
        "element": Needed(elements.IN_INPUT),
        "dispatch_action": FLAG,
        "hint": plain(2000),
        "optional": FLAG,
    },
    elements.no_dispatch_of_files,
)
MARKDOWN = _block("markdown", {"text": Needed(_Markdown())}, places=frozenset({MESSAGE}))
FILE = _block(
    "file",
    {"external_id": Needed(IDENTIFIER), "source": Needed(choice("remote"))},
    places=frozenset({MESSAGE}),
)
VIDEO = _block(
    "video",
    {
        "alt_text": Needed(String(least=1, most=200)),
        "title": Needed(plain(200)),
        "title_url": url(),
        "thumbnail_url": Needed(url()),
        "video_url": Needed(url()),
        "author_name": String(most=50),
        "description": plain(200),
        "provider_name": String(most=50),
        "provider_icon_url": url(),
    },
)
ALERT = _block(
    "alert",
    {"text": Needed(Text(200)), "level": choice("default", "info", "warning", "error", "success")},
    places=frozenset({MODAL}),
)
CARD = _block(
    "card",
    {
        "hero_image": elements.IMAGE,
        "icon": elements.IMAGE,
        "slack_icon": SLACK_ICON,
        "title": Text(150),
        "subtitle": Text(150),
        "body": Text(200),
        "subtext": Text(200),
        "actions": ListOf(elements.IN_CARD, least=1, most=3),
    },
    at_least_one("hero_image", "title", "actions", "body"),
)
CAROUSEL = _block("carousel", {"elements": Needed(ListOf(CARD, least=1, most=10))})

_TASK: dict[str, Kind | Needed] = {
    "task_id": Needed(String(least=1)),
    "title": Needed(String(least=1)),
    "details": RICH_TEXT,
    "output": RICH_TEXT,
    "sources": ListOf(elements.URL_SOURCE),
    "status": Needed(choice("pending", "in_progress", "complete", "error")),
}
TASK_CARD = _block("task_card", _TASK, places=frozenset({MESSAGE}))
PLAN = _block(
    "plan",
    {"title": Needed(String(least=1)), "tasks": ListOf(_block("task_card", _TASK, tag_optional=True))},
    places=frozenset({MESSAGE}),
)
CONTAINER = _block(
    "container",
    {
        "title": plain(150),
        "rich_text_title": RICH_TEXT,
        "subtitle": Text(150),
        "icon": elements.IMAGE,
        "child_blocks": Needed(
            ListOf(
                one_of(
                    "a block in a container",
                    *(ACTIONS, CONTEXT, DIVIDER, FILE, HEADER, IMAGE, INPUT, RICH_TEXT, SECTION, TABLE, VIDEO),
                ),
                least=1,
                most=10,
            )
        ),
        "width": choice("narrow", "standard", "wide", "full"),
        "is_collapsible": FLAG,
        "default_collapsed": FLAG,
        "has_header_divider": FLAG,
    },
    at_least_one("title", "rich_text_title"),
    _collapsed_only_if_collapsible,
)

BLOCK = one_of(
    "a block",
    *(SECTION, HEADER, DIVIDER, CONTEXT, ACTIONS, IMAGE, INPUT, MARKDOWN, FILE, VIDEO, RICH_TEXT, TABLE),
    *(DATA_TABLE, DATA_VISUALIZATION, ALERT, CARD, CAROUSEL, CONTAINER, TASK_CARD, PLAN, CONTEXT_ACTIONS),
)


def check_blocks(blocks: object, path: str, report: Report, most: int, *, least: int = 0) -> None:
    """A stack of blocks, at most so many."""
    ListOf(BLOCK, least=least, most=most).check(blocks, path, report)
