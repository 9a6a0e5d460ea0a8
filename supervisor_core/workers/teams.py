"""The teams of one supervisor: changed by hand or by the configuration, and shown to people.

Teams and members are rows that are never deleted: a member who leaves keeps a row with both times. An agent is in one
team at a time, which a unique column enforces. Every call blocks as long as the database does.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import canonical_json
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.storage import supervisors
from supervisor_core.storage.store import Database, transactions
from supervisor_core.storage.tables import TEAM_NAME, WORKER_ID, team_members, teams

T = TypeVar("T")

_NAMESPACE = uuid.UUID("6f0c2f3e-2d0a-4a55-9a3f-5f9e2b7f4c10")
"""A team's id comes from its name, so that a new ledger has the same ids."""

FORMER_MEMBER_TIME = timedelta(days=7)
"""The time for which a former member is shown."""


class TeamError(SupervisorError, ValueError):
    """The team can't be changed like that."""


class MemberRole(StrEnum):
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
    left_at: datetime | None = None

    @property
    def active(self) -> bool:
        """True if it is in the team now."""
        return self.left_at is None


class TeamManager:
    """The teams of one supervisor. Returned values never change."""

    def __init__(
        self, db: Database, supervisor_id: uuid.UUID | str, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.supervisor_id = str(supervisor_id)
        self._database = transactions(db)
        self._clock = clock

    def create_team(
        self,
        name: str,
        description: str | None = None,
        objective: str | None = None,
        config: Mapping[str, Any] | None = None,
        agent_ids: Iterable[str] | None = None,
    ) -> TeamRow:
        """Create a team with these members. If one of them can't join, no team is created."""
        _check(name, "name of a team", TEAM_NAME)
        agents = list(dict.fromkeys(agent_ids or ()))
        for agent_id in agents:
            _check(agent_id, "id of an agent", WORKER_ID)
        now = self._clock()

        def create(connection: Connection) -> TeamRow:
            for team in _read_teams(connection, teams.c.supervisor_id == self.supervisor_id, teams.c.name == name):
                ended = " It was removed; its name is reserved for its history." if team.ended_at else ""
                raise TeamError(f"Team {name} already exists.{ended}", remedy="Choose another name.")
            values: dict[str, Any] = {"description": description, "config_json": canonical_json(dict(config or {}))}
            team_id = _create_team(connection, self.supervisor_id, name, now, objective=objective, **values)
            for agent_id in agents:
                self._join(connection, team_id, agent_id, MemberRole.MEMBER, now)
            return self._team(connection, team_id)

        return self._write(create)

    def get_teams(self) -> list[TeamRow]:
        """The teams by name, without those that were removed from the configuration."""
        return self._database.read(lambda connection: _current_teams(connection, self.supervisor_id))

    def get_team_members(self, team_id: str) -> list[MemberRow]:
        """The members of the team and those who left it, each once; only the latter have a `left_at`."""
        newest = {member.agent_id: member for member in self.get_team_history(team_id)}
        return sorted(newest.values(), key=lambda member: (member.left_at is not None, member.agent_id))

    def get_team_history(self, team_id: str) -> list[MemberRow]:
        """Every time of a member in the team, the oldest first."""
        own = (team_members.c.supervisor_id == self.supervisor_id, team_members.c.team_id == team_id)
        return self._database.read(lambda connection: _read_members(connection, *own))

    def add_agent_to_team(self, team_id: str, agent_id: str, role: str = "MEMBER") -> MemberRow:
        """Add a member; `ValueError` if it's already in a team, this one included."""
        _check(agent_id, "id of an agent", WORKER_ID)
        if role not in list(MemberRole):
            raise TeamError(f"The role of a member must be one of {', '.join(MemberRole)}, not {role!a}.")
        now = self._clock()

        def add(connection: Connection) -> MemberRow:
            team = self._team(connection, team_id)
            if team.ended_at is not None:
                raise TeamError(
                    f"Team {team.name} was removed.", remedy="To bring it back, add it to the configuration."
                )
            return self._join(connection, team_id, agent_id, MemberRole(role), now)

        return self._write(add)

    def remove_agent_from_team(self, team_id: str, agent_id: str) -> bool:
        """Remove a member, who may join again; False if it isn't in this team."""
        now = self._clock()
        return self._write(lambda connection: _leave(connection, self.supervisor_id, team_id, agent_id, now))

    def get_team_status(self) -> dict[str, Any]:
        """The supervisor's recorded status, None if it never ran, and its teams with their sizes.

        `member_count` includes former members; `active_members` and `total_members` don't.
        """

        def read(connection: Connection) -> dict[str, Any]:
            row = supervisors.find(connection, self.supervisor_id)
            members = _read_members(connection, team_members.c.supervisor_id == self.supervisor_id)
            documents = [
                {
                    "team_id": team.team_id,
                    "team_name": team.name,
                    "objective": team.objective,
                    "member_count": len({member.agent_id for member in members if member.team_id == team.team_id}),
                    "active_members": sum(member.active for member in members if member.team_id == team.team_id),
                }
                for team in _current_teams(connection, self.supervisor_id)
            ]
            return {
                "supervisor_id": self.supervisor_id,
                "status": str(row.status) if row else None,
                "teams": documents,
                "total_teams": len(documents),
                "total_members": sum(document["active_members"] for document in documents),
            }

        return self._database.read(read)

    def sync_with(self, config: SupervisorConfig) -> list[str]:
        """Update the teams to the configuration. Returns the changes in words; none the second time.

        The configuration decides about its own teams and about each worker with a team. Teams made by hand stay, with
        their other members. A team that is removed from the configuration ends: all leave, and its history is kept.
        """
        now, supervisor_id = self._clock(), self.supervisor_id
        assigned = {worker.id: worker.team for worker in config.workers.values() if worker.team}

        def update_team(connection: Connection, team_id: str, **values: object) -> None:
            connection.execute(update(teams).where(teams.c.team_id == team_id).values(updated_at=now, **values))

        def sync(connection: Connection) -> list[str]:
            changes: list[str] = []
            known = {team.name: team for team in _read_teams(connection, teams.c.supervisor_id == supervisor_id)}
            ids = {}
            for name, settings in config.teams.items():
                team = known.get(name)
                values: dict[str, Any] = {"objective": settings.objective or None, "configured": True}
                if team is None:
                    changes.append(f"added team {name}")
                    ids[name] = _create_team(connection, supervisor_id, name, now, **values)
                    continue
                ids[name] = team.team_id
                if (team.objective, team.configured, team.ended_at) != (*values.values(), None):
                    changes.append(f"{'restored' if team.ended_at else 'changed'} team {name}")
                    update_team(connection, team.team_id, ended_at=None, **values)
            for name, team in known.items():
                if team.configured and team.ended_at is None and name not in config.teams:
                    changes.append(f"removed team {name}")
                    update_team(connection, team.team_id, ended_at=now)
            names = {team.team_id: name for name, team in known.items()}
            by_hand = {team.team_id for name, team in known.items() if not team.configured and name not in ids}
            staying = set()
            active = team_members.c.supervisor_id == supervisor_id, team_members.c.active_agent_id.is_not(None)
            for member in sorted(_read_members(connection, *active), key=lambda member: member.agent_id):
                agent_id, name = member.agent_id, assigned.get(member.agent_id, "")
                if member.team_id == ids.get(name) or (not name and member.team_id in by_hand):
                    staying.add(agent_id)
                else:
                    changes.append(f"{agent_id} left team {names[member.team_id]}")
                    _leave(connection, supervisor_id, member.team_id, agent_id, now)
            for agent_id, name in assigned.items():
                if agent_id not in staying:
                    changes.append(f"{agent_id} joined team {name}")
                    add_member(connection, supervisor_id, ids[name], agent_id, MemberRole.MEMBER, now)
            return changes

        return self._write(sync)

    def _team(self, connection: Connection, team_id: str) -> TeamRow:
        for team in _read_teams(connection, teams.c.supervisor_id == self.supervisor_id, teams.c.team_id == team_id):
            return team
        raise TeamError(f"Supervisor {self.supervisor_id} has no team with id {team_id!a}.")

    def _join(self, connection: Connection, team_id: str, agent_id: str, role: MemberRole, now: datetime) -> MemberRow:
        own = team_members.c.supervisor_id == self.supervisor_id, team_members.c.active_agent_id == agent_id
        for member in _read_members(connection, *own):
            name = self._team(connection, member.team_id).name
            raise TeamError(
                f"{agent_id} is already in team {name}, and can be in only one.",
                remedy=f"Remove it from {name} first.",
            )
        return add_member(connection, self.supervisor_id, team_id, agent_id, role, now)

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Write, and retry once if somebody else wrote the same between our read and our write."""
        try:
            return self._database.write(work)
        except IntegrityError:
            return self._database.write(work)


def _check(text: str, subject: str, length: int) -> None:
    if not text.strip() or not text.isprintable() or len(text) > length:
        raise TeamError(f"The {subject} must be 1 to {length} printable characters, not {text[:80]!a}.")


def _create_team(
    connection: Connection,
    supervisor_id: str,
    name: str,
    now: datetime,
    *,
    objective: str | None,
    description: str | None = None,
    config_json: str = "{}",
    configured: bool = False,
) -> str:
    team_id = str(uuid.uuid5(_NAMESPACE, f"{supervisor_id}\n{name}"))
    facts = {"description": description, "objective": objective, "config_json": config_json, "configured": configured}
    times = {"created_at": now, "updated_at": now}
    connection.execute(insert(teams).values(team_id=team_id, supervisor_id=supervisor_id, name=name, **facts, **times))
    return team_id


def _read_teams(connection: Connection, *conditions: ColumnElement[bool]) -> list[TeamRow]:
    query = select(teams).where(*conditions).order_by(teams.c.name)
    rows = [dict(row) for row in connection.execute(query).mappings()]
    return [TeamRow(config=json.loads(row.pop("config_json")), **row) for row in rows]


def _current_teams(connection: Connection, supervisor_id: str) -> list[TeamRow]:
    """The supervisor's teams by name, without those that were removed from the configuration."""
    return _read_teams(connection, teams.c.supervisor_id == supervisor_id, teams.c.ended_at.is_(None))


def _read_members(connection: Connection, *conditions: ColumnElement[bool]) -> list[MemberRow]:
    columns = [team_members.c[name] for name in MemberRow.__dataclass_fields__]
    query = select(*columns).where(*conditions).order_by(team_members.c.joined_at, team_members.c.agent_id)
    return [MemberRow(**{**row, "role": MemberRole(row["role"])}) for row in connection.execute(query).mappings()]


def add_member(
    connection: Connection, supervisor_id: str, team_id: str, agent_id: str, role: MemberRole, now: datetime
) -> MemberRow:
    """Add a member; `IntegrityError` if it's already in a team."""
    member = MemberRow(str(uuid.uuid4()), team_id, agent_id, role, now)
    row = {name: value for name, value in asdict(member).items() if name != "left_at"}
    connection.execute(insert(team_members).values(supervisor_id=supervisor_id, active_agent_id=agent_id, **row))
    return member


def _leave(connection: Connection, supervisor_id: str, team_id: str, agent_id: str, now: datetime) -> bool:
    """False if the agent isn't in this team."""
    own = (team_members.c.supervisor_id == supervisor_id, team_members.c.active_agent_id == agent_id)
    query = update(team_members).where(*own, team_members.c.team_id == team_id)
    return connection.execute(query.values(active_agent_id=None, left_at=now)).rowcount == 1


@dataclass(frozen=True, slots=True)
class TeamMember:
    agent_id: str
    role: str
    left_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TeamPicture:
    name: str
    objective: str
    members: tuple[TeamMember, ...]
    left: tuple[TeamMember, ...] = ()
    """The members that left recently and aren't back, last one first."""


def team_pictures(connection: Connection, config: SupervisorConfig, now: datetime) -> list[TeamPicture]:
    """All teams: the configured ones in their order, then those made by hand."""
    recorded = {team.name: team for team in _current_teams(connection, config.supervisor.id)}
    by_hand = [name for name, team in recorded.items() if name not in config.teams and not team.configured]
    pictures = []
    for name in [*config.teams, *by_hand]:
        team = recorded.get(name)
        rows = _read_members(connection, team_members.c.team_id == team.team_id) if team else []
        roles = {row.agent_id: row.role for row in rows if row.active}
        if name in config.teams:
            objective = config.teams[name].objective
            ids = [worker.id for worker in config.workers.values() if worker.team == name]
        else:
            objective, ids = (team.objective if team else None) or "", list(roles)
        members = tuple(TeamMember(agent_id, str(roles.get(agent_id, MemberRole.MEMBER))) for agent_id in ids)
        former = {
            row.agent_id: TeamMember(row.agent_id, str(row.role), row.left_at)
            for row in sorted(rows, key=lambda row: row.left_at or now)
            if row.left_at and now - row.left_at <= FORMER_MEMBER_TIME and row.agent_id not in ids
        }
        pictures.append(TeamPicture(name, objective, members, tuple(reversed(former.values()))))
    return pictures
