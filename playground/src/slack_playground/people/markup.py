"""What people type, as Slack hands it on: escaped, with mentions and links in angle brackets."""

from __future__ import annotations

import re

from slack_playground.world.workspace import Workspace

WORDS = re.compile(r"(?P<url>https?://[^\s<>|]+)|(?<![\w.])@(?P<user>[\w.-]+)|(?<!\w)#(?P<channel>[\w-]+)")
BROADCASTS = ("here", "channel", "everyone")


def escape(text: str) -> str:
    """The three characters that Slack's markup is made of."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    """The other way."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def marked_up(text: str, workspace: Workspace, *, names: bool = False) -> str:
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
