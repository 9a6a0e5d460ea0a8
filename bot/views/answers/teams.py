"""Teams at a glance: what each is for, who is in it in which role, how they are, and who left lately. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bot.views.blocks import Content, context, section
from bot.views.buttons import list_page, page_buttons
from bot.views.text import escape, fit, moment, shorten
from supervisor_core.code.change_plan import count
from supervisor_core.commands.command import Command
from supervisor_core.workers.teams.manager import TeamMember, TeamPicture
from supervisor_core.workers.teams.rows import MemberRole

PAGE = 8
"""Teams at once."""

OBJECTIVE, NAME = 250, 120  # characters
MEMBERS, LEFT = 8, 3
"""With a name; the others are counted."""

TEXT = 2900


def teams(
    command: Command,
    pictures: Sequence[TeamPicture],
    workers: Mapping[str, Mapping[str, Any]],
    nonce: str,
    page: int = 0,
) -> Content:
    """One page of all teams; `workers`: how each is."""
    if not pictures:
        text = "There are no teams. `teams` in the configuration names them, and `workers.ID.team` says who is in."
        return {"text": text, "blocks": [section(text)]}
    part = list_page(pictures, PAGE, page)
    parts = f", {part.first} to {part.first + len(part.items) - 1}" if part.pages > 1 else ""
    title = f"*{count(len(pictures), 'team')}*{parts}"
    texts = [_team(each, workers) for each in part.items]
    blocks = [section(title), *(section(text) for text in texts), *page_buttons(part, command, nonce)]
    blocks.append(context("`/supervisor status team:NAME` shows how each of its workers is."))
    return {"text": fit("\n".join([title, *texts]), TEXT), "blocks": blocks}


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
    trouble = "" if worker is None or worker["fine"] else f" :x: {_how(worker)}"
    return f"{fit(escape(member.agent_id), NAME)}{role}{trouble}"


def _in_words(role: str) -> str:
    return fit(escape(role.lower()), NAME)


def _health(team: TeamPicture, workers: Mapping[str, Mapping[str, Any]]) -> str:
    """The number of members in each state; members that aren't on this host are unknown."""
    if not team.members:
        return "nobody is in it"
    counted = Counter(
        _how(workers[each.agent_id]) if each.agent_id in workers else "not known here" for each in team.members
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
    named = [f"{fit(escape(each.agent_id), NAME)} {moment(each.left_at)}" for each in team.left if each.left_at]
    return f" · left lately: {shorten(named, LEFT)}"


def _sign(team: TeamPicture, workers: Mapping[str, Mapping[str, Any]]) -> str:
    if not team.members:
        return ":white_circle:"
    return ":white_check_mark:" if all(_fine(member, workers) for member in team.members) else ":x:"


def _fine(member: TeamMember, workers: Mapping[str, Mapping[str, Any]]) -> bool:
    worker = workers.get(member.agent_id)
    return worker is None or bool(worker["fine"])


def _name(team: TeamPicture) -> str:
    return fit(escape(team.name), NAME)


def _for(team: TeamPicture) -> str:
    return f": {fit(escape(' '.join(team.objective.split())), OBJECTIVE)}" if team.objective else ""
