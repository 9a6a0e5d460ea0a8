"""Mistakes in Block Kit by name: a whole payload, and the place where the checker must point."""

from __future__ import annotations

from typing import Any

from playground.tests.support.blockkit_samples import (
    BLOCKS,
    CHECKED,
    CONFIRM,
    IMAGE,
    Json,
    actions,
    button,
    field,
    line,
    message,
    modal,
    mrkdwn,
    option,
    options,
    piece,
    plain,
    rich,
)

Mistake = tuple[Json, str]

STATIC: Json = {"type": "static_select", "action_id": "x"}
SECTION: Json = {"type": "section", "text": mrkdwn()}


def in_actions(element: Json, path: str) -> Mistake:
    return message(actions(element)), f"blocks[0].elements[0]{path}"


def in_field(element: Json, path: str) -> Mistake:
    return modal(field(element)), f"blocks[0].element{path}"


def in_block(block: Json, path: str) -> Mistake:
    return message(block), f"blocks[0]{path}"


def in_option(path: str, **more: Any) -> Mistake:
    return in_actions({**STATIC, "options": [{**option(), **more}]}, f".options[0]{path}")


def in_confirm(path: str, **more: Any) -> Mistake:
    return in_actions(button(confirm={**CONFIRM, **more}), f".confirm{path}")


def in_view(path: str, **more: Any) -> Mistake:
    return {**modal(SECTION), **more}, path


def without(whole: Json, key: str) -> Json:
    return {name: value for name, value in whole.items() if name != key}


LIMITS: dict[str, Mistake] = {
    "a text that is empty": in_block({"type": "section", "text": mrkdwn("")}, ".text.text"),
    "a text that is too long": in_block({"type": "section", "text": mrkdwn("x" * 3001)}, ".text.text"),
    "an action_id that is too long": in_actions(button(action_id="x" * 256), ".action_id"),
    "a button's text that is too long": in_actions({**button(), "text": plain("x" * 76)}, ".text.text"),
    "a button's url that is too long": in_actions(button(url="https://" + "x" * 3000), ".url"),
    "a button's value that is too long": in_actions(button(value="x" * 2001), ".value"),
    "a button's label that is too long": in_actions(button(accessibility_label="x" * 76), ".accessibility_label"),
    "a confirm title that is too long": in_confirm(".title.text", title=plain("x" * 101)),
    "a confirm text that is too long": in_confirm(".text.text", text=mrkdwn("x" * 301)),
    "a confirm button that is too long": in_confirm(".confirm.text", confirm=plain("x" * 31)),
    "a deny button that is too long": in_confirm(".deny.text", deny=plain("x" * 31)),
    "an option's text that is too long": in_option(".text.text", text=plain("x" * 76)),
    "an option's value that is too long": in_option(".value", value="x" * 151),
    "an option's description that is too long": in_option(".description.text", description=plain("x" * 76)),
    "an option's url that is too long": in_actions(
        {"type": "overflow", "options": [option(url="https://" + "\N{GRINNING FACE}" * 3000)]}, ".options[0].url"
    ),
    "a group's label that is too long": in_actions(
        {**STATIC, "option_groups": [{"label": plain("x" * 76), "options": options()}]}, ".option_groups[0].label.text"
    ),
    "a group that is empty": in_actions(
        {**STATIC, "option_groups": [{"label": plain(), "options": []}]}, ".option_groups[0].options"
    ),
    "a group of too many": in_actions(
        {**STATIC, "option_groups": [{"label": plain(), "options": options(101)}]}, ".option_groups[0].options"
    ),
    "a placeholder that is too long": in_actions(
        {**STATIC, "options": options(), "placeholder": plain("x" * 151)}, ".placeholder.text"
    ),
    "too many options": in_actions({**STATIC, "options": options(101)}, ".options"),
    "too many groups": in_actions(
        {**STATIC, "option_groups": [{"label": plain(), "options": options(1)}] * 101}, ".option_groups"
    ),
    "an overflow menu that is empty": in_actions({"type": "overflow", "options": []}, ".options"),
    "an overflow menu of six": in_actions({"type": "overflow", "options": options(6)}, ".options"),
    "checkboxes that are none": in_actions({"type": "checkboxes", "options": []}, ".options"),
    "checkboxes that are eleven": in_actions({"type": "checkboxes", "options": options(11)}, ".options"),
    "radio buttons that are none": in_actions({"type": "radio_buttons", "options": []}, ".options"),
    "radio buttons that are eleven": in_actions({"type": "radio_buttons", "options": options(11)}, ".options"),
    "a text field of too much": in_field({"type": "plain_text_input", "max_length": 3001}, ".max_length"),
    "too many actions": (
        message(actions(*[button(action_id=f"a{n}") for n in range(26)])),
        "blocks[0].elements",
    ),
    "too much context": in_block({"type": "context", "elements": [mrkdwn()] * 11}, ".elements"),
    "a header that is too long": in_block({"type": "header", "text": plain("x" * 151)}, ".text.text"),
    "an image's address that is too long": in_block({**IMAGE, "image_url": "https://" + "x" * 3000}, ".image_url"),
    "an image's words that are too long": in_block({**IMAGE, "alt_text": "x" * 2001}, ".alt_text"),
    "a label that is too long": (
        modal({**field({"type": "plain_text_input"}), "label": plain("x" * 2001)}),
        "blocks[0].label.text",
    ),
    "a hint that is too long": (
        modal(field({"type": "plain_text_input"}, hint=plain("x" * 2001))),
        "blocks[0].hint.text",
    ),
    "markdown that is empty": in_block({"type": "markdown", "text": ""}, ".text"),
    "markdown that is too long": in_block({"type": "markdown", "text": "x" * 12_001}, ".text"),
    "too many fields": in_block({"type": "section", "fields": [mrkdwn()] * 11}, ".fields"),
    "a field that is too long": in_block({"type": "section", "fields": [mrkdwn("x" * 2001)]}, ".fields[0].text"),
    "a view of no blocks": in_view("blocks", blocks=[]),
    "a view of too many blocks": in_view("blocks", blocks=[{"type": "divider"}] * 101),
    "private metadata that is too long": in_view("private_metadata", private_metadata="x" * 3001),
    "a callback_id that is too long": in_view("callback_id", callback_id="x" * 256),
    "a modal's title that is too long": in_view("title.text", title=plain("x" * 25)),
    "a close button that is too long": in_view("close.text", close=plain("x" * 25)),
    "a submit button that is too long": in_view("submit.text", submit=plain("x" * 25)),
    "a block_id that is too long": in_block({"type": "divider", "block_id": "x" * 256}, ".block_id"),
    "a message of 51 blocks": (message(*[{"type": "divider"}] * 51), "blocks"),
    "an attachment's footer that is too long": (
        {"attachments": [{"text": "x", "footer": "x" * 301}]},
        "attachments[0].footer",
    ),
}

USE: dict[str, Mistake] = {
    "a section of nothing": in_block({"type": "section"}, ""),
    "options and groups together": in_actions(
        {**STATIC, "options": options(), "option_groups": [{"label": plain(), "options": options()}]}, ".option_groups"
    ),
    "neither options nor groups": in_actions(STATIC, ".options"),
    "a button in a context": in_block({"type": "context", "elements": [button()]}, ".elements[0].type"),
    "a button in an input": in_field(button(), ".type"),
    "a text field in actions": in_actions({"type": "plain_text_input"}, ".type"),
    "a submit button that waits": (modal(SECTION, submit_disabled=True), "submit_disabled"),
    "markdown in a home tab": ({"type": "home", "blocks": [BLOCKS["markdown"]]}, "blocks[0]"),
    "a block of no type": in_block({"text": plain()}, ".type"),
    "a block of an unknown type": in_block({"type": "sektion", "text": plain()}, ".type"),
    "a block whose type is a list": in_block({"type": ["section"]}, ".type"),
    "a block that is a text": ({"blocks": ["section"]}, "blocks[0]"),
    "blocks that are an object": ({"blocks": {"type": "section"}}, "blocks"),
    "an unknown field": in_block({**SECTION, "colour": "red"}, ".colour"),
    "mrkdwn in a header": in_block({"type": "header", "text": mrkdwn()}, ".text.type"),
    "mrkdwn in a button": in_actions({**button(), "text": mrkdwn()}, ".text.type"),
    "mrkdwn in a menu's option": in_option(".text.type", text=mrkdwn()),
    "a link on a menu's option": in_option(".url", url="https://a.example/"),
    "emoji in mrkdwn": in_block({"type": "section", "text": {**mrkdwn(), "emoji": True}}, ".text.emoji"),
    "a text object that is a text": in_block({"type": "section", "text": "words"}, ".text"),
    "an unknown style": in_actions(button(style="warning"), ".style"),
    "an address of no scheme": in_block({**IMAGE, "image_url": "pictures/a.png"}, ".image_url"),
    "an address that runs": in_block({**IMAGE, "image_url": "javascript:alert(1)"}, ".image_url"),
    "a missing text": in_actions(without(button(), "text"), ".text"),
    "a missing alt_text": in_block(without(IMAGE, "alt_text"), ".alt_text"),
    "a missing confirm title": in_actions(button(confirm=without(CONFIRM, "title")), ".confirm.title"),
    "a first choice that is not offered": in_actions(
        {**STATIC, "options": options(), "initial_option": option("Other")}, ".initial_option"
    ),
    "a first check that is not offered": in_actions(
        {"type": "checkboxes", "options": CHECKED, "initial_options": [option("Other")]}, ".initial_options[0]"
    ),
    "a day that is none": in_actions({"type": "datepicker", "initial_date": "2026-02-32"}, ".initial_date"),
    "a time that is none": in_actions({"type": "timepicker", "initial_time": "24:00"}, ".initial_time"),
    "a moment in milliseconds": in_actions(
        {"type": "datetimepicker", "initial_date_time": 1_700_000_000_000}, ".initial_date_time"
    ),
    "the same block_id twice": (
        message({**SECTION, "block_id": "a"}, {"type": "divider", "block_id": "a"}),
        "blocks[1].block_id",
    ),
    "the same action_id twice": (message(actions(button(), button())), "blocks[0].elements[1].action_id"),
    "rich text in a quote": in_block(
        rich({"type": "rich_text_quote", "elements": [line(piece())]}), ".elements[0].elements[0].type"
    ),
    "a list without a style": in_block(
        rich({"type": "rich_text_list", "elements": [line(piece())]}), ".elements[0].style"
    ),
    "a broadcast to nobody": in_block(
        rich(line({"type": "broadcast", "range": "all"})), ".elements[0].elements[0].range"
    ),
    "a modal without submit": (without(modal(field({"type": "plain_text_input"})), "submit"), "submit"),
    "a modal without title": (without(modal(SECTION), "title"), "title"),
    "a home tab with a title": ({"type": "home", "blocks": [SECTION], "title": plain()}, "title"),
    "a view of another type": ({"type": "sheet", "blocks": [SECTION]}, "type"),
    "an unknown field of an attachment": ({"attachments": [{"txt": "x"}]}, "attachments[0].txt"),
    "an attachment of no known colour": ({"attachments": [{"text": "x", "color": "reddish"}]}, "attachments[0].color"),
    "a mistake in an attachment's blocks": (
        {"attachments": [{"blocks": [SECTION, {"type": "header", "text": mrkdwn()}]}]},
        "attachments[0].blocks[1].text.type",
    ),
}

ALL = {**LIMITS, **USE}
