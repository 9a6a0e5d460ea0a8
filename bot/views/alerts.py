"""The alerts there are, as only their reader sees them, and what came of a mute. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bot.views.alert import Told, in_a_line
from bot.views.text import escape, fit
from bot.views.tidings import uptime_lines
from bot.views.told import Content, context, moment, section, words
from bot.views.who import who
from supervisor_core.domain.flips import Uptime
from supervisor_core.domain.suppressions import EVERYTHING, Hush, Suppression
from supervisor_core.ledger.uptimes import SPANS

SHOWN = 10
"""Alerts with a line of their own, and workers that are named."""

REASON = 200  # characters


def listed(
    found: Sequence[Told],
    muted: Mapping[str, Suppression],
    count: int | None = None,
    worked: Mapping[str, Sequence[Uptime]] | None = None,
) -> Content:
    """All that are open, who is muted, and how long workers were at work. `count`: how many are open, where only the
    first were looked up."""
    content = _open(found, muted, len(found) if count is None else count)
    lines = uptime_lines(worked or {})
    if not lines:
        return content
    more = [f"… and {len(lines) - SHOWN} more: on the host, `supervisor alerts --uptime`"] if lines[SHOWN:] else []
    text = "\n".join([f"*At work* ({' · '.join(SPANS)}):", *lines[:SHOWN], *more])
    return {"text": fit(f"{content['text']}\n{text}", 2900), "blocks": [*content["blocks"], section(text)]}


def _open(found: Sequence[Told], muted: Mapping[str, Suppression], count: int) -> Content:
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


def unmuted(ended: Collection[str], asked: Collection[str], by: str, still: Suppression | None = None) -> Content:
    """Who is heard again. `still`: the maintenance of all, which keeps them quiet all the same."""
    if still is not None:
        return words(f"{_muted(EVERYTHING.id, still)}. `/supervisor unmute all` ends that for this time.")
    if not ended:
        return words(f":speaker: {_names(asked)} not muted: there is nothing to end.")
    return words(f":speaker: Alerts about {', '.join(map(escape, sorted(ended)[:SHOWN]))} are told again, by {by}.")


def _muted(worker_id: str, hush: Suppression) -> str:
    why = f": {fit(escape(hush.reason), REASON)}" if hush.reason else ""
    name = "Everything" if worker_id == EVERYTHING.id else escape(worker_id)
    if hush.kind is Hush.MAINTENANCE:
        return f":wrench: *{name}* is in maintenance until {moment(hush.ends_at)}{why}"
    return f":mute: *{name}* is muted until {moment(hush.ends_at)} by {who(hush.by)}{why}"


def _names(workers: Collection[str]) -> str:
    named = sorted(workers)
    shown = ", ".join(f"*{escape(each)}*" for each in named[:SHOWN])
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return f"{shown}{more} {'is' if len(named) == 1 else 'are'}"
