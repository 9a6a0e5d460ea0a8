"""Words as messages: an answer to one person, a notice for a channel. Pure.

How people are named on a message. Pure.

Sentences about moments and people as Slack shows them: in the reader's zone, by mention, no data alive. Pure.

A list that is longer than a message: one page of it, with the buttons to the pages beside it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from bot.views.buttons import page_button
from bot.views.text import escape, fit
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.grammar import render
from supervisor_core.commands.phrases import Phrase, format_span, name_of, render_phrase
from supervisor_core.common.errors import CommandText, SupervisorError
from supervisor_core.common.text import one_line

LONGEST = 2900
"""Characters of one section; what is longer is cut, and says so."""

REASON = 1000  # characters
GAPS = 15  # on one notice
PIECE, PIECES = 2800, 4  # of a listing: characters, and blocks; together they are less than a message holds

Content = dict[str, Any]
"""What a message says: `text` and `blocks`, and both say the same."""


def text_message(text: str) -> Content:
    """One piece of text."""
    text = fit(text, LONGEST)
    return {"text": text, "blocks": [section(text)]}


def preview_pending(command: Command) -> Content:
    """A preview is under way, and its sender waits."""
    what = "Checking the remote" if command.name.startswith("update") else "Checking what it would do"
    return text_message(f":hourglass_flowing_sand: {what}… `{escape(render(command))}` The result follows here.")


def approval_requested(command: Command) -> Content:
    """What takes the place of that once an approval is requested."""
    return text_message(f":white_check_mark: Approval requested for `{escape(render(command))}`. See its card.")


def code_message(text: str) -> Content:
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


def without_blocks(content: Content) -> Content:
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


def not_a_member_hint(channel: str, bot: str) -> str:
    """Why somebody is told in a direct message, and how to change that."""
    return f"Told here because I can't write in <#{channel}>. To change that: `/invite @{bot}` in that channel."


def connection_gap_notice(host: str, gaps: Sequence[tuple[datetime, datetime]], *, away: bool) -> Content:
    """From when to when nothing could be heard; `away`: because the supervisor itself was not there."""
    shown = gaps[-GAPS:]
    lines = [f"• and {len(gaps) - len(shown)} times before"] if len(gaps) > len(shown) else []
    lines += [
        f"• from {moment(since)} to {moment(until)} ({format_span((until - since).total_seconds())})"
        for since, until in shown
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
    return text_message("\n".join([f":warning: {what}:", *lines, advice]))


def other_connection_notice(reason: str) -> Content:
    """Somebody else uses our token."""
    advice = (
        "End the other process, or revoke the token in the app's settings and make a new one; `supervisor doctor` "
        "looks again. What an earlier run left open counts for a while, too."
    )
    return text_message(f":warning: *I may not be alone.* {escape(fit(reason, REASON))}\n{advice}")


def moment(at: datetime) -> str:
    """A moment, in the reader's own time zone where Slack knows it."""
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time_secs}}|{at:%Y-%m-%d %H:%M:%S} UTC>"


NAME = 80  # characters

MENTIONABLE = re.compile(r"[UW][A-Z0-9]{1,30}")
"""The ids of people, as Slack gives them. What else stands in that place was made up, and is told as a name."""

UNSTYLED = str.maketrans("", "", "*_~`")
"""A name is not styled; there is no escape for these."""

MENTIONS = 100
"""Of one message; nobody has more approvers."""


def mention(issuer: Issuer) -> str:
    """Somebody as people read it: in Slack by mention, elsewhere by name and door."""
    prefix, _, rest = issuer.id.partition(":")
    user = rest.rpartition("/")[2]
    if prefix == "slack" and MENTIONABLE.fullmatch(user):
        return f"<@{user}>"
    if not rest:  # nobody came by any door: the configuration says so
        return display_name(issuer)
    return f"{display_name(issuer)} ({escape(one_line(prefix, NAME))})"


def requester(issuer: Issuer) -> str:
    """The same of whoever asks for a command; of a schedule also whose it is: their rights count."""
    if not issuer.owner:
        return mention(issuer)
    return f"{mention(issuer)} of {mention(Issuer(issuer.owner, issuer.owner.partition(':')[2]))}"


def display_name(issuer: Issuer) -> str:
    """Somebody by name alone, where they need not be told."""
    return escape(one_line((issuer.name or issuer.id).translate(UNSTYLED), NAME))


def mentions(people: Iterable[Issuer], but: str = "") -> str:
    """Each of them once, so that they are told; nobody who is not known to Slack, and not the one with this id."""
    found = dict.fromkeys(mention(each) for each in people if each.id != but)
    return " ".join([each for each in found if each.startswith("<@")][:MENTIONS])


LONGEST_TYPED = 400  # characters of something that is repeated letter by letter
LONGEST_TEXT = 600


def phrase_markup(phrase: Phrase) -> str:
    """As markup."""
    return render_phrase(phrase, _text, code_span, moment, mention)


def phrase_with_names(phrase: Phrase) -> str:
    """The same with people by their names: a mention of somebody who did something days ago calls them."""
    return render_phrase(phrase, _text, code_span, moment, lambda issuer: _text(name_of(issuer).translate(UNSTYLED)))


def code_span(word: str) -> str:
    """In letters of one width; a backtick would end them. A command as it is typed in Slack."""
    before = "/supervisor " if isinstance(word, CommandText) else ""
    return f"`{before}{escape(fit(_line(word), LONGEST_TYPED))}`"


def error_text(error: SupervisorError) -> str:
    """What went wrong, and what to do."""
    return f"{escape(error.message)} {phrase_markup(error.todo)}".rstrip()


def _text(words: str) -> str:
    return escape(fit(words, LONGEST_TEXT))


def _line(word: str) -> str:
    return " ".join(word.replace("`", "'").split()) or " "


T = TypeVar("T")

BACK, NEXT = "back", "next"


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A page, and where it is."""

    items: Sequence[T]
    number: int
    """From 0."""
    pages: int
    first: int
    """The place of its first item, from 1."""


def list_page(items: Sequence[T], size: int, number: int) -> ListPage[T]:
    """This page, or the last one where there are fewer by now."""
    pages = max(-(-len(items) // size), 1)
    number = min(max(number, 0), pages - 1)
    return ListPage(items[number * size : (number + 1) * size], number, pages, number * size + 1)


def page_buttons(part: ListPage[T], command: Command, nonce: str) -> list[dict[str, Any]]:
    """The block of buttons; none where there is one page alone."""
    buttons = []
    if part.number > 0:
        buttons.append(page_button(command, nonce, f"{BACK}:{part.number - 1}", "Previous page"))
    if part.number + 1 < part.pages:
        buttons.append(page_button(command, nonce, f"{NEXT}:{part.number + 1}", "Next page"))
    return [{"type": "actions", "block_id": "pages", "elements": buttons}] if buttons else []


def join_lines(lines: Sequence[str], most: int) -> list[str]:
    """Lines together, as many in one text as fit."""
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + 1 + len(line) <= most:
            texts[-1] += f"\n{line}"
        else:
            texts.append(line)
    return texts


def page_number(word: str) -> int:
    """The number of the page that a button says, from 0."""
    number = word.partition(":")[2]
    return int(number) if number.isdecimal() and len(number) < 6 else 0
