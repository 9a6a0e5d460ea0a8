"""Samples of Block Kit, valid ones by name, each as a whole payload: what the checker accepts and the page draws."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def plain(text: str = "Words") -> Json:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str = "*Words*") -> Json:
    return {"type": "mrkdwn", "text": text}


def option(name: str = "One", **more: Any) -> Json:
    return {"text": plain(name), "value": name.lower(), **more}


def options(count: int = 3) -> list[Json]:
    return [option(f"Choice {number}") for number in range(1, count + 1)]


def button(**more: Any) -> Json:
    return {"type": "button", "text": plain("Press"), "action_id": "press", **more}


def line(*pieces: Json) -> Json:
    return {"type": "rich_text_section", "elements": list(pieces)}


def rich(*paragraphs: Json) -> Json:
    return {"type": "rich_text", "elements": list(paragraphs)}


def piece(text: str = "words", **more: Any) -> Json:
    return {"type": "text", "text": text, **more}


def message(*blocks: Json) -> Json:
    return {"text": "A sample", "blocks": list(blocks)}


def modal(*blocks: Json, **more: Any) -> Json:
    return {"type": "modal", "title": plain("A form"), "submit": plain("Send"), "blocks": list(blocks), **more}


def field(element: Json, **more: Any) -> Json:
    return {"type": "input", "block_id": "b", "label": plain("A field"), "element": element, **more}


def actions(*elements: Json) -> Json:
    return {"type": "actions", "block_id": "a", "elements": list(elements)}


CONFIRM: Json = {
    "title": plain("Sure?"),
    "text": mrkdwn("It *restarts*."),
    "confirm": plain("Yes"),
    "deny": plain("No"),
}
IMAGE: Json = {"type": "image", "image_url": "https://pictures.example/a.png", "alt_text": "A picture"}
MENTION_STYLE = {"bold": True, "strike": True, "highlight": True, "client_highlight": True, "unlink": False}

BLOCKS: dict[str, Json] = {
    "section": {"type": "section", "block_id": "s", "text": mrkdwn("Hello, *world*")},
    "section with fields": {"type": "section", "fields": [mrkdwn("*State:*\nup"), plain("plain"), mrkdwn("_x_")]},
    "section with both": {"type": "section", "text": mrkdwn(), "fields": [{**plain(), "emoji": True}]},
    "section with a button": {
        "type": "section",
        "text": mrkdwn(),
        "accessory": button(style="danger", confirm=CONFIRM),
    },
    "section with a picture": {"type": "section", "text": mrkdwn(), "accessory": IMAGE},
    "section as typed": {"type": "section", "text": {**mrkdwn("a & b"), "verbatim": True}},
    "header": {"type": "header", "text": plain("A title")},
    "header at its limit": {"type": "header", "text": plain("x" * 150)},
    "header of emoji at its limit": {"type": "header", "text": plain("\N{GRINNING FACE}" * 150)},
    "divider": {"type": "divider"},
    "context": {"type": "context", "elements": [mrkdwn("small"), IMAGE, plain()]},
    "image": {**IMAGE, "title": plain("Its title")},
    "image titled with a space": {**IMAGE, "title": plain(" ")},
    "markdown": {"type": "markdown", "text": "**bold**, _slanted_\n\n- a\n- b\n\n```\ncode\n```"},
    "rich text": rich(
        line(piece("bold", style={"bold": True}), piece(" and struck", style={"strike": True})),
        {"type": "rich_text_list", "style": "bullet", "indent": 0, "border": 1, "elements": [line(piece("one"))]},
        {"type": "rich_text_list", "style": "ordered", "indent": 1, "offset": 2, "elements": [line(piece("two"))]},
        {"type": "rich_text_preformatted", "border": 0, "elements": [piece("\ndef f():\n    return 1")]},
        {"type": "rich_text_quote", "border": 1, "elements": [piece("quoted")]},
    ),
    "rich text of everything": rich(
        line(
            {"type": "user", "user_id": "U0ALICE", "style": MENTION_STYLE},
            {"type": "usergroup", "usergroup_id": "S0OPS", "style": MENTION_STYLE},
            {"type": "channel", "channel_id": "C0OPS", "style": MENTION_STYLE},
            {"type": "emoji", "name": "wave"},
            {"type": "link", "url": "https://a.example/", "text": "a", "unsafe": False, "style": {"code": True}},
            {"type": "broadcast", "range": "here"},
            {"type": "color", "value": "#2eb886"},
            {"type": "date", "timestamp": 1_700_000_000, "format": "{date}", "fallback": "then"},
        )
    ),
}

CHECKED = [{"text": mrkdwn("*a*"), "value": "a", "description": plain("first")}, {"text": mrkdwn("b"), "value": "b"}]
MENUS: dict[str, Json] = {
    "static": {"type": "static_select", "placeholder": plain("Pick"), "options": options(), "action_id": "x"},
    "static in groups": {
        "type": "static_select",
        "action_id": "x",
        "option_groups": [{"label": plain("Group"), "options": options()}],
        "initial_option": option("Choice 2"),
    },
    "external": {"type": "external_select", "placeholder": plain("Pick"), "min_query_length": 4, "action_id": "x"},
    "users": {"type": "users_select", "placeholder": plain("Pick"), "action_id": "x"},
    "channels": {"type": "channels_select", "placeholder": plain("Pick"), "action_id": "x"},
    "conversations": {
        "type": "conversations_select",
        "action_id": "x",
        "filter": {"include": ["public", "mpim"], "exclude_bot_users": True},
    },
    "several static": {"type": "multi_static_select", "options": options(), "action_id": "x", "max_selected_items": 2},
    "several external": {"type": "multi_external_select", "min_query_length": 3, "action_id": "x"},
    "several users": {"type": "multi_users_select", "initial_users": ["U0ALICE", "U0BOB"], "action_id": "x"},
    "several channels": {"type": "multi_channels_select", "action_id": "x"},
    "several conversations": {"type": "multi_conversations_select", "action_id": "x"},
    "checkboxes": {"type": "checkboxes", "options": CHECKED, "initial_options": CHECKED[:1], "action_id": "x"},
    "radio buttons": {"type": "radio_buttons", "options": options(), "initial_option": options()[0], "action_id": "x"},
    "date": {"type": "datepicker", "initial_date": "1970-01-01", "placeholder": plain(), "action_id": "x"},
    "time": {"type": "timepicker", "initial_time": "12:00", "timezone": "Europe/Berlin", "action_id": "x"},
    "date and time": {"type": "datetimepicker", "initial_date_time": 1_628_633_830, "action_id": "x"},
}
PRESSED: dict[str, Json] = {
    "button": button(value="1"),
    "primary button": button(style="primary", accessibility_label="Press to start"),
    "link button": button(url="https://a.example/"),
    "button at its limit": {**button(), "text": plain("x" * 75)},
    "button with a confirm dialog": button(confirm=CONFIRM),
    "overflow": {"type": "overflow", "action_id": "o", "options": [option(), option("Two", url="https://a.example/")]},
}
TYPED: dict[str, Json] = {
    "text": {"type": "plain_text_input", "placeholder": plain("Type"), "action_id": "x"},
    "text that acts": {
        "type": "plain_text_input",
        "action_id": "x",
        "dispatch_action_config": {"trigger_actions_on": ["on_character_entered"]},
        "min_length": 2,
        "max_length": 3000,
        "multiline": True,
    },
    "email": {"type": "email_text_input", "placeholder": plain("Type"), "action_id": "x"},
    "address": {"type": "url_text_input", "action_id": "x"},
    "number": {
        "type": "number_input",
        "is_decimal_allowed": False,
        "action_id": "x",
        "min_value": "1",
        "max_value": "9",
    },
}

_SECTION = BLOCKS["section"]

MESSAGES: dict[str, Json] = {
    **{f"block: {name}": message(block) for name, block in BLOCKS.items()},
    **{f"in actions: {name}": message(actions(element)) for name, element in {**MENUS, **PRESSED}.items()},
    "an input": message(field(TYPED["text"])),
    "text alone": {"text": "Hello"},
    "markdown text alone": {"markdown_text": "**Hello**"},
    "blocks and an empty text": {"channel": "#ops", "mrkdwn": True, "blocks": [_SECTION], "text": ""},
    "attachment alone": {"text": "", "attachments": [{"blocks": [_SECTION], "color": "#8800ff", "fallback": "f"}]},
    "legacy attachment": {
        "attachments": [
            {"title": "t", "text": "x", "footer": "f", "ts": 1, "fields": [{"title": "a", "value": "b", "short": True}]}
        ]
    },
    "the same block_id in blocks and in an attachment": {"blocks": [_SECTION], "attachments": [{"blocks": [_SECTION]}]},
    "metadata": {"text": "x", "metadata": {"event_type": "run", "event_payload": {"id": 1}}},
    "metadata taken away": {"text": "x", "metadata": {}},
    "answer by response_url": {
        "blocks": [_SECTION, _SECTION],
        "response_type": "ephemeral",
        "replace_original": True,
        "metadata": {"from": "here"},
    },
    "deletion by response_url": {"delete_original": True},
}
VIEWS: dict[str, Json] = {
    "modal": modal(_SECTION, {"type": "divider", "block_id": "2"}, close=plain("Close")),
    "home": {"type": "home", "blocks": [_SECTION]},
    "input with a hint": modal(field(TYPED["text"], hint=plain("Any"), optional=True)),
    **{f"input: {name}": modal(field(element)) for name, element in {**MENUS, **TYPED}.items()},
}
