"""Interactive elements: where they are in blocks, what state a person's choice gives them, and what they start with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slack_playground.values import Json, PlaygroundError
from slack_playground.world.workspace import Channel, Workspace

ONE_OPTION = ("static_select", "external_select", "radio_buttons", "overflow")
MANY_OPTIONS = ("multi_static_select", "multi_external_select", "checkboxes")
TEXTS = ("plain_text_input", "email_text_input", "url_text_input", "number_input")
COLORS = {"good": "2eb886", "warning": "daa038", "danger": "a30200"}
WITHOUT_STATE = ("button", "overflow", "image")
CLICKED = ("button", "overflow", "checkboxes", "radio_buttons")


@dataclass(frozen=True)
class Found:
    block: Json
    element: Json


def walk(blocks: list[Json]) -> Iterator[Found]:
    """Every interactive element, in reading order."""
    for block in blocks:
        for element in _inside(block):
            yield Found(block, element)


def _inside(value: object) -> Iterator[Json]:
    if isinstance(value, dict):
        if "action_id" in value and "type" in value:
            yield value
        for inner in value.values():
            yield from _inside(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _inside(inner)


def fill_ids(blocks: list[Json], fresh: Callable[[], str]) -> None:
    """Give what has no id one, as Slack does."""
    for block in blocks:
        block.setdefault("block_id", fresh())
        _fill(block, fresh)


def _fill(value: object, fresh: Callable[[], str]) -> None:
    if isinstance(value, dict):
        kind = value.get("type", "")
        if kind in CLICKED or kind.endswith(("_select", "picker", "_input")):
            value.setdefault("action_id", fresh())
        for inner in value.values():
            _fill(inner, fresh)
    elif isinstance(value, list):
        for inner in value:
            _fill(inner, fresh)


def message_blocks(message: Json) -> list[Json]:
    attached = [block for item in message.get("attachments") or [] for block in item.get("blocks") or []]
    return [*(message.get("blocks") or []), *attached]


def settle_attachments(message: Json) -> None:
    """Give attachments what Slack adds when it stores them: a number, a color without `#`, and a fallback."""
    for number, attachment in enumerate(message.get("attachments") or [], start=1):
        attachment["id"] = number
        color = attachment.get("color")
        if color:
            attachment["color"] = COLORS.get(color, color.removeprefix("#"))
        attachment.setdefault("fallback", attachment.get("text") or "[no preview available]")


def attachment_of(message: Json, block: Json) -> int | None:
    """The number of the attachment that holds this very block; None for a block of the message itself."""
    for attachment in message.get("attachments") or []:
        if any(each is block for each in attachment.get("blocks") or []):
            return int(attachment["id"])
    return None


def options(element: Json) -> list[Json]:
    groups = element.get("option_groups") or []
    return [*(element.get("options") or []), *(option for group in groups for option in group.get("options") or [])]


def start(element: Json) -> Json | None:
    """The state before anybody touched it; nothing for what has none."""
    kind = element["type"]
    if kind in WITHOUT_STATE:
        return None
    if kind in ONE_OPTION:
        return {"type": kind, "selected_option": element.get("initial_option")}
    if kind in MANY_OPTIONS:
        return {"type": kind, "selected_options": element.get("initial_options") or []}
    if kind in TEXTS:
        return {"type": kind, "value": element.get("initial_value")}
    key, initial = _KEYS[kind]
    return {"type": kind, key: element.get(initial) or ([] if kind.startswith("multi_") else None)}


def current(element: Json, workspace: Workspace, channel_id: str) -> Json | None:
    """The state of a menu of conversations that begins with the one that is looked at; None where that is not in it."""
    channel = workspace.channels.get(channel_id)
    if channel is None or not offers(element, channel, workspace):
        return None
    several = element["type"].startswith("multi_")
    chosen = [channel.id] if several else channel.id
    return {"type": element["type"], _KEYS[element["type"]][0]: chosen}


def offers(element: Json, channel: Channel, workspace: Workspace) -> bool:
    """True if a menu of conversations offers this one, by its filter."""
    asked = element.get("filter") or {}
    if asked.get("include") and channel.kind not in asked["include"]:
        return False
    bots = {user.id for user in workspace.users.values() if user.is_bot}
    return not (asked.get("exclude_bot_users") and channel.kind == "im" and bots & set(channel.members))


_KEYS = {
    "users_select": ("selected_user", "initial_user"),
    "conversations_select": ("selected_conversation", "initial_conversation"),
    "channels_select": ("selected_channel", "initial_channel"),
    "multi_users_select": ("selected_users", "initial_users"),
    "multi_conversations_select": ("selected_conversations", "initial_conversations"),
    "multi_channels_select": ("selected_channels", "initial_channels"),
    "datepicker": ("selected_date", "initial_date"),
    "timepicker": ("selected_time", "initial_time"),
    "datetimepicker": ("selected_date_time", "initial_date_time"),
}
_FORMS = {"datepicker": r"\d{4}-\d\d-\d\d", "timepicker": r"[0-2]\d:[0-5]\d"}


def state(element: Json, value: object, workspace: Workspace) -> Json:
    """The state after a person chose this value."""
    kind = element["type"]
    if kind in ONE_OPTION:
        return {"type": kind, "selected_option": None if value is None else _option(element, value)}
    if kind in MANY_OPTIONS:
        return {"type": kind, "selected_options": [_option(element, each) for each in _list(value)]}
    if kind in TEXTS:
        return {"type": kind, "value": None if value in (None, "") else str(value)}
    if kind == "button":
        return {"type": kind}
    key = _KEYS[kind][0]
    if kind.startswith("multi_"):
        return {"type": kind, key: [_id(kind, each, workspace) for each in _list(value)]}
    if value is not None and kind in ("users_select", "conversations_select", "channels_select"):
        value = _id(kind, value, workspace)
    form = _FORMS.get(kind)
    if form and value is not None and not re.fullmatch(form, str(value)):
        raise PlaygroundError("bad_value", f"{value!r} isn't a value of a {kind}.")
    if kind == "datetimepicker" and value is not None:
        value = int(str(value))
    return {"type": kind, key: value}


def is_empty(state: Json) -> bool:
    return not any(value for key, value in state.items() if key != "type")


def _list(value: object) -> list[object]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _option(element: Json, value: object) -> Json:
    if isinstance(value, dict) and element["type"].endswith("external_select"):
        return value
    wanted = value.get("value") if isinstance(value, dict) else value
    known = options(element)
    for option in known:
        if wanted in (option.get("value"), option["text"]["text"]):
            return option
    if element["type"].endswith("external_select"):
        return {"text": {"type": "plain_text", "text": str(wanted), "emoji": True}, "value": str(wanted)}
    offered = ", ".join(repr(option.get("value")) for option in known)
    raise PlaygroundError("no_such_option", f"There is no option {wanted!r}; there are {offered}.")


def _id(kind: str, value: object, workspace: Workspace) -> str:
    if "users" in kind:
        return workspace.user(value).id
    user = workspace.find_user(value) if "conversations" in kind else None
    return user.id if user else workspace.channel(value).id
