"""Teams and their members, as rows that are never deleted: a member who leaves keeps a row with both times.

Each supervisor has its own teams; an agent is in one of them at a time, which a unique column enforces.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from supervisor_core.common.text import canonical_json
from supervisor_core.storage.tables import team_members, teams

_IDS = uuid.UUID("6f0c2f3e-2d0a-4a55-9a3f-5f9e2b7f4c10")
"""The namespace of the ids of teams."""


class MemberRole(StrEnum):
    """The role of an agent in a team."""

    LEAD = "LEAD"
    MEMBER = "MEMBER"
    TRAINEE = "TRAINEE"


@dataclass(frozen=True, slots=True)
class TeamRow:
    """A named group of agents with an objective."""

    team_id: str
    supervisor_id: str
    name: str
    description: str | None
    objective: str | None
    config: Mapping[str, Any]
    configured: bool
    """True if it comes from the configuration, which also ends it."""
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    """The time at which it was removed from the configuration. Its history is kept, and it may come back."""

    @property
    def id(self) -> str:
        """Its `team_id`."""
        return self.team_id


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One agent's time in one team."""

    member_id: str
    team_id: str
    agent_id: str
    role: MemberRole
    joined_at: datetime
    left_at: datetime | None

    @property
    def active(self) -> bool:
        """True if it is in the team now."""
        return self.left_at is None


@dataclass(frozen=True, slots=True)
class TeamCounts:
    """The number of agents in a team."""

    ever: int
    """All members ever, each counted once."""
    active: int


def id_of(supervisor_id: str, name: str) -> str:
    """The id of a team, from its name, so that a new ledger has the same ids."""
    return str(uuid.uuid5(_IDS, f"{supervisor_id}\n{name}"))


def create(
    connection: Connection,
    supervisor_id: str,
    name: str,
    now: datetime,
    *,
    description: str | None = None,
    objective: str | None = None,
    config: Mapping[str, Any] | None = None,
    configured: bool = False,
) -> str:
    """Create a team. Returns its id; `IntegrityError` if the name exists."""
    team_id = id_of(supervisor_id, name)
    row = {
        "team_id": team_id,
        "supervisor_id": supervisor_id,
        "name": name,
        "description": description,
        "objective": objective,
        "config_json": canonical_json(dict(config or {})),
        "configured": configured,
        "created_at": now,
        "updated_at": now,
    }
    connection.execute(insert(teams), row)
    return team_id


def change(connection: Connection, team_id: str, now: datetime, **values: Any) -> None:  # noqa: ANN401 (of any column)
    """Set columns of a team."""
    connection.execute(update(teams).where(teams.c.team_id == team_id).values(updated_at=now, **values))


def find(connection: Connection, supervisor_id: str, team_id: str) -> TeamRow | None:
    """The team with this id."""
    mine = (teams.c.supervisor_id == supervisor_id, teams.c.team_id == team_id)
    found = connection.execute(select(teams).where(*mine)).mappings().first()
    return _team(found) if found else None


def named(connection: Connection, supervisor_id: str, name: str) -> TeamRow | None:
    """The team with this name."""
    mine = (teams.c.supervisor_id == supervisor_id, teams.c.name == name)
    found = connection.execute(select(teams).where(*mine)).mappings().first()
    return _team(found) if found else None


def of_supervisor(connection: Connection, supervisor_id: str, *, ended: bool = False) -> list[TeamRow]:
    """The supervisor's teams by name, on request with the ended ones."""
    query = select(teams).where(teams.c.supervisor_id == supervisor_id).order_by(teams.c.name)
    if not ended:
        query = query.where(teams.c.ended_at.is_(None))
    return [_team(found) for found in connection.execute(query).mappings()]


def counts(connection: Connection, supervisor_id: str) -> dict[str, TeamCounts]:
    """The counts for each team that ever had a member."""
    agents = func.count(team_members.c.agent_id.distinct())
    query = select(team_members.c.team_id, agents, func.count(team_members.c.active_agent_id))
    query = query.where(team_members.c.supervisor_id == supervisor_id).group_by(team_members.c.team_id)
    return {team_id: TeamCounts(ever, active) for team_id, ever, active in connection.execute(query)}


def members(connection: Connection, supervisor_id: str, team_id: str, *, left: bool = False) -> list[MemberRow]:
    """The members of a team in the order in which they joined; `left` includes former ones."""
    mine = (team_members.c.supervisor_id == supervisor_id, team_members.c.team_id == team_id)
    query = select(team_members).where(*mine).order_by(team_members.c.joined_at, team_members.c.agent_id)
    if not left:
        query = query.where(team_members.c.active_agent_id.is_not(None))
    return [_member(found) for found in connection.execute(query).mappings()]


def active_in(connection: Connection, supervisor_id: str) -> dict[str, MemberRow]:
    mine = (team_members.c.supervisor_id == supervisor_id, team_members.c.active_agent_id.is_not(None))
    found = connection.execute(select(team_members).where(*mine).order_by(team_members.c.agent_id)).mappings()
    return {row["agent_id"]: _member(row) for row in found}


def add(
    connection: Connection, supervisor_id: str, team_id: str, agent_id: str, role: MemberRole, now: datetime
) -> MemberRow:
    """Add a member; `IntegrityError` if it's already in a team."""
    row: dict[str, Any] = {
        "member_id": str(uuid.uuid4()),
        "team_id": team_id,
        "supervisor_id": supervisor_id,
        "agent_id": agent_id,
        "active_agent_id": agent_id,
        "role": role,
        "joined_at": now,
    }
    connection.execute(insert(team_members), row)
    return MemberRow(row["member_id"], team_id, agent_id, role, now, None)


def remove(connection: Connection, supervisor_id: str, team_id: str, agent_id: str, now: datetime) -> bool:
    """Remove a member; False if it isn't in this team."""
    mine = (team_members.c.supervisor_id == supervisor_id, team_members.c.active_agent_id == agent_id)
    gone = update(team_members).where(*mine, team_members.c.team_id == team_id)
    return connection.execute(gone.values(active_agent_id=None, left_at=now)).rowcount == 1


def _team(found: RowMapping) -> TeamRow:
    values = dict(found)
    config = _frozen(json.loads(values.pop("config_json")))
    return TeamRow(config=config, **values)


def _member(found: RowMapping) -> MemberRow:
    values = {name: found[name] for name in MemberRow.__dataclass_fields__}
    return MemberRow(**{**values, "role": MemberRole(values["role"])})


def _frozen(value: Any) -> Any:  # noqa: ANN401 (whatever JSON holds)
    if isinstance(value, dict):
        return MappingProxyType({name: _frozen(each) for name, each in value.items()})
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value
