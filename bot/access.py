"""Who may do what, decided purely and closed by default: no role, no right; and a refusal says what is missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from supervisor_core.config.chat import Slack
from supervisor_core.config.workers import Team, Worker
from supervisor_core.domain.catalog import CATALOG
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import CommandDefinition, Right

EVERYBODY = "*"
"""Every full member of this workspace; never a guest, never somebody of another one."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody in Slack, as Slack described them. What could not be found out is not assumed."""

    id: str
    team_id: str
    name: str = ""
    deleted: bool = False
    is_bot: bool = False
    is_guest: bool = False
    groups: frozenset[str] = frozenset()
    """The user groups that they are in, of those that the configuration names."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration says about rights, and which workspace is ours."""

    slack: Slack
    teams: Mapping[str, Team]
    workers: Mapping[str, Worker]
    workspace: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody may not do this, in words for them alone."""

    missing: str
    words: str
    by_role: bool = False
    """They may not because of the roles that they have: another role would do, such as one that a group gives them."""


def refusal(
    person: Person | None, definition: CommandDefinition, command: Command | None, channel: str, rules: Rules
) -> Refusal | None:
    """None where this person may give this command here; else why not, and who could."""
    if person is None:
        return Refusal("identity", "Slack does not say who you are at the moment, so nothing was done. Try again soon.")
    if person.deleted or person.is_bot:
        return Refusal("identity", "Only people with an active account can give commands.")
    if rules.slack.channels and channel not in rules.slack.channels:
        places = ", ".join(f"<#{place}>" for place in rules.slack.channels)
        return Refusal("channel", f"Commands are taken only in {places}.")
    if _has(person, definition.right, command.workers if command else (), rules):
        return None
    return _lacks(definition, rules)


def may_give(person: Person | None, command: Command, rules: Rules) -> Refusal | None:
    """None where this person may still give this command, wherever that was; else why not."""
    definition = CATALOG[command.name]
    return _who(person) or (
        None if _has(_sure(person), definition.right, command.workers, rules) else _lacks(definition, rules)
    )


def may_approve(person: Person | None, command: Command, rules: Rules) -> Refusal | None:
    """None where this person's vote on this command counts; else why not. A guest's never does."""
    refused = _who(person)
    if refused is not None:
        return refused
    if _sure(person).is_guest:
        return Refusal("identity", "Guests can't approve anything.")
    if _has(_sure(person), Right.APPROVER, command.workers, rules):
        return None
    return _lacks(CATALOG["approvals"], rules)


def may_see(person: Person | None, definition: CommandDefinition, rules: Rules) -> bool:
    """Whether help shows this command to them: whether they have the right for any worker at all."""
    if person is None or person.deleted or person.is_bot:
        return False
    return _has(person, definition.right, (), rules) or any(
        _has(person, definition.right, (worker,), rules) for worker in rules.workers
    )


def _has(person: Person, right: Right, workers: Collection[str], rules: Rules) -> bool:
    access = rules.slack.access
    if right is Right.VIEWER:
        listed = (*access.viewers, *access.operators, *access.approvers)
        of_teams = (who for team in rules.teams.values() for who in (*team.operators, *team.approvers))
        return _is_among(person, (*listed, *of_teams), rules)
    general = access.operators if right is Right.OPERATOR else access.approvers
    if _is_among(person, general, rules):
        return True
    return bool(workers) and all(_has_for_team(person, right, worker, rules) for worker in workers)


def _has_for_team(person: Person, right: Right, worker_id: str, rules: Rules) -> bool:
    """Whether their rights in the team of this worker suffice."""
    worker = rules.workers.get(worker_id)
    team = rules.teams.get(worker.team) if worker else None
    if team is None:
        return False
    return _is_among(person, team.operators if right is Right.OPERATOR else team.approvers, rules)


def _is_among(person: Person, listed: Collection[str], rules: Rules) -> bool:
    """Named themselves, by a group, or as everybody. Guests and strangers must be named themselves."""
    if person.id in listed:
        return True
    if person.is_guest or person.team_id != rules.workspace:
        return False
    return EVERYBODY in listed or not person.groups.isdisjoint(listed)


def _lacks(definition: CommandDefinition, rules: Rules) -> Refusal:
    right = definition.right
    role = {Right.VIEWER: "viewers", Right.OPERATOR: "operators", Right.APPROVER: "approvers"}[right]
    names = getattr(rules.slack.access, role)
    who = ", ".join(_mention(name) for name in names) or "nobody yet"
    return Refusal(
        role,
        f"`{definition.name}` is for {role}: {who}. Whoever runs the supervisor can add you, "
        f"in its configuration under `slack.access.{role}`.",
        by_role=True,
    )


def _mention(name: str) -> str:
    if name == EVERYBODY:
        return "all full members of this workspace"
    return f"<!subteam^{name}>" if name.startswith("S") else f"<@{name}>"


def _who(person: Person | None) -> Refusal | None:
    if person is None:
        return Refusal("identity", "Slack does not say who you are at the moment, so nothing was done. Try again soon.")
    if person.deleted or person.is_bot:
        return Refusal("identity", "Only people with an active account can do that.")
    return None


def _sure(person: Person | None) -> Person:
    assert person is not None  # noqa: S101
    return person
