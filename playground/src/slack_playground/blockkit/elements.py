"""The elements: what people press, choose and fill in, and the pictures beside them."""

from __future__ import annotations

from collections.abc import Mapping

from slack_playground.blockkit.kinds import (
    FLAG,
    IDENTIFIER,
    Choice,
    Kind,
    ListOf,
    Needed,
    Number,
    Rule,
    Shape,
    String,
    join,
    not_together,
    one_of,
    url,
)
from slack_playground.blockkit.objects import (
    CONFIRM,
    DISPATCH,
    FILTER,
    IMAGE_FIELDS,
    LINK_OPTION,
    OPTION,
    OPTION_GROUP,
    RICH_OPTION,
    plain,
)
from slack_playground.blockkit.problems import Report

_DATE = String(pattern=r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", form="a date such as 2026-02-05")
_CLOCK = String(pattern=r"([01]\d|2[0-3]):[0-5]\d", form="a time such as 09:30")
_DECIMAL = String(pattern=r"-?\d{1,30}(\.\d{1,30})?", form="a number as text, such as '3'")
_STYLE = Choice("primary", "danger")
_PLACEHOLDER = plain(150)


def _element(
    name: str,
    tag: str,
    fields: Mapping[str, Kind | Needed],
    *rules: Rule,
    confirm: bool = True,
    focus: bool = False,
) -> Shape:
    """An interactive element: what is its own, and what nearly all of them have."""
    known: dict[str, Kind | Needed] = {"action_id": IDENTIFIER, **fields}
    if confirm:
        known["confirm"] = CONFIRM
    if focus:
        known["focus_on_load"] = FLAG
    return Shape(name, known, tag=tag, rules=rules)


def _offered(value: Mapping[str, object]) -> list[object]:
    offered: list[object] = []
    options, groups = value.get("options"), value.get("option_groups")
    if isinstance(options, (list, tuple)):
        offered.extend(options)
    if isinstance(groups, (list, tuple)):
        for group in groups:
            inner = group.get("options") if isinstance(group, Mapping) else None
            offered.extend(inner if isinstance(inner, (list, tuple)) else ())
    return offered


def _initial_offered(value: Mapping[str, object], path: str, report: Report) -> None:
    """The initial choice must be one of the options, exactly as it is listed."""
    offered = _offered(value)
    if "initial_option" in value and value["initial_option"] not in offered:
        report.add(join(path, "initial_option"), "must be equal to one of the options")
    chosen = value.get("initial_options")
    if isinstance(chosen, (list, tuple)):
        for index, each in enumerate(chosen):
            if each not in offered:
                where = f"{join(path, 'initial_options')}[{index}]"
                report.add(where, "must be equal to one of the options")


def _choices_given(value: Mapping[str, object], path: str, report: Report) -> None:
    if "options" not in value and "option_groups" not in value:
        report.add(join(path, "options"), "a static menu needs options or option_groups")
    not_together("options", "option_groups")(value, path, report)


BUTTON = _element(
    "a button",
    "button",
    {
        "text": Needed(plain(75)),
        "url": url(web=False),
        "value": String(most=2000),
        "style": _STYLE,
        "accessibility_label": String(most=75),
        "visible_to_user_ids": ListOf(IDENTIFIER, most=10),
    },
)
CHECKBOXES = _element(
    "a group of checkboxes",
    "checkboxes",
    {
        "options": Needed(ListOf(RICH_OPTION, least=1, most=10)),
        "initial_options": ListOf(RICH_OPTION, least=1, most=10),
    },
    _initial_offered,
    focus=True,
)
RADIO_BUTTONS = _element(
    "a group of radio buttons",
    "radio_buttons",
    {"options": Needed(ListOf(RICH_OPTION, least=1, most=10)), "initial_option": RICH_OPTION},
    _initial_offered,
    focus=True,
)
OVERFLOW = _element("an overflow menu", "overflow", {"options": Needed(ListOf(LINK_OPTION, least=1, most=5))})
DATEPICKER = _element(
    "a date picker",
    "datepicker",
    {"initial_date": _DATE, "placeholder": _PLACEHOLDER},
    focus=True,
)
TIMEPICKER = _element(
    "a time picker",
    "timepicker",
    {"initial_time": _CLOCK, "placeholder": _PLACEHOLDER, "timezone": String(least=1, most=100)},
    focus=True,
)
DATETIMEPICKER = _element(
    "a date and time picker",
    "datetimepicker",
    {"initial_date_time": Number(least=1_000_000_000, most=9_999_999_999)},
    focus=True,
)


def _select(kind: str, one: str, initial: Kind, *rules: Rule, extra: Mapping[str, Kind] | None = None) -> list[Shape]:
    """A menu for one choice and its twin for several: `static_select` and `multi_static_select`."""
    common: dict[str, Kind | Needed] = {"placeholder": _PLACEHOLDER, **(extra or {})}
    single: dict[str, Kind | Needed] = {**common, one: initial}
    if kind in ("conversations", "channels"):
        single["response_url_enabled"] = FLAG
    several = {**common, f"{one}s": ListOf(initial, least=1), "max_selected_items": Number(least=1)}
    return [
        _element(f"a {kind} menu", f"{kind}_select", single, *rules, focus=True),
        _element(f"a {kind} multi-select menu", f"multi_{kind}_select", several, *rules, focus=True),
    ]


_STATIC = _select(
    "static",
    "initial_option",
    OPTION,
    _choices_given,
    _initial_offered,
    extra={"options": ListOf(OPTION, least=1, most=100), "option_groups": ListOf(OPTION_GROUP, least=1, most=100)},
)
_EXTERNAL = _select("external", "initial_option", OPTION, extra={"min_query_length": Number(least=0)})
_USERS = _select("users", "initial_user", IDENTIFIER)
_CHANNELS = _select("channels", "initial_channel", IDENTIFIER)
_CONVERSATIONS = _select(
    "conversations",
    "initial_conversation",
    IDENTIFIER,
    extra={"default_to_current_conversation": FLAG, "filter": FILTER},
)
SELECTS = (_STATIC[0], _EXTERNAL[0], _USERS[0], _CHANNELS[0], _CONVERSATIONS[0])
MULTI_SELECTS = (_STATIC[1], _EXTERNAL[1], _USERS[1], _CHANNELS[1], _CONVERSATIONS[1])

IMAGE = Shape("an image", IMAGE_FIELDS, tag="image")


def _typed(name: str, tag: str, fields: Mapping[str, Kind | Needed]) -> Shape:
    """A field that people type into."""
    known = {"placeholder": _PLACEHOLDER, "dispatch_action_config": DISPATCH, **fields}
    return _element(name, tag, known, confirm=False, focus=True)


PLAIN_TEXT_INPUT = _typed(
    "a text field",
    "plain_text_input",
    {
        "initial_value": String(most=3000),
        "multiline": FLAG,
        "min_length": Number(least=0, most=3000),
        "max_length": Number(least=1, most=3000),
    },
)
EMAIL_INPUT = _typed("an email input", "email_text_input", {"initial_value": String(most=3000)})
URL_INPUT = _typed("a URL input", "url_text_input", {"initial_value": String(most=3000)})
NUMBER_INPUT = _typed(
    "a number input",
    "number_input",
    {
        "is_decimal_allowed": Needed(FLAG),
        "initial_value": _DECIMAL,
        "min_value": _DECIMAL,
        "max_value": _DECIMAL,
    },
)
_ANYWHERE = (*SELECTS, *MULTI_SELECTS, CHECKBOXES, RADIO_BUTTONS, DATEPICKER, TIMEPICKER)

IN_SECTION = one_of("the accessory of a section", *_ANYWHERE, BUTTON, OVERFLOW, IMAGE)
IN_ACTIONS = one_of("an element of an actions block", *_ANYWHERE, DATETIMEPICKER, BUTTON, OVERFLOW)
IN_INPUT = one_of(
    "the element of an input block",
    *_ANYWHERE,
    DATETIMEPICKER,
    PLAIN_TEXT_INPUT,
    EMAIL_INPUT,
    URL_INPUT,
    NUMBER_INPUT,
)
