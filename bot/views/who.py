"""How people are named on a message. Pure."""

from __future__ import annotations

from bot.blockkit import escape, fit
from supervisor_core.domain.command import Issuer

UNSTYLED = str.maketrans("", "", "*_~`")
"""A name is not styled; there is no escape for these."""


def who(issuer: Issuer) -> str:
    """Somebody as people read it: in Slack by mention, elsewhere by name and door."""
    prefix, _, rest = issuer.id.partition(":")
    user = rest.rpartition("/")[2]
    if prefix == "slack" and user.isalnum():
        return f"<@{user}>"
    name = (issuer.name or issuer.id).translate(UNSTYLED)
    return f"{escape(fit(name, 80))} ({escape(prefix)})"
