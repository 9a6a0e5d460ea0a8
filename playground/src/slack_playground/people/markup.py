"""Slack's markup: made from what people type, and turned back into what they read."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from slack_playground.world.workspace import Workspace

WORDS = re.compile(r"(?P<url>https?://[^\s<>|]+)|(?<![\w.])@(?P<user>[\w.-]+)|(?<!\w)#(?P<channel>[\w-]+)")
MARKUP = re.compile(r"<([^<>]*)>")
CODE = re.compile(r"```\n?(.*?)\n?```|`([^`\n]+)`", re.DOTALL)
STYLES = tuple(re.compile(rf"(?<![\w{c}]){c}(\S(?:[^{c}\n]*\S)?){c}(?![\w{c}])") for c in (r"\*", "_", "~"))
SHORT_NAME = re.compile(r":([a-z0-9_+'-]+):")
EMOJI = Path(__file__).parents[1] / "page" / "static" / "base" / "emoji.txt"
BROADCASTS = ("here", "channel", "everyone")


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def to_markup(text: str, workspace: Workspace, *, names: bool = False) -> str:
    """A message or a command's text; with `names`, mentions carry the name as well, as in slash commands."""

    def mark(match: re.Match[str]) -> str:
        word = match.group()
        if match["url"]:
            return f"<{word}>"
        if match["user"]:
            name = match["user"].rstrip(".-")
            rest = match["user"][len(name) :]
            user = workspace.find_user(name)
            if user:
                return (f"<@{user.id}|{user.name}>" if names else f"<@{user.id}>") + rest
            group = next((g for g in workspace.groups.values() if g.handle == name), None)
            if group:
                return f"<!subteam^{group.id}|@{name}>" + rest if names else f"<!subteam^{group.id}>" + rest
            return f"<!{name}>{rest}" if name in BROADCASTS else word
        channel = workspace.find_channel(match["channel"])
        if channel is None:
            return word
        return f"<#{channel.id}|{channel.name}>" if names else f"<#{channel.id}>"

    return WORDS.sub(mark, escape(text))


def to_text(text: str, space: Workspace) -> str:
    """Slack's markup as people read it: names instead of ids, labels instead of links."""

    def show(match: re.Match[str]) -> str:
        inner, _, label = match[1].partition("|")
        if inner.startswith("@"):
            user = space.users.get(inner[1:])
            return f"@{user.name if user else label or inner[1:]}"
        if inner.startswith("#"):
            channel = space.channels.get(inner[1:])
            return f"#{channel.name if channel else label or inner[1:]}"
        if inner.startswith("!subteam^"):
            group = space.groups.get(inner.removeprefix("!subteam^"))
            return f"@{group.handle if group else label}"
        if inner.startswith("!"):
            return label or f"@{inner[1:].partition('^')[0]}"
        return f"{label} ({inner})" if label and label != inner else inner

    return unescape(MARKUP.sub(show, _unstyled(text)))


def _unstyled(text: str) -> str:
    """Without the marks that make text bold, italic, struck or code."""
    parts, end = [], 0
    for match in CODE.finditer(text):
        parts += [_plain(text[end : match.start()]), match[1] or match[2] or ""]
        end = match.end()
    return "".join([*parts, _plain(text[end:])])


def _plain(text: str) -> str:
    for style in STYLES:
        text = style.sub(r"\1", text)
    return text


def with_emoji(text: str) -> str:
    """The text with emoji instead of their short names."""
    return SHORT_NAME.sub(lambda match: _emoji().get(match[1], match[0]), text)


@cache
def _emoji() -> dict[str, str]:
    """The emoji by their short names; the page reads the same table."""
    lines = [line.split(" ") for line in EMOJI.read_text(encoding="utf-8").splitlines()]
    return {name: emoji.removeprefix("~") for emoji, *names in lines for name in names}
