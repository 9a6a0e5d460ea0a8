"""The rights that the configuration gives to people by their own id, for where nobody asks who is in a group."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.domain.command import person_of
from supervisor_core.domain.definitions import Right

PEOPLE = ("U", "W")
"""How the ids of single people begin; the other ids in a list mean several."""


def not_listed(config: SupervisorConfig, who_id: str, command: str, worker_id: str, right: Right) -> str:
    """Why the configuration doesn't give this person the right on this worker, in words; empty where it does."""
    access = config.slack.access
    by_command = access.commands.get(command) if right is not Right.APPROVER else None
    if by_command is not None:
        named: Sequence[str] = by_command
        key = f"slack.access.commands.{command}"
    else:
        role = "approvers" if right is Right.APPROVER else "operators"
        worker = config.workers.get(worker_id)
        team = config.teams.get(worker.team) if worker else None
        named = [*getattr(access, role), *(getattr(team, role) if team else ())]
        key = f"slack.access.{role} or for the worker's team"
    if person_of(who_id) in {f"slack:{user}" for user in named if user.startswith(PEOPLE)}:
        return ""
    return f"{who_id} isn't listed by id in {key}, so the flag can't speak for them."
