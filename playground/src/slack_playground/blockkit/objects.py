"""The composition objects: texts, options, confirm dialogs, filters, files and the like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slack_playground.blockkit.kinds import IDENTIFIER, Kind, ListOf, Number, String, choice, name_of, url
from slack_playground.blockkit.problems import Report
from slack_playground.blockkit.shapes import FLAG, Needed, Shape, join, not_together, shape

PLAIN = "plain_text"
MRKDWN = "mrkdwn"
BOTH = (PLAIN, MRKDWN)

_EXTRAS = {PLAIN: "emoji", MRKDWN: "verbatim"}


@dataclass(frozen=True)
class Text:
    """A text object: plain or mrkdwn, never empty, up to a length."""

    most: int = 3000
    types: tuple[str, ...] = BOTH

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, Mapping):
            report.add(path, f"expected a text object, not {name_of(value)}")
            return
        tag = value.get("type")
        if not isinstance(tag, str) or tag not in self.types:
            shown = repr(tag[:40]) if isinstance(tag, str) else name_of(tag)
            report.add(join(path, "type"), f"the type must be {' or '.join(self.types)}, not {shown}")
        self._check_fields(value, path, report)

    def _check_fields(self, value: Mapping[str, object], path: str, report: Report) -> None:
        tag = value.get("type")
        extra = _EXTRAS.get(tag) if isinstance(tag, str) else None
        for key in value:
            if key not in ("type", "text", extra):
                report.add(join(path, str(key)), f"a text object of this type has no field {str(key)[:40]!r}")
        if extra is not None and extra in value:
            FLAG.check(value[extra], join(path, extra), report)
        if "text" not in value:
            report.add(join(path, "text"), "a text object needs a field 'text'")
            return
        String(most=self.most, least=1, counted=True).check(value["text"], join(path, "text"), report)


def plain(most: int) -> Text:
    """Plain text only, up to a length."""
    return Text(most, (PLAIN,))


CONFIRM = shape(
    "a confirm dialog",
    {
        "title": Needed(plain(100)),
        "text": Needed(Text(300)),
        "confirm": Needed(plain(30)),
        "deny": Needed(plain(30)),
        "style": choice("primary", "danger"),
    },
)


def option(types: tuple[str, ...] = (PLAIN,), *, link: bool = False) -> Shape:
    """An option; its texts may be mrkdwn in checkboxes and radio buttons, and only an overflow menu takes a `url`."""
    fields: dict[str, Kind | Needed] = {
        "text": Needed(Text(75, types)),
        "value": Needed(String(most=150)),
        "description": Text(75, types),
    }
    if link:
        fields["url"] = url(web=False)
    return shape("an option", fields)


OPTION = option()
RICH_OPTION = option(BOTH)
LINK_OPTION = option(link=True)

OPTION_GROUP = shape(
    "an option group",
    {"label": Needed(plain(75)), "options": Needed(ListOf(OPTION, least=1, most=100))},
)

FILTER = shape(
    "a conversation filter",
    {
        "include": ListOf(choice("im", "mpim", "private", "public"), least=1),
        "exclude_external_shared_channels": FLAG,
        "exclude_bot_users": FLAG,
    },
)

DISPATCH = shape(
    "a dispatch configuration",
    {"trigger_actions_on": ListOf(choice("on_enter_pressed", "on_character_entered"), least=1)},
)


def _one_reference(value: Mapping[str, object], path: str, report: Report) -> None:
    if ("id" in value) == ("url" in value):
        report.add(path, "a Slack file needs either an id or a url")


SLACK_FILE = shape("a Slack file", {"id": IDENTIFIER, "url": url()}, rules=(_one_reference,))

SLACK_ICON = shape("a Slack icon", {"name": Needed(IDENTIFIER)}, tag="icon")

TRIGGER = shape(
    "a workflow trigger",
    {
        "url": Needed(url()),
        "customizable_input_parameters": ListOf(
            shape("an input parameter", {"name": Needed(String(least=1)), "value": Needed(String())}),
        ),
    },
)

WORKFLOW = shape("a workflow", {"trigger": Needed(TRIGGER)})

FEEDBACK = shape(
    "a feedback button",
    {
        "text": Needed(plain(75)),
        "value": Needed(String(most=2000)),
        "accessibility_label": String(most=75),
    },
)

COLUMN = shape(
    "a column's settings",
    {"align": choice("left", "center", "right"), "is_wrapped": FLAG},
)

RAW_TEXT = shape("a raw text", {"text": Needed(String(least=1))}, tag="raw_text")
RAW_NUMBER = shape(
    "a raw number", {"value": Needed(Number(whole=False)), "text": Needed(String(least=1))}, tag="raw_number"
)

IMAGE_FIELDS: dict[str, Kind | Needed] = {
    "image_url": url(),
    "slack_file": SLACK_FILE,
    "alt_text": Needed(String(most=2000)),
}


def one_image(value: Mapping[str, object], path: str, report: Report) -> None:
    """A rule: an image has its address or its Slack file, exactly one of them."""
    if "image_url" not in value and "slack_file" not in value:
        report.add(path, "an image needs either an image_url or a slack_file")
    not_together("image_url", "slack_file")(value, path, report)
