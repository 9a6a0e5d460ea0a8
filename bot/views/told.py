"""Words as messages: an answer to one person, a notice for a channel. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bot.views.text import escape, fit
from supervisor_core.domain.command import Command
from supervisor_core.domain.grammar import render
from supervisor_core.domain.phrases import span

LONGEST = 2900
"""Characters of one section; what is longer is cut, and says so."""

REASON = 1000  # characters
GAPS = 15  # on one notice
PIECE, PIECES = 2800, 4  # of a listing: characters, and blocks; together they are less than a message holds

Content = dict[str, Any]
"""What a message says: `text` and `blocks`, and both say the same."""


def words(text: str) -> Content:
    """One piece of text."""
    text = fit(text, LONGEST)
    return {"text": text, "blocks": [section(text)]}


def checking(command: Command) -> Content:
    """A preview is under way, and its sender waits."""
    what = "Checking the remote" if command.name.startswith("update") else "Checking what it would do"
    return words(f":hourglass_flowing_sand: {what}… `{escape(render(command))}` The result follows here.")


def asks_now(command: Command) -> Content:
    """What takes the place of that once an approval is requested."""
    return words(f":white_check_mark: Approval requested for `{escape(render(command))}`. See its card.")


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
    """A block of text. `verbatim`: what looks like a link or a mention in it is none, unless it is marked up as one."""
    return {"type": "section", "text": {"type": "mrkdwn", "verbatim": True, "text": fit(text, LONGEST)}}


def context(text: str) -> dict[str, Any]:
    """A block of small print."""
    element = {"type": "mrkdwn", "verbatim": True, "text": fit(text, 1900)}
    return {"type": "context", "elements": [element]}


def with_hint(content: Content, hint: str) -> Content:
    """The same message with a line of small print below it, where there is something to say."""
    if not hint:
        return content
    return {**content, "blocks": [*content["blocks"], context(hint)]}


def not_a_member(channel: str, bot: str) -> str:
    """Why somebody is told in a direct message, and how to change that."""
    return f"Told here because I can't write in <#{channel}>. To change that: `/invite @{bot}` in that channel."


def deaf(host: str, gaps: Sequence[tuple[datetime, datetime]], *, away: bool) -> Content:
    """From when to when nothing could be heard; `away`: because the supervisor itself was not there."""
    shown = gaps[-GAPS:]
    lines = [f"• and {len(gaps) - len(shown)} times before"] if len(gaps) > len(shown) else []
    lines += [
        f"• from {moment(since)} to {moment(until)} ({span((until - since).total_seconds())})" for since, until in shown
    ]
    what = (
        f"*The supervisor on {escape(host)} was not there* (it was stopped, or had died)"
        if away
        else f"*The supervisor on {escape(host)} could not reach Slack*"
    )
    advice = (
        "Slash commands and clicks of that time did not reach it: Slack told whoever gave one that it failed, and they "
        "can give it again. A mention of that time may still be carried out: look before you repeat it."
    )
    return words("\n".join([f":warning: {what}:", *lines, advice]))


def others(reason: str) -> Content:
    """Somebody else uses our token."""
    advice = (
        "End the other process, or revoke the token in the app's settings and make a new one; `supervisor doctor` "
        "looks again. What an earlier run left open counts for a while, too."
    )
    return words(f":warning: *I may not be alone.* {escape(fit(reason, REASON))}\n{advice}")


def moment(at: datetime) -> str:
    """A moment, in the reader's own time zone where Slack knows it."""
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time_secs}}|{at:%Y-%m-%d %H:%M:%S} UTC>"
