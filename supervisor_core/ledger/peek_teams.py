"""The teams in a ledger, looked at without SQLAlchemy and without changing anything; for `supervisor status`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

BUSY_SECONDS = 2.0
_TEAMS = """
SELECT team_id, name, objective, ended_at FROM teams_t WHERE supervisor_id = ? ORDER BY name
"""
_MEMBERS = """
SELECT team_id, agent_id, role, joined_at, left_at FROM team_members_t WHERE supervisor_id = ?
ORDER BY joined_at, active_agent_id IS NOT NULL, left_at, agent_id
"""


class MemberSeen(NamedTuple):
    """One agent's time in a team; the times as they stand in the file."""

    agent_id: str
    role: str
    joined_at: str
    left_at: str | None


class TeamSeen(NamedTuple):
    """A team and all who are or were in it, in the order in which they came."""

    team_id: str
    name: str
    objective: str | None
    ended_at: str | None
    members: tuple[MemberSeen, ...]


def teams_seen(path: Path, supervisor_id: str) -> list[TeamSeen]:
    """The teams of this supervisor, those that have ended included; none where the file does not tell of any."""
    address = f"file:{quote(str(path))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as connection:
            connection.execute("BEGIN")
            teams = connection.execute(_TEAMS, (supervisor_id,)).fetchall()
            members = connection.execute(_MEMBERS, (supervisor_id,)).fetchall()
    except sqlite3.Error:  # no ledger yet, one without these tables, a damaged one: that is the business of `doctor`
        return []
    seen = []
    for team_id, name, objective, ended_at in teams:
        mine = tuple(MemberSeen(*member) for team, *member in members if team == team_id)
        seen.append(TeamSeen(team_id, name, objective, ended_at, mine))
    return seen
