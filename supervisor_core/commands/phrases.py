"""Sentences with moments, people and commands in them, which each reader renders in their own way. Pure.

The parts that are plain text may hold data: whoever shows them makes them harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import Verbatim, as_in_shell

Part = str | datetime | Issuer
Phrase = tuple[Part, ...]


def render_phrase(
    phrase: Phrase,
    text: Callable[[str], str],
    typed: Callable[[Verbatim], str],
    moment: Callable[[datetime], str],
    who: Callable[[Issuer], str],
) -> str:
    """The whole, with each part as this reader gets it."""
    words = []
    for part in phrase:
        if isinstance(part, Verbatim):
            words.append(typed(part))
        elif isinstance(part, str):
            words.append(text(part))
        elif isinstance(part, datetime):
            words.append(moment(part))
        else:
            words.append(who(part))
    return "".join(words)


def plain(phrase: Phrase) -> str:
    """For a terminal: moments in UTC, people by the name that they have there."""
    return render_phrase(phrase, str, lambda word: f"`{as_in_shell(word)}`", in_utc, name_of)


def in_utc(at: datetime) -> str:
    """To the second, because things that break do so one after the other."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def name_of(issuer: Issuer) -> str:
    """Somebody by their name, else by what the audit trail calls them."""
    return issuer.name or issuer.id


def format_span(seconds: float) -> str:
    """A duration as people say it, in two units at most."""
    if 0.05 <= seconds < 9.95:
        return f"{seconds:.1f} s"
    left = max(0, round(seconds))
    if left < 60:
        return f"{left} s"
    for size, unit, smaller, word in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        count, rest = divmod(left, size)
        if count:
            more = rest // smaller
            return f"{count} {unit} {more} {word}" if more and count < 10 else f"{count} {unit}"
    return f"{left} s"
