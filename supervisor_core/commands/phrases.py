"""Sentences with moments, people and commands in them, which each reader renders in their own way. Pure.

`("paused by ", issuer, " at ", moment)` mentions the person in Slack and names them in a terminal, where the moment is
a clock time in UTC. Parts that are plain text may hold data from outside: the renderer makes them harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import Identifier, Verbatim, as_in_shell
from supervisor_core.common.times import clock_time


class WorkerName(str):
    """The name of the worker that a phrase is about: a hub shows its address instead."""

    __slots__ = ()


Part = str | datetime | Issuer
"""Plain text, a worker's name, something to type (`Verbatim`), a moment or a person."""

Phrase = tuple[Part, ...]
"""A sentence or a few, without the person and time formats of a reader."""


def render_phrase(
    phrase: Phrase,
    text: Callable[[str], str],
    typed: Callable[[Verbatim], str],
    moment: Callable[[datetime], str],
    who: Callable[[Issuer], str],
) -> str:
    """Render each part in the way of one reader.

    `text` escapes plain text, `typed` marks what is typed, `moment` and `who` format times and people.
    """
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


def plain(phrase: Phrase, now: datetime | None = None) -> str:
    """Render a phrase for a terminal.

    Moments are clock times in UTC, with the date unless it's the day of `now`. People are shown by name.
    """

    def typed(word: Verbatim) -> str:
        return str(word) if isinstance(word, Identifier) else f"`{as_in_shell(word)}`"

    return render_phrase(phrase, str, typed, partial(clock_time, now=now, seconds=True), name_of)


def name_of(issuer: Issuer) -> str:
    """A person's name, else their id in the audit trail."""
    return issuer.name or issuer.id
