"""`supervisor teams`: the teams, their members, and who of them is unhealthy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli import status
from supervisor_core.cli.output import print_json, print_table
from supervisor_core.commands.command import Command
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.workers.teams import TeamPicture, team_pictures


def show(_command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    now = datetime.now(UTC)
    with opened_ledger(config) as ledger:
        teams = ledger.read(lambda connection: team_pictures(connection, config, now))
    document = status.ask_status(str(config.state_dir), str(config.path))
    workers = {worker["id"]: worker for worker in document["workers"]}
    if as_json:
        print_json([_team_document(team, workers) for team in teams], indented=True)
        return 0
    if not teams:
        print("No teams are configured. Define them under `teams`, and set `workers.ID.team`.")
        return 0
    rows = []
    for team in teams:
        members = [
            member.agent_id if member.role == "MEMBER" else f"{member.agent_id} ({member.role.lower()})"
            for member in team.members
        ]
        ids = [member.agent_id for member in team.members]
        unhealthy = [worker_id for worker_id in ids if worker_id in workers and not workers[worker_id]["fine"]]
        former = ", ".join(member.agent_id for member in team.left)
        rows.append((team.name, ", ".join(members), ", ".join(unhealthy), former, team.objective))
    print_table(("TEAM", "MEMBERS", "UNHEALTHY", "LEFT RECENTLY", "OBJECTIVE"), rows)
    return 0


def _team_document(team: TeamPicture, workers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A team as JSON, with the keys of `supervisor status team:NAME --json`."""
    members = []
    for member in team.members:
        worker = workers.get(member.agent_id, {})
        facts = {key: worker.get(key) for key in ("state", "health", "fine", "paused")}
        members.append({"agent_id": member.agent_id, "role": member.role, **facts})
    return {"team_name": team.name, "objective": team.objective or None, "members": members, "left": team.left}
