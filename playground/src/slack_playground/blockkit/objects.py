"""The composition objects: texts, options, confirm dialogs, filters, files and the like."""

from __future__ import annotations

from slack_playground.blockkit.kinds import FLAG, Choice, Kind, ListOf, Needed, OneOf, Shape, String, one_of, url


def _text(tag: str, extra: str, most: int) -> Shape:
    text = Needed(String(most=most, least=1, counted=True))
    return Shape(f"a {tag} object", {"text": text, extra: FLAG}, tag=tag)


def plain(most: int) -> Shape:
    return _text("plain_text", "emoji", most)


def mrkdwn(most: int) -> Shape:
    return _text("mrkdwn", "verbatim", most)


def any_text(most: int) -> OneOf:
    return one_of("a text object", plain(most), mrkdwn(most))


CONFIRM = Shape(
    "a confirm dialog",
    {
        "title": Needed(plain(100)),
        "text": Needed(any_text(300)),
        "confirm": Needed(plain(30)),
        "deny": Needed(plain(30)),
        "style": Choice("primary", "danger"),
    },
)


def _option(text: Kind, **more: Kind) -> Shape:
    return Shape("an option", {"text": Needed(text), "value": Needed(String(most=150)), "description": text, **more})


OPTION = _option(plain(75))
RICH_OPTION = _option(any_text(75))  # of checkboxes and radio buttons
LINK_OPTION = _option(plain(75), url=url(web=False))  # of an overflow menu

OPTION_GROUP = Shape(
    "an option group",
    {"label": Needed(plain(75)), "options": Needed(ListOf(OPTION, least=1, most=100))},
)

FILTER = Shape(
    "a conversation filter",
    {
        "include": ListOf(Choice("im", "mpim", "private", "public"), least=1),
        "exclude_external_shared_channels": FLAG,
        "exclude_bot_users": FLAG,
    },
)

DISPATCH = Shape(
    "a dispatch configuration",
    {"trigger_actions_on": ListOf(Choice("on_enter_pressed", "on_character_entered"), least=1)},
)


IMAGE_FIELDS: dict[str, Kind | Needed] = {"image_url": Needed(url()), "alt_text": Needed(String(most=2000))}
