"""Teams at a glance: their objectives, members, roles and states, and who left recently. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bot.views.blocks import Color, Content, card, context, section, text_message
from bot.views.buttons import list_page, page_buttons
from bot.views.text import inert, minute, shorten
from supervisor_core.code.change_plan import count
from supervisor_core.commands.command import Command
from supervisor_core.workers.teams import MemberRole, TeamMember, TeamPicture

PAGE = 8
"""Teams at once."""

OBJECTIVE, NAME = 250, 120  # characters
MEMBERS, LEFT = 8, 3
"""With a name; the others are counted."""


def teams(
    command: Command,
    pictures: Sequence[TeamPicture],
    workers: Mapping[str, Mapping[str, Any]],
    nonce: str,
    page: int = 0,
) -> Content:
    """One page of all teams; `workers`: how each is."""
    if not pictures:
        return text_message("*No teams yet.* Add them to the configuration under `teams`, and set `workers.ID.team`.")
    part = list_page(pictures, PAGE, page)
    blocks = [section(_team(each, workers)) for each in part.items]
    blocks += page_buttons(part, command, nonce)
    parts = [f"Page {part.number + 1} of {part.pages}"] if part.pages > 1 else []
    blocks.append(context(" · ".join([*parts, "`/supervisor status team:NAME` lists a team's workers"])))
    unhealthy = any(not _fine(member, workers) for team in pictures for member in team.members)
    color = Color.CRITICAL if unhealthy else Color.GOOD
    return card(f":busts_in_silhouette: *{count(len(pictures), 'team')}*", color, blocks)


def team_heading(team: TeamPicture, workers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines above the workers of one team."""
    known = {worker["id"]: worker for worker in workers}
    lines = [f"{_sign(team, known)} *{_name(team)}*{_for(team)}", f"{_health(team, known)}{_gone(team)}"]
    return [line for line in lines if line]


def role_of(team: TeamPicture | None, agent_id: str) -> str:
    """The role of a member, where it is more or less than that of a member."""
    role = next((each.role for each in team.members if each.agent_id == agent_id), "") if team else ""
    return f" · {_in_words(role)}" if role and role != MemberRole.MEMBER else ""


def _team(team: TeamPicture, workers: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"{_sign(team, workers)} *{_name(team)}*{_for(team)}", f"{_health(team, workers)}{_gone(team)}"]
    ordered = sorted(team.members, key=lambda member: _fine(member, workers))
    if ordered:
        lines.append(shorten([_member(member, workers) for member in ordered], MEMBERS))
    return "\n".join(lines)


def _member(member: TeamMember, workers: Mapping[str, Mapping[str, Any]]) -> str:
    role = f" ({_in_words(member.role)})" if member.role != MemberRole.MEMBER else ""
    worker = workers.get(member.agent_id)
    trouble = "" if worker is None or worker["fine"] else f" :red_circle: {_how(worker)}"
    return f"{inert(member.agent_id, NAME)}{role}{trouble}"


def _in_words(role: str) -> str:
    return inert(role.lower(), NAME)


def _health(team: TeamPicture, workers: Mapping[str, Mapping[str, Any]]) -> str:
    """The number of members in each state; members that aren't on this host are unknown."""
    if not team.members:
        return "no members"
    counted = Counter(
        _how(workers[each.agent_id]) if each.agent_id in workers else "on another host" for each in team.members
    )
    return (
        f"{count(len(team.members), 'member')}: {', '.join(f'{number} {how}' for how, number in counted.most_common())}"
    )


def _how(worker: Mapping[str, Any]) -> str:
    if worker["paused"]:
        return "paused"
    return str(worker["health"] if worker["state"] == "running" else worker["state"])


def _gone(team: TeamPicture) -> str:
    if not team.left:
        return ""
    named = [f"{inert(each.agent_id, NAME)} {minute(each.left_at)}" for each in team.left if each.left_at]
    return f" · left recently: {shorten(named, LEFT)}"


def _sign(team: TeamPicture, workers: Mapping[str, Mapping[str, Any]]) -> str:
    if not team.members:
        return ":white_circle:"
    return ":large_green_circle:" if all(_fine(member, workers) for member in team.members) else ":red_circle:"


def _fine(member: TeamMember, workers: Mapping[str, Mapping[str, Any]]) -> bool:
    worker = workers.get(member.agent_id)
    return worker is None or bool(worker["fine"])


def _name(team: TeamPicture) -> str:
    return inert(team.name, NAME)


def _for(team: TeamPicture) -> str:
    return f": {inert(' '.join(team.objective.split()), OBJECTIVE)}" if team.objective else ""
