"""Text for Slack messages: escaping, unescaping and shortening."""

from __future__ import annotations

import unicodedata

CUT = " … (cut)"


def escape(text: str) -> str:
    """A text that Slack shows as it stands: no mention, link or broadcast in it comes alive.

    `*`, `_`, `~` and backticks cannot be escaped in mrkdwn; what must not be styled goes into plain text.
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    """A text that came from Slack, as it was typed; undone exactly once."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def fit(text: str, limit: int, mark: str = CUT) -> str:
    """The text, or as much of it as fits into so many characters with a word that it was cut.

    It is cut where people would: after a line, else after a word, unless more than a third would be lost by that;
    never inside an entity such as `&amp;`, nor between a letter and its accent.
    """
    if len(text) <= limit:
        return text
    room = limit - len(mark)
    if room <= 0:
        return text[: max(limit, 0)]
    head = text[:room]
    for separator in ("\n", " "):
        at = head.rfind(separator)
        if at >= room * 2 // 3 > 0:
            return head[:at].rstrip() + mark
    return _whole_characters(text, room) + mark


def _whole_characters(text: str, room: int) -> str:
    start = text.rfind("&", max(0, room - 4), room)
    if start >= 0 and ";" not in text[start:room] and ";" in text[start : start + 5]:
        room = start
    while room > 0 and (unicodedata.combining(text[room]) or text[room] == "\N{ZERO WIDTH JOINER}"):
        room -= 1
    return text[:room]
