"""Words as messages: an answer to one person, a notice for a channel. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bot.blockkit import escape, fit

LONGEST = 2900
"""Characters of one section; what is longer is cut, and says so."""

GAPS = 15  # on one notice
PIECE, PIECES = 2800, 4  # of a listing: characters, and blocks; together they are less than a message holds

Content = dict[str, Any]
"""What a message says: `text` and `blocks`, and both say the same."""


def words(text: str) -> Content:
    """One piece of text."""
    text = fit(text, LONGEST)
    return {"text": text, "blocks": [section(text)]}


def listing(text: str) -> Content:
    """Text in fixed columns: in as many blocks as it needs, cut where there would be too many."""
    pieces, piece = [], ""
    for line in escape(text.replace("`", "'")).split("\n"):
        if piece and len(piece) + len(line) > PIECE:
            pieces.append(piece)
            piece = ""
        piece += f"{fit(line, PIECE)}\n"
    pieces.append(piece)
    blocks = [section(f"```{piece.rstrip()}```") for piece in pieces[:PIECES]]
    return {
        "text": fit(escape(text), LONGEST),
        "blocks": blocks if len(pieces) <= PIECES else [*blocks, context("… (cut)")],
    }


def plain(content: Content) -> Content:
    """The same in plain text: what is always understood, where the blocks are not."""
    return {"text": fit(str(content["text"]), LONGEST), "blocks": []}


def section(text: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": fit(text, LONGEST)}}


def context(text: str) -> dict[str, Any]:
    """A block of small print."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": fit(text, 1900)}]}


def with_hint(content: Content, hint: str) -> Content:
    """The same message with a line of small print below it, where there is something to say."""
    if not hint:
        return content
    return {**content, "blocks": [*content["blocks"], context(hint)]}


def not_a_member(channel: str, bot: str) -> str:
    """Why somebody is told in a direct message, and how to change that."""
    return f"Told here because I can't write in <#{channel}>. To change that: `/invite @{bot}` in that channel."


def deaf(gaps: Sequence[tuple[datetime, datetime]]) -> Content:
    """From when to when nothing could be heard."""
    shown = gaps[-GAPS:]
    lines = [f"• and {len(gaps) - len(shown)} times before"] if len(gaps) > len(shown) else []
    lines += [
        f"• from {_at(since)} to {_at(until)} ({_span((until - since).total_seconds())})" for since, until in gaps
    ]
    head = ":ear: *I could not hear Slack.* Commands and clicks of that time did not reach me, and nothing came of them"
    text = "\n".join([f"{head}:", *lines, "Whoever gave one then was told by Slack that it failed: give it again."])
    return words(text)


def others(reason: str) -> Content:
    """Somebody else uses our token."""
    return words(
        f":warning: *I may not be alone.* {reason}\nEnd the other process, or revoke the token in the app's settings "
        "and make a new one; `supervisor doctor` looks again. What an earlier run left open counts for a while, too."
    )


def _at(moment: datetime) -> str:
    """A moment, in the reader's own time zone where Slack knows it."""
    return f"<!date^{int(moment.timestamp())}^{{date_short_pretty}} {{time_secs}}|{moment:%Y-%m-%d %H:%M:%S} UTC>"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
