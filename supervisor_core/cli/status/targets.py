"""`supervisor status TARGET`: the status of one worker, of some, or of a team with its members."""

from __future__ import annotations

from pathlib import Path

from supervisor_core.commands.addresses import hosts_of
from supervisor_core.commands.conditions import facts_of
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.commands.targets import TEAM, GrammarContext, resolve, unknown_target
from supervisor_core.common.errors import UsageError
from supervisor_core.config.raw import RawConfig, state_dir_of
from supervisor_core.storage.ledger_file import LEDGER_FILE, StoredTeam, read_teams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ROLE = "MEMBER"
"""The role of a worker in its configured team."""


def narrow(status: dict[str, Any], target: str, raw: RawConfig) -> None:
    """Reduce the document to the target; `UsageError` with the nearest one if there is no such target."""
    configured = _section(raw, "workers")
    ids = list(dict.fromkeys([*(worker["id"] for worker in status["workers"]), *configured]))
    supervisor_id = status["supervisor"]["id"]
    seen = {team.name: team for team in read_teams(Path(state_dir_of(raw)) / LEDGER_FILE, supervisor_id)}
    names = list(dict.fromkeys([*seen, *_section(raw, "teams")]))
    members = {name: _members(seen.get(name), configured, name) for name in names}
    active = {name: tuple(each["agent_id"] for each in found if each["active"]) for name, found in members.items()}
    facts = facts_of(status["workers"], {each["id"]: each.get("commit") or "" for each in status["workers"]})
    context = GrammarContext(tuple(ids), active, hosts=hosts_of(ids, supervisor_id), facts=facts)
    name = target.removeprefix(TEAM) if target.startswith(TEAM) else ""
    chosen = active[name] if name in active else _resolved(target, context)
    if name in active:
        status["team"] = _document(name, seen.get(name), _section(raw, "teams").get(name), members[name])
    there = {worker["id"] for worker in status["workers"]}
    new = [worker_id for worker_id in chosen if worker_id in configured and worker_id not in there]
    if new:
        status["supervisor"]["reason"] = (
            f"The daemon hasn't read {', '.join(new)} yet. It reads a changed configuration within seconds; "
            "`supervisor config check` says what it does with this one."
        )
    status["workers"] = [worker for worker in status["workers"] if worker["id"] in chosen]
    status["healthy"] = not new and all(worker["fine"] for worker in status["workers"])


def _resolved(target: str, context: GrammarContext) -> tuple[str, ...]:
    try:
        found = resolve(target, context)
        if found is None:
            raise unknown_target(target, context)
    except GrammarError as error:
        hint = f"Did you mean {error.instead}?" if error.instead else ""
        raise UsageError(error.message, remedy=hint) from None
    return found


def _document(name: str, seen: StoredTeam | None, configured: Any, members: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: ANN401 (YAML)
    """The same keys as `TeamManager.get_team_status` has for a team, and its members."""
    objective = seen.objective if seen else configured.get("objective") if isinstance(configured, dict) else None
    return {
        "team_id": seen.team_id if seen else None,
        "team_name": name,
        "objective": str(objective) if objective else None,
        "member_count": len(members),
        "active_members": sum(member["active"] for member in members),
        "ended_at": seen.ended_at if seen else None,
        "recorded": seen is not None,
        "members": members,
    }


def _members(seen: StoredTeam | None, workers: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Each agent once, with its newest membership; active members first."""
    if seen is None:
        mine = [key for key, worker in workers.items() if isinstance(worker, dict) and worker.get("team") == name]
        return [{"agent_id": each, "role": ROLE, "active": True, "joined_at": None, "left_at": None} for each in mine]
    newest = {member.agent_id: member for member in seen.members}  # in the order in which they came
    found = [
        {
            "agent_id": member.agent_id,
            "role": member.role,
            "active": member.left_at is None,
            "joined_at": member.joined_at,
            "left_at": member.left_at,
        }
        for member in newest.values()
    ]
    return sorted(found, key=lambda member: not member["active"])


def _section(raw: RawConfig, name: str) -> Mapping[str, Any]:
    """A section of a configuration that may be invalid."""
    found = raw.data.get(name)
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}
