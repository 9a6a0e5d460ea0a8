"""What `supervisor send` shows of teams, and of what workers wrote: the same looks as in Slack."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.status_command import ask_status
from supervisor_core.cli.table import folded_table
from supervisor_core.config import load_supervisor_config
from supervisor_core.domain.command import Command
from supervisor_core.domain.times import to_text
from supervisor_core.handlers.newest_lines import NewestLines, Written
from supervisor_core.runtime.doors import open_drive
from supervisor_core.runtime.host import opened_ledger
from supervisor_core.runtime.team_pictures import TeamPicture, team_pictures

HEAD = ("TEAM", "MEMBERS", "IN TROUBLE", "LEFT LATELY", "OBJECTIVE")


def teams(_command: Command, config: str | None, *, as_json: bool) -> int:
    """All teams, and how their members are."""
    loaded, now = load_supervisor_config(config), datetime.now(UTC)
    with opened_ledger(loaded) as ledger:
        found = ledger.read(lambda connection: team_pictures(connection, loaded, now))
    status = ask_status(str(loaded.state_dir), config)
    workers = {worker["id"]: worker for worker in status["workers"]}
    if as_json:
        print(json.dumps([_document(team, workers) for team in found], indent=2))
    elif not found:
        print("There are no teams. `teams` in the configuration names them, and `workers.ID.team` says who is in.")
    else:
        width = os.get_terminal_size().columns if sys.stdout.isatty() else None
        print(folded_table(HEAD, [_row(team, workers) for team in found], width))
    return 0


def logs(command: Command, config: str | None, *, as_json: bool) -> int:
    """The newest lines of each worker; 1 where those of one can't be read."""
    loaded = load_supervisor_config(config)
    found = NewestLines()(open_drive(loaded), loaded, command.workers, int(command.params["lines"]))
    if as_json:
        print(json.dumps([asdict(written) for written in found], indent=2))
    else:
        print("\n\n".join(_lines(written, named=len(found) > 1) for written in found))
    return 1 if any(written.problem for written in found) else 0


def _lines(written: Written, *, named: bool) -> str:
    head = [f"==> {written.worker_id}: {written.path} <=="] if named else []
    if written.problem:
        return "\n".join([*head, f"{written.worker_id}: what it wrote can't be read. {written.problem}"])
    if written.nothing:
        return "\n".join([*head, f"{written.worker_id} has written nothing yet; it would be in {written.path}."])
    return "\n".join([*head, *written.lines])


def _row(team: TeamPicture, workers: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    unwell = [each.agent_id for each in team.members if each.agent_id in workers and not workers[each.agent_id]["fine"]]
    members = [
        each.agent_id if each.role == "MEMBER" else f"{each.agent_id} ({each.role.lower()})" for each in team.members
    ]
    left = [each.agent_id for each in team.left]
    return (team.name, ", ".join(members), ", ".join(unwell), ", ".join(left), team.objective)


def _document(team: TeamPicture, workers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The same names as `supervisor status team:NAME --json` has."""
    keys = ("state", "health", "fine", "paused")
    return {
        "team_name": team.name,
        "objective": team.objective or None,
        "members": [
            {"agent_id": each.agent_id, "role": each.role}
            | {key: workers.get(each.agent_id, {}).get(key) for key in keys}
            for each in team.members
        ],
        "left": [
            {"agent_id": each.agent_id, "role": each.role, "left_at": to_text(each.left_at) if each.left_at else None}
            for each in team.left
        ],
    }
