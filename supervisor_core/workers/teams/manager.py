"""The teams of one supervisor: changed by hand or by the configuration, and shown to people.

Every call blocks as long as the database does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.storage import supervisors
from supervisor_core.storage.store import Database, transactions
from supervisor_core.storage.tables import TEAM_NAME, WORKER_ID
from supervisor_core.workers.teams import rows as teams
from supervisor_core.workers.teams.rows import MemberRole, MemberRow, TeamCounts, TeamRow

T = TypeVar("T")


class TeamError(SupervisorError, ValueError):
    """The team can't be changed like that."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TeamManager:
    """The teams of one supervisor. Returned values never change."""

    def __init__(self, db: Database, supervisor_id: UUID | str, *, clock: Callable[[], datetime] = _utc_now) -> None:
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
        name = _checked(name, "name of a team", TEAM_NAME)
        agents = [_agent(agent_id) for agent_id in dict.fromkeys(agent_ids or ())]
        now = self._clock()

        def work(connection: Connection) -> TeamRow:
            known = teams.named(connection, self.supervisor_id, name)
            if known is not None:
                ended = " It was removed; its name is reserved for its history." if known.ended_at else ""
                raise TeamError(f"Team {name} already exists.{ended}", remedy="Choose another name.")
            texts: dict[str, Any] = {"description": description, "objective": objective, "config": config}
            team_id = teams.create(connection, self.supervisor_id, name, now, **texts)
            for agent_id in agents:
                self._join(connection, team_id, agent_id, MemberRole.MEMBER, now)
            return self._team(connection, team_id)

        return self._write(work)

    def get_teams(self) -> list[TeamRow]:
        """The teams by name, without those that were removed from the configuration."""
        return self._database.read(lambda connection: teams.of_supervisor(connection, self.supervisor_id))

    def get_team_members(self, team_id: str) -> list[MemberRow]:
        """The members of the team and those who left it, each once; only the latter have a `left_at`."""
        newest = {member.agent_id: member for member in self.get_team_history(team_id)}
        return sorted(newest.values(), key=lambda member: (member.left_at is not None, member.agent_id))

    def get_team_history(self, team_id: str) -> list[MemberRow]:
        """Every time of a member in the team, the oldest first."""
        return self._database.read(lambda connection: teams.members(connection, self.supervisor_id, team_id, left=True))

    def add_agent_to_team(self, team_id: str, agent_id: str, role: str = "MEMBER") -> MemberRow:
        """Add a member; `ValueError` if it's already in a team, this one included."""
        agent_id, wanted, now = _agent(agent_id), _role(role), self._clock()

        def work(connection: Connection) -> MemberRow:
            team = self._team(connection, team_id)
            if team.ended_at is not None:
                raise TeamError(
                    f"Team {team.name} was removed.", remedy="To bring it back, add it to the configuration."
                )
            return self._join(connection, team_id, agent_id, wanted, now)

        return self._write(work)

    def remove_agent_from_team(self, team_id: str, agent_id: str) -> bool:
        """Remove a member, who may join again; False if it isn't in this team."""
        now = self._clock()
        return self._database.write(
            lambda connection: teams.remove(connection, self.supervisor_id, team_id, agent_id, now)
        )

    def get_team_status(self) -> dict[str, Any]:
        """The supervisor's recorded status, None if it never ran, and its teams with their sizes.

        `member_count` includes former members; `active_members` and `total_members` don't.
        """

        def look(connection: Connection) -> dict[str, Any]:
            row = supervisors.find(connection, self.supervisor_id)
            counts = teams.counts(connection, self.supervisor_id)
            shown = [
                _shown(team, counts.get(team.team_id, TeamCounts(0, 0)))
                for team in teams.of_supervisor(connection, self.supervisor_id)
            ]
            return {
                "supervisor_id": self.supervisor_id,
                "status": str(row.status) if row else None,
                "teams": shown,
                "total_teams": len(shown),
                "total_members": sum(team["active_members"] for team in shown),
            }

        return self._database.read(look)

    def sync_with(self, config: SupervisorConfig) -> list[str]:
        """Update the teams to the configuration. Returns the changes in words; none the second time.

        The configuration decides about its own teams and about each worker with a team. Teams made by hand stay, with
        their other members. A team that is removed from the configuration ends: all leave, and its history is kept.
        """
        now = self._clock()
        wanted = {worker.id: worker.team for worker in config.workers.values() if worker.team}
        objectives = {name: team.objective for name, team in config.teams.items()}

        def work(connection: Connection) -> list[str]:
            changes: list[str] = []
            ids = self._sync_teams(connection, objectives, now, changes)
            self._sync_members(connection, wanted, ids, now, changes)
            return changes

        return self._write(work)

    def _sync_teams(
        self, connection: Connection, objectives: Mapping[str, str], now: datetime, changes: list[str]
    ) -> dict[str, str]:
        """Create, change and end teams. Returns the ids of the configured ones, by name."""
        known = {team.name: team for team in teams.of_supervisor(connection, self.supervisor_id, ended=True)}
        ids = {}
        for name, objective in objectives.items():
            team = known.get(name)
            values = {"objective": objective or None, "configured": True}
            if team is None:
                changes.append(f"added team {name}")
                ids[name] = teams.create(connection, self.supervisor_id, name, now, **values)  # type: ignore[arg-type]
                continue
            ids[name] = team.team_id
            if (team.objective, team.configured, team.ended_at) != (objective or None, True, None):
                changes.append(f"{'restored' if team.ended_at else 'changed'} team {name}")
                teams.change(connection, team.team_id, now, ended_at=None, **values)
        for name, team in known.items():
            if team.configured and team.ended_at is None and name not in objectives:
                changes.append(f"removed team {name}")
                teams.change(connection, team.team_id, now, ended_at=now)
        return ids

    def _sync_members(
        self,
        connection: Connection,
        wanted: Mapping[str, str],
        ids: Mapping[str, str],
        now: datetime,
        changes: list[str],
    ) -> None:
        known = {team.team_id: team for team in teams.of_supervisor(connection, self.supervisor_id, ended=True)}
        staying = set()
        for agent_id, member in teams.active_in(connection, self.supervisor_id).items():
            team, there = known[member.team_id], wanted.get(agent_id)
            if member.team_id == ids.get(there or "") or (there is None and not team.configured):
                staying.add(agent_id)
                continue
            changes.append(f"{agent_id} left team {team.name}")
            teams.remove(connection, self.supervisor_id, member.team_id, agent_id, now)
        for agent_id, name in wanted.items():
            if agent_id not in staying:
                changes.append(f"{agent_id} joined team {name}")
                teams.add(connection, self.supervisor_id, ids[name], agent_id, MemberRole.MEMBER, now)

    def _team(self, connection: Connection, team_id: str) -> TeamRow:
        team = teams.find(connection, self.supervisor_id, team_id)
        if team is None:
            raise TeamError(f"Supervisor {self.supervisor_id} has no team with id {team_id!a}.")
        return team

    def _join(self, connection: Connection, team_id: str, agent_id: str, role: MemberRole, now: datetime) -> MemberRow:
        member = teams.active_in(connection, self.supervisor_id).get(agent_id)
        if member is not None:
            there = self._team(connection, member.team_id).name
            raise TeamError(
                f"{agent_id} is already in team {there}, and can be in only one.",
                remedy=f"Remove it from {there} first.",
            )
        return teams.add(connection, self.supervisor_id, team_id, agent_id, role, now)

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Write, and retry once if somebody else wrote the same between our read and our write."""
        try:
            return self._database.write(work)
        except IntegrityError:
            return self._database.write(work)


def _shown(team: TeamRow, counts: TeamCounts) -> dict[str, Any]:
    return {
        "team_id": team.team_id,
        "team_name": team.name,
        "objective": team.objective,
        "member_count": counts.ever,
        "active_members": counts.active,
    }


def _checked(text: str, what: str, most: int) -> str:
    if not text.strip() or not text.isprintable() or len(text) > most:
        raise TeamError(f"The {what} must be 1 to {most} printable characters, not {text[:80]!a}.")
    return text


def _agent(agent_id: str) -> str:
    return _checked(agent_id, "id of an agent", WORKER_ID)


def _role(role: str) -> MemberRole:
    try:
        return MemberRole(role)
    except ValueError:
        raise TeamError(f"The role of a member must be one of {', '.join(MemberRole)}, not {role!a}.") from None


LATELY = timedelta(days=7)
"""The time for which a former member is shown."""


@dataclass(frozen=True, slots=True)
class TeamMember:
    """A present or former member of a team."""

    agent_id: str
    role: str
    left_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TeamPicture:
    """A team with its members."""

    name: str
    objective: str
    members: tuple[TeamMember, ...]
    left: tuple[TeamMember, ...] = ()
    """The members that left recently and aren't back, last one first."""


def team_pictures(connection: Connection, config: SupervisorConfig, now: datetime) -> list[TeamPicture]:
    """All teams: the configured ones in their order, then those made by hand."""
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
        row.agent_id: TeamMember(row.agent_id, str(row.role), row.left_at)
        for row in sorted(rows, key=lambda row: row.left_at or now)
        if row.left_at is not None and now - row.left_at <= LATELY and row.agent_id not in mine
    }
    members = tuple(TeamMember(agent_id, str(roles.get(agent_id, MemberRole.MEMBER))) for agent_id in mine)
    return TeamPicture(name, objective, members, tuple(reversed(left.values())))
