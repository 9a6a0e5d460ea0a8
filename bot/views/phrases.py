"""Sentences about moments and people as Slack shows them: in the reader's zone, by mention, no data alive. Pure."""

from __future__ import annotations

from bot.views.text import escape, fit
from bot.views.told import moment
from bot.views.who import UNSTYLED, who
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.phrases import Phrase, name_of, shown
from supervisor_core.domain.typed import Given

LONGEST_TYPED = 400  # characters of something that is repeated letter by letter
LONGEST_TEXT = 600


def in_slack(phrase: Phrase) -> str:
    """As markup."""
    return shown(phrase, _text, typed, moment, who)


def named(phrase: Phrase) -> str:
    """The same with people by their names: a mention of somebody who did something days ago calls them."""
    return shown(phrase, _text, typed, moment, lambda issuer: _text(name_of(issuer).translate(UNSTYLED)))


def typed(word: str) -> str:
    """In letters of one width; a backtick would end them. A command as it is typed in Slack."""
    before = "/supervisor " if isinstance(word, Given) else ""
    return f"`{before}{escape(fit(_line(word), LONGEST_TYPED))}`"


def said(error: SupervisorError) -> str:
    """What went wrong, and what to do."""
    return f"{escape(error.message)} {in_slack(error.todo)}".rstrip()


def _text(words: str) -> str:
    return escape(fit(words, LONGEST_TEXT))


def _line(word: str) -> str:
    return " ".join(word.replace("`", "'").split()) or " "
