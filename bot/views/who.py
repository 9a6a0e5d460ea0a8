"""How people are named on a message. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bot.views.text import escape
from supervisor_core.domain.command import Issuer
from supervisor_core.domain.texts import one_line

NAME = 80  # characters

MENTIONABLE = re.compile(r"[UW][A-Z0-9]{1,30}")
"""The ids of people, as Slack gives them. What else stands in that place was made up, and is told as a name."""

UNSTYLED = str.maketrans("", "", "*_~`")
"""A name is not styled; there is no escape for these."""


MENTIONS = 100
"""Of one message; nobody has more approvers."""


def who(issuer: Issuer) -> str:
    """Somebody as people read it: in Slack by mention, elsewhere by name and door."""
    prefix, _, rest = issuer.id.partition(":")
    user = rest.rpartition("/")[2]
    if prefix == "slack" and MENTIONABLE.fullmatch(user):
        return f"<@{user}>"
    if not rest:  # nobody came by any door: the configuration says so
        return named(issuer)
    return f"{named(issuer)} ({escape(one_line(prefix, NAME))})"


def asker(issuer: Issuer) -> str:
    """The same of whoever asks for a command; of a schedule also whose it is: their rights count."""
    if not issuer.owner:
        return who(issuer)
    return f"{who(issuer)} of {who(Issuer(issuer.owner, issuer.owner.partition(':')[2]))}"


def named(issuer: Issuer) -> str:
    """Somebody by name alone, where they need not be told."""
    return escape(one_line((issuer.name or issuer.id).translate(UNSTYLED), NAME))


def mentions(people: Iterable[Issuer], but: str = "") -> str:
    """Each of them once, so that they are told; nobody who is not known to Slack, and not the one with this id."""
    found = dict.fromkeys(who(each) for each in people if each.id != but)
    return " ".join([each for each in found if each.startswith("<@")][:MENTIONS])
