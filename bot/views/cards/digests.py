"""The digest of a storm, and the lines of messages whose alert is part of another one. Pure."""

from __future__ import annotations

from bot.views.blocks import context, section
from bot.views.cards.conditions import STORM_WORDS
from bot.views.text import escape, fit, inert
from supervisor_core.alerts.grouping.rules import AlertMembers
from supervisor_core.alerts.incoming import name_in
from supervisor_core.alerts.rules import Alert
from supervisor_core.workers.conditions.rules import ALERTMANAGER, Condition

NAMED = 15
"""Members with their names on the message."""

TEAMS, NAME, TEXT = 5, 80, 2900
"""Teams that are named; characters of a name, and of a list."""


def condition_counts(members: AlertMembers) -> str:
    """The number of workers or hosts in each condition."""
    counts = {STORM_WORDS.get(condition, str(condition)): count for condition, count in members.by_condition.items()}
    counts["recovered"] = members.total - members.holding
    return " · ".join(f"{count:,} {words}" for words, count in counts.items() if count)


def member_blocks(members: AlertMembers) -> list[dict[str, object]]:
    """The names and teams of the members."""
    blocks: list[dict[str, object]] = [section(names)] if (names := member_names(members)) else []
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
    """Some of those that hold, those in the same condition together, and how many more there are."""
    if not members.first:
        return ""
    by_condition: dict[Condition, list[str]] = {}
    for alert in members.first:
        name = name_in(alert.reason)[0] if alert.target.kind == ALERTMANAGER else alert.target.id
        by_condition.setdefault(alert.condition, []).append(inert(name, NAME))
    lines = [
        f"*{STORM_WORDS.get(condition, str(condition)).capitalize()}:* {', '.join(names)}"
        for condition, names in by_condition.items()
    ]
    left = members.holding - len(members.first)
    if left > 0:
        lines.append(f"… and {left:,} more: `/supervisor alerts` lists them")
    return fit("\n".join(lines), TEXT)
