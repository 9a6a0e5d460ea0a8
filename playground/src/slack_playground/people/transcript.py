"""A conversation as plain text, as a person sees it: tests search it, and their failures print it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from slack_playground.people.markup import to_text
from slack_playground.values import Json
from slack_playground.world.workspace import Channel, User, Workspace

PICKERS = {"datepicker": "a date", "timepicker": "a time", "datetimepicker": "a date and time"}


def message_lines(message: Json, space: Workspace) -> list[str]:
    blocks = message.get("blocks") or []
    lines = block_lines(blocks, space) if blocks else _texts(to_text(message.get("text", ""), space))
    for attachment in message.get("attachments") or []:
        lines += [f"| {line}" for line in _attachment(attachment, space)]
    lines += [f"(file: {file['title'] or file['name']})" for file in message.get("files") or []]
    return lines


def block_lines(blocks: list[Json], space: Workspace, values: Json | None = None) -> list[str]:
    return [line for block in blocks for line in _block(block, space, values or {})]


def _texts(text: str) -> list[str]:
    return text.split("\n") if text else []


def _text(value: Json | None, space: Workspace) -> str:
    if not value:
        return ""
    text = str(value.get("text", ""))
    return to_text(text, space) if value.get("type") == "mrkdwn" else text


def _block(block: Json, space: Workspace, values: Json) -> Iterator[str]:
    match block["type"]:
        case "section":
            yield from _texts(_text(block.get("text"), space))
            for field in block.get("fields") or []:
                yield from _texts(_text(field, space))
            if block.get("accessory"):
                yield _element(block["accessory"], space, values)
        case "header":
            yield f"# {_text(block['text'], space)}"
        case "divider":
            yield "---"
        case "context":
            yield "  ".join(_element(element, space, values) for element in block["elements"])
        case "actions":
            yield " ".join(_element(element, space, values) for element in block["elements"])
        case "image":
            yield f"(image: {_text(block.get('title'), space) or block.get('alt_text', '')})"
        case "input":
            state = values.get(block["block_id"], {}).get(block["element"].get("action_id"), {})
            typed = next((_typed(value) for key, value in state.items() if key != "type" and value), "")
            yield f"{_text(block['label'], space)}: [{_named(typed, space)}]"
        case "markdown":
            yield from _texts(block["text"])
        case "rich_text":
            yield from _texts("\n".join(_rich(element, space) for element in block["elements"]))


def _typed(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_typed(each) for each in value)
    if isinstance(value, dict):
        option = (value.get("text") or {}).get("text") if isinstance(value.get("text"), dict) else None
        return str(option or value.get("name", value))
    return str(value)


def _named(typed: str, space: Workspace) -> str:
    """Somebody or a channel that was chosen, by name."""
    user, channel = space.users.get(typed), space.channels.get(typed)
    return f"@{user.name}" if user else f"#{channel.name or typed}" if channel else typed


def _rich(element: Json, space: Workspace) -> str:
    match element.get("type"):
        case "rich_text_list":
            return "\n".join(f"- {_rich(each, space)}" for each in element["elements"])
        case "text":
            return str(element["text"])
        case "link":
            return str(element.get("text") or element["url"])
        case "user":
            return to_text(f"<@{element['user_id']}>", space)
        case "channel":
            return to_text(f"<#{element['channel_id']}>", space)
        case "usergroup":
            return to_text(f"<!subteam^{element['usergroup_id']}>", space)
        case "broadcast":
            return f"@{element['range']}"
        case "emoji":
            return f":{element['name']}:"
    return "".join(_rich(each, space) for each in element.get("elements") or [])


def _element(element: Json, space: Workspace, values: Json) -> str:
    kind = element["type"]
    if kind in ("mrkdwn", "plain_text"):
        return _text(element, space)
    if kind == "image":
        return f"(image: {element.get('alt_text', '')})"
    if kind == "button":
        return f"[{_text(element['text'], space)}]"
    if kind in ("checkboxes", "radio_buttons"):
        return " ".join(f"( ) {_text(option['text'], space)}" for option in element["options"])
    if kind == "overflow":
        return "[⋯]"
    chosen: Json = next((v for block in values.values() for a, v in block.items() if a == element.get("action_id")), {})
    option = chosen.get("selected_option") or element.get("initial_option")
    if option:
        return f"[{_text(option['text'], space)} ▾]"
    return f"[{_text(element.get('placeholder'), space) or PICKERS.get(kind, kind)} ▾]"


def _attachment(attachment: Json, space: Workspace) -> Iterator[str]:
    for name in ("pretext", "author_name", "title", "text"):
        yield from _texts(to_text(str(attachment.get(name) or ""), space))
    for field in attachment.get("fields") or []:
        yield f"{field.get('title', '')}: {to_text(str(field.get('value', '')), space)}"
    yield from block_lines(attachment.get("blocks") or [], space)
    if attachment.get("footer"):
        yield str(attachment["footer"])


def visible(channel: Channel, viewer: User | None) -> list[Json]:
    """The messages that this user sees; without one, those that all see."""
    alone = (None, viewer.id) if viewer else (None,)
    return [message for message in channel.messages.values() if message.get("ephemeral_for") in alone]


def matching(channel: Channel, viewer: User | None, text: str, space: Workspace) -> list[Json]:
    return [m for m in visible(channel, viewer) if text in "\n".join(message_lines(m, space))]


def conversation(channel: Channel, viewer: User | None, space: Workspace) -> list[str]:
    """The whole conversation, replies under their parents."""
    name = f"#{channel.name}" if channel.name else "direct message"
    lines = [f"── {name}" + (f", as {viewer.name} sees it" if viewer else "") + " ──"]
    shown = visible(channel, viewer)
    for message in shown:
        if message.get("thread_ts", message["ts"]) != message["ts"]:
            continue
        lines += _with_author(message, space, "")
        for reply in shown:
            if reply.get("thread_ts") == message["ts"] and reply is not message:
                lines += _with_author(reply, space, "    ")
    return lines if len(lines) > 1 else [*lines, "(no messages)"]


def _with_author(message: Json, space: Workspace, indent: str) -> Iterator[str]:
    author = space.users.get(message.get("user", ""))
    name = message.get("username") or (author.real_name or author.name if author else message.get("user", "?"))
    at = time.strftime("%H:%M:%S", time.gmtime(float(message["ts"])))
    marks = " APP" if message.get("bot_id") else ""
    marks += " (only visible to this user)" if message.get("ephemeral_for") else ""
    marks += " (edited)" if message.get("edited") else ""
    yield f"{indent}{name}{marks}  {at}"
    for line in message_lines(message, space):
        yield f"{indent}    {line}"
    reactions = [f":{r['name']}: {r['count']}" for r in message.get("reactions") or []]
    if reactions:
        yield f"{indent}    {' '.join(reactions)}"


def view_lines(view: Json, space: Workspace) -> list[str]:
    title = f"── {'modal' if view['type'] == 'modal' else 'Home'}: {_text(view.get('title'), space)} ──"
    lines = [title, *(f"    {line}" for line in block_lines(view["blocks"], space, view["state"]["values"]))]
    lines += [f"    ! {words}" for words in (view.get("errors") or {}).values()]
    buttons = [f"[{_text(view[name], space)}]" for name in ("close", "submit") if view.get(name)]
    return [*lines, *([f"    {' '.join(buttons)}"] if buttons else [])]
