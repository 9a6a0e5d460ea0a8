"""The alerts there are, as only their reader sees them, and what came of a mute. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bot.blockkit import escape, fit
from bot.views.alert import Told, in_a_line
from bot.views.told import Content, context, moment, section, words
from bot.views.who import who
from supervisor_core.domain.suppressions import Suppression

SHOWN = 10
"""Alerts with a line of their own, and workers that are named."""

REASON = 200  # characters


def listed(found: Sequence[Told], muted: Mapping[str, Suppression], count: int | None = None) -> Content:
    """All that are open, and who is muted. `count`: how many there are, where only the first were looked up."""
    count = len(found) if count is None else count
    quiet = [_muted(worker_id, each) for worker_id, each in sorted(muted.items())]
    if not found:
        return words("\n".join([":white_check_mark: *No alert is open.*", *quiet[:SHOWN]]))
    title = f"{count:,} {'alert is' if count == 1 else 'alerts are'} open"
    lines = [in_a_line(told) for told in found[:SHOWN]]
    blocks = [section(f"*{title}*"), *map(section, lines)]
    if count > SHOWN:
        blocks.append(context(f"… and {count - SHOWN:,} more: on the host, `supervisor alerts` lists them all."))
    if quiet:
        more = [f"… and {len(quiet) - SHOWN} more"] if len(quiet) > SHOWN else []
        blocks.append(section("\n".join([*quiet[:SHOWN], *more])))
    return {"text": fit("\n".join([f"{title}:", *lines, *quiet]), 2900), "blocks": blocks}


def muted(made: Sequence[Suppression], *, said: bool) -> Content:
    """What a mute has come to, for everybody; `said`: whether somebody said how long."""
    first = made[0]
    why = f": {fit(escape(first.reason), REASON)}" if first.reason else ""
    hour = "" if said else " Nobody said how long, so it is one hour."
    text = (
        f":mute: {_names([each.target.id for each in made])} muted until {moment(first.until)} by {who(first.by)}{why}"
    )
    return words(f"{text.rstrip('.')}.{hour} What happens is recorded; what still holds by then is said then.")


def unmuted(ended: Collection[str], asked: Collection[str], by: str) -> Content:
    """Who is heard again."""
    if not ended:
        return words(f":speaker: {_names(asked)} not muted: there is nothing to end.")
    return words(f":speaker: Alerts about {', '.join(map(escape, sorted(ended)[:SHOWN]))} are told again, by {by}.")


def _muted(worker_id: str, hush: Suppression) -> str:
    why = f": {fit(escape(hush.reason), REASON)}" if hush.reason else ""
    return f":mute: *{escape(worker_id)}* is muted until {moment(hush.ends_at)} by {who(hush.by)}{why}"


def _names(workers: Collection[str]) -> str:
    named = sorted(workers)
    shown = ", ".join(f"*{escape(each)}*" for each in named[:SHOWN])
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return f"{shown}{more} {'is' if len(named) == 1 else 'are'}"
