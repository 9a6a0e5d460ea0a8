"""Teams as people look at them: the configuration says who is in, the ledger since when, as what, and who left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from supervisor_core.config import SupervisorConfig
from supervisor_core.ledger import teams
from supervisor_core.ledger.teams import MemberRole, MemberRow, TeamRow

LATELY = timedelta(days=7)
"""So long it is shown that somebody left."""


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody who is in a team, or was."""

    agent_id: str
    role: str
    left_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TeamPicture:
    """One team."""

    name: str
    objective: str
    members: tuple[Member, ...]
    left: tuple[Member, ...] = ()
    """Who left lately and is not back, the last one first."""


def team_pictures(connection: Connection, config: SupervisorConfig, now: datetime) -> list[TeamPicture]:
    """All teams: those of the configuration, in its order, then those made by hand."""
    supervisor_id = config.supervisor.id
    recorded = {team.name: team for team in teams.of_supervisor(connection, supervisor_id)}

    def rows(team: TeamRow | None) -> Sequence[MemberRow]:
        return teams.members(connection, supervisor_id, team.team_id, left=True) if team else ()

    found = []
    for name, team in config.teams.items():
        mine = [worker.id for worker in config.workers.values() if worker.team == name]
        found.append(_picture(name, team.objective, mine, rows(recorded.get(name)), now))
    for name, made in recorded.items():
        if name not in config.teams and not made.configured:
            history = rows(made)
            mine = [row.agent_id for row in history if row.active]
            found.append(_picture(name, made.objective or "", mine, history, now))
    return found


def _picture(name: str, objective: str, mine: Sequence[str], rows: Sequence[MemberRow], now: datetime) -> TeamPicture:
    roles = {row.agent_id: row.role for row in rows if row.active}
    left = {
        row.agent_id: Member(row.agent_id, str(row.role), row.left_at)
        for row in sorted(rows, key=lambda row: row.left_at or now)
        if row.left_at is not None and now - row.left_at <= LATELY and row.agent_id not in mine
    }
    members = tuple(Member(agent_id, str(roles.get(agent_id, MemberRole.MEMBER))) for agent_id in mine)
    return TeamPicture(name, objective, members, tuple(reversed(left.values())))
