"""The blocks that Slack makes of a message's text, as bots read them in events and in a conversation's history."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from slack_playground.values import Json

STYLES = {"*": "bold", "_": "italic", "~": "strike", "`": "code"}
BULLET = "• "
FENCE = re.compile(r"```\n?(.+?)\n?```", re.DOTALL)
MARKUP = re.compile(
    r"<@(?P<user>[UW][A-Z0-9]+)(?:\|[^>]*)?>"
    r"|<#(?P<channel>[CGD][A-Z0-9]+)(?:\|[^>]*)?>"
    r"|<!subteam\^(?P<group>S[A-Z0-9]+)(?:\|[^>]*)?>"
    r"|<!(?P<range>here|channel|everyone)(?:\|[^>]*)?>"
    r"|<(?P<url>[a-z]+:[^|>]+)(?:\|(?P<label>[^>]*))?>"
    r"|:(?P<emoji>[a-z0-9_+'-]+):"
    r"|(?<!\w)(?P<mark>[*_~`])(?=\S)(?P<styled>[^\n]+?)(?<=\S)(?P=mark)(?!\w)"
)


def with_blocks(message: Json) -> Json:
    """The message, with its text as a `rich_text` block if it has no blocks of its own."""
    if not message.get("text") or message.get("blocks") or message.get("attachments"):
        return message
    return message | {"blocks": [{"type": "rich_text", "block_id": "text", "elements": list(_parts(message["text"]))}]}


def _parts(text: str) -> Iterator[Json]:
    """Code blocks, lists, and sections of everything else."""
    for number, part in enumerate(FENCE.split(text)):
        if number % 2:
            yield {"type": "rich_text_preformatted", "elements": [_words(part)], "border": 0}
            continue
        for listed, lines in groupby(part.split("\n"), key=lambda line: line.startswith(BULLET)):
            if listed:
                items = [_section(line.removeprefix(BULLET)) for line in lines]
                yield {"type": "rich_text_list", "elements": items, "style": "bullet", "indent": 0, "border": 0}
            elif words := "\n".join(lines).strip("\n"):
                yield _section(words)


def _section(text: str) -> Json:
    return {"type": "rich_text_section", "elements": list(_elements(text))}


def _elements(text: str) -> Iterator[Json]:
    end = 0
    for found in MARKUP.finditer(text):
        if found.start() > end:
            yield _words(text[end : found.start()])
        yield _element(found)
        end = found.end()
    if end < len(text):
        yield _words(text[end:])


def _element(found: re.Match[str]) -> Json:
    parts = {name: value for name, value in found.groupdict().items() if value}
    match parts:
        case {"user": user}:
            return {"type": "user", "user_id": user}
        case {"channel": channel}:
            return {"type": "channel", "channel_id": channel}
        case {"group": group}:
            return {"type": "usergroup", "usergroup_id": group}
        case {"range": whom}:
            return {"type": "broadcast", "range": whom}
        case {"url": url}:
            return {"type": "link", "url": url} | ({"text": parts["label"]} if "label" in parts else {})
        case {"emoji": name}:
            return {"type": "emoji", "name": name}
    return _words(parts["styled"]) | {"style": {STYLES[parts["mark"]]: True}}


def _words(text: str) -> Json:
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(entity, character)
    return {"type": "text", "text": text}
