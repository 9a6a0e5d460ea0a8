"""The digest of a storm, and the lines of messages whose alert is part of another one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.views.blocks import context, section
from bot.views.cards.conditions import STORM_WORDS
from bot.views.text import escape, fit, inert
from supervisor_core.alerts.grouping.rules import AlertMembers
from supervisor_core.alerts.incoming.payload import name_in
from supervisor_core.alerts.rules import Alert
from supervisor_core.workers.conditions.rules import ALERTMANAGER, Condition

NAMED = 15
"""Members with their names on the message."""

TEAMS, NAME, TEXT = 5, 80, 2900
"""Teams that are named; characters of a name, and of a list."""


def condition_counts(members: AlertMembers) -> str:
    """The number of workers or hosts in each condition."""
    found = [
        f"{count:,} {STORM_WORDS.get(condition, str(condition))}" for condition, count in members.by_condition.items()
    ]
    over = members.total - members.holding
    return " · ".join([*found, *([f"{over:,} recovered"] if over else [])])


def member_blocks(members: AlertMembers) -> list[dict[str, object]]:
    """The names and teams of the members."""
    blocks: list[dict[str, object]] = []
    if named := member_names(members):
        blocks.append(section(named))
    if members.by_team:
        shown = list(members.by_team.items())[:TEAMS]
        teams = " · ".join(f"{inert(name, NAME)} {count:,}" for name, count in shown)
        more = f" · {len(members.by_team) - TEAMS} more" if len(members.by_team) > TEAMS else ""
        blocks.append(context(f"*By team:* {teams}{more}"))
    return blocks


def folded_workers(members: AlertMembers) -> str:
    """The line of a host's alert about workers that seem stale because of it."""
    if not members.holding:
        return ""
    who = "worker depends" if members.holding == 1 else "workers depend"
    return f":link: *{members.holding:,} {who} on it*, and the next check waits for it.\n{member_names(members)}"


def parent_link(parent: Alert, link: str) -> str:
    """The line of a message whose alert is part of another one."""
    what = "the alert for several workers"
    if parent.condition is Condition.FLAPPING:
        what = "the flapping alert"
    elif parent.condition is not Condition.STORM:
        what = f"the {escape(parent.target.kind)}'s alert"
    there = f"<{link}|{what}>" if link else f"{what} `{parent.alert_id}`"
    return f":link: Part of {there}. Acknowledge or snooze it there."


def member_names(members: AlertMembers) -> str:
    """Some of those that hold, and how many more there are."""
    if not members.first:
        return ""
    lines = _grouped(members.first)
    left = members.holding - len(members.first)
    if left > 0:
        lines.append(f"… and {left:,} more: `/supervisor alerts` lists them")
    return fit("\n".join(lines), TEXT)


def _grouped(first: Sequence[Alert]) -> list[str]:
    """Their names, those that are in the same way together."""
    by_condition: dict[Condition, list[str]] = {}
    for alert in first:
        own = name_in(alert.reason)[0] if alert.target.kind == ALERTMANAGER else alert.target.id
        by_condition.setdefault(alert.condition, []).append(inert(own, NAME))
    words = (
        (STORM_WORDS.get(condition, str(condition)).capitalize(), some) for condition, some in by_condition.items()
    )
    return [f"*{word}:* {', '.join(some)}" for word, some in words]
