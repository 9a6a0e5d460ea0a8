"""The alerts there are, as only their reader sees them, and what came of a mute. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.blockkit import escape, fit
from bot.views.alert import WORDS, Told, in_a_line
from bot.views.told import Content, context, moment, section, words
from bot.views.who import who
from supervisor_core.domain.flips import Flip
from supervisor_core.domain.suppressions import Suppression
from supervisor_core.ledger.flips import Standing

SHOWN = 10
"""Alerts with a line of their own, and workers that are named."""

REASON, SHORT = 200, 120  # characters
FLIPS = 5
"""How a worker was before: so many changes."""

LOOKED_BACK = timedelta(days=1)


def listed(found: Sequence[Told], muted: Mapping[str, Suppression]) -> Content:
    """All that are open, and who is muted."""
    quiet = [_muted(worker_id, each) for worker_id, each in sorted(muted.items())]
    if not found:
        return words("\n".join([":white_check_mark: *No alert is open.*", *quiet[:SHOWN]]))
    title = f"{len(found)} {'alert is' if len(found) == 1 else 'alerts are'} open"
    lines = [in_a_line(told) for told in found[:SHOWN]]
    blocks = [section(f"*{title}*"), *map(section, lines)]
    if len(found) > SHOWN:
        blocks.append(context(f"… and {len(found) - SHOWN} more: on the host, `supervisor alerts` lists them all."))
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


@dataclass(frozen=True, slots=True)
class Why:
    """What is known of one worker."""

    worker_id: str
    standing: Standing | None
    """How it is; None where nobody has looked yet."""
    told: Told | None = None
    """The alert that is not over."""
    past: tuple[Flip, ...] = ()


def why(found: Sequence[Why]) -> Content:
    """How each of these is, since when and why, what was decided about it, and how it was before."""
    if not found:
        return words("There are no workers.")
    told = ["\n".join(_explained(each)) for each in found]
    return {"text": fit("\n".join(told), 2900), "blocks": [section(each) for each in told]}


def _explained(known: Why) -> list[str]:
    name, standing = escape(known.worker_id), known.standing
    if standing is None:
        return [f":grey_question: *{name}*: nobody has looked at it yet."]
    reason = fit(escape(standing.reason), REASON)
    lines = [f"*{name} {WORDS[standing.condition]}* since {moment(standing.since)}: {reason}"]
    if known.told is not None:
        alert = known.told.alert
        lines.append(f"Its alert `{alert.alert_id}` is {alert.state}; decided last: `{alert.decided}`.")
    before = known.past[-FLIPS - 1 : -1]
    lines += [f"• {WORDS[flip.new]} {moment(flip.at)}: {fit(escape(flip.reason), SHORT)}" for flip in reversed(before)]
    return lines


def _muted(worker_id: str, hush: Suppression) -> str:
    why = f": {fit(escape(hush.reason), REASON)}" if hush.reason else ""
    return f":mute: *{escape(worker_id)}* is muted until {moment(hush.ends_at)} by {who(hush.by)}{why}"


def _names(workers: Collection[str]) -> str:
    named = sorted(workers)
    shown = ", ".join(f"*{escape(each)}*" for each in named[:SHOWN])
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return f"{shown}{more} {'is' if len(named) == 1 else 'are'}"
