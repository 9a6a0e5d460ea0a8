"""The notice that the configuration names somebody or something that this Slack does not know. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.views.text import escape, fit
from bot.views.told import Content, words

SHOWN = 8
"""Troubles with a line of their own; the others are counted."""

LINE = 300  # characters of one


def unknown_ids(host: str, troubles: Sequence[str]) -> Content:
    """One notice for all of them. Everybody in the channel reads it: nobody is mentioned, ids stand as they are."""
    lines = [f"• {fit(escape(trouble), LINE)}" for trouble in troubles[:SHOWN]]
    if len(troubles) > SHOWN:
        lines.append(f"• and {len(troubles) - SHOWN} more")
    what = f":warning: *The configuration of {escape(host)} and this Slack do not fit together:*"
    return words("\n".join([what, *lines, "Whoever is named wrongly has no rights. `supervisor doctor` looks again."]))
