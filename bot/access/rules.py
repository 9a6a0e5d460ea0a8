"""The rules of access, decided purely and closed by default: no role, no right. A refusal says what is missing.

For a right on one worker there is one list of ids: the role's, with that of the worker's team. For a command that
`slack.access.commands` names, its list there takes the place of both. A command for several workers needs the right
for each of them; for one that changes something and is for no worker, only the general role counts. Votes are for
approvers, whatever that section says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from bot.views.answers import refusals as refused
from bot.views.answers.refusals import Membership
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Right, Risk, TargetRule
from supervisor_core.config.fields import ON_CALL
from supervisor_core.config.schema import SlackSettings
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings

APPROVALS = "approvals"

EVERYBODY = "*"
"""All full members of this workspace, without guests and people from other workspaces."""

SLACKBOT = "USLACKBOT"
"""Slackbot, which repeats what others wrote, such as reminders. Slack doesn't call it a bot."""

GROUP_PREFIXES = ("S", "C", "G", ON_CALL)
"""The beginnings of the ids of user groups, channels and sources of who is on call, whose members get their rights."""

ROLES: Mapping[Right, str] = {Right.VIEWER: "viewers", Right.OPERATOR: "operators", Right.APPROVER: "approvers"}


@dataclass(frozen=True, slots=True)
class Person:
    """A person as Slack describes them. Nothing unknown is assumed."""

    id: str
    team_id: str
    """The workspace that Slack names first; on Enterprise, it may be empty, the organization or any of theirs."""
    name: str = ""
    deleted: bool = False
    is_bot: bool = False
    is_guest: bool = False
    is_stranger: bool = False
    """True if Slack says that they are from another workspace."""
    teams: frozenset[str] = frozenset()
    """All their workspaces in an Enterprise organization."""
    enterprise_user: str = ""
    """Their id in the organization. Older organizations list it in user groups; it gives no right itself."""
    groups: frozenset[str] = frozenset()
    """Their user groups and channels, of those that Slack was asked about."""
    zone: str = ""
    """Their time zone in Slack; empty if it's unknown."""
    on_call: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    """The answers about who is on call that were asked for, for the audit trail."""

    @classmethod
    def from_slack(cls, user_id: str, user: Mapping[str, Any]) -> Person:
        """The person whom `users.info` describes."""
        profile, enterprise = user.get("profile") or {}, user.get("enterprise_user") or {}
        name = profile.get("display_name") or profile.get("real_name") or user.get("real_name") or user_id
        teams = (*(user.get("teams") or ()), *(enterprise.get("teams") or ()))
        return cls(
            id=user_id,
            team_id=str(user.get("team_id") or ""),
            name=str(name),
            deleted=bool(user.get("deleted")),
            is_bot=bool(user.get("is_bot")) or user_id == SLACKBOT,
            is_guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted")),
            is_stranger=bool(user.get("is_stranger")),
            teams=frozenset(map(str, teams)),
            enterprise_user=str(enterprise.get("id") or ""),
            zone=str(user.get("tz") or ""),
        )


def membership(person: Person, workspace: str) -> Membership:
    """The person's relation to the workspace. Somebody whom Slack places nowhere is a stranger."""
    if person.is_stranger or workspace not in {person.team_id, *person.teams} - {""}:
        return Membership.STRANGER
    return Membership.GUEST if person.is_guest else Membership.FULL


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The rights in the configuration, and our workspace."""

    slack: SlackSettings
    teams: Mapping[str, TeamSettings]
    workers: Mapping[str, WorkerSettings]
    workspace: str


@dataclass(frozen=True, slots=True)
class Refusal:
    missing: str
    """The missing role, list such as `commands.restart`, place or identity."""
    words: str
    """The text for the person, which mentions those who have the right."""
    plain: str
    """The text for a card or the audit trail, without mentions and markup."""
    circles: frozenset[str] = frozenset()
    """The user groups and channels whose members have the right. Empty if a membership wouldn't help."""
    again: bool = False
    """True if the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class _Holders:
    """The ids with one right on one worker."""

    keys: tuple[str, ...]
    """The configuration keys that give the right."""
    told: tuple[str, ...]
    """The ids under these keys, for the message."""
    ids: frozenset[str]
    """All ids that have the right."""


def refusal(
    person: Person | None, definition: CommandDefinition, command: Command | None, channel: str, rules: AccessRules
) -> Refusal | None:
    """The refusal of a command in a channel; None if the person has the right."""
    workers = command.workers if command else ()
    here = None if not rules.slack.channels or channel in rules.slack.channels else _wrong_channel(channel, rules)
    return _inactive(person) or here or _missing_right(person, definition, workers, rules)


def may_give(person: Person | None, command: Command, rules: AccessRules) -> Refusal | None:
    """The refusal of an earlier command that runs now, wherever it was sent; None if the person has the right."""
    return _inactive(person) or _missing_right(person, CATALOG.on_record(command.name), command.workers, rules)


def may_approve(
    person: Person | None,
    command: Command,
    rules: AccessRules,
    *,
    here: str | None = None,
    card: str = "",
    cancels: bool = False,
) -> Refusal | None:
    """The refusal of a vote; None for an approver of each of the command's workers.

    A vote counts in `slack.channels`, where people are asked, and where the command's card stands. `here` is
    where they vote and `card` where that is; without `here` the place is not judged: for a vote that was cast before.
    """
    if person is not None and person.is_guest and not (person.deleted or person.is_bot):
        return Refusal("identity", *refused.GUEST_VOTES)
    anywhere = here is None or not rules.slack.channels
    here_too = here in (*rules.slack.channels, rules.slack.approval_channel, rules.slack.asks_in(card), card)
    there = None if anywhere or here_too else _wrong_channel(here or "", rules, votes=True)
    definition = CATALOG.on_record(command.name)
    lacking = _missing_right(person, definition, command.workers, rules, votes=True, cancels=cancels)
    return _inactive(person) or there or lacking


def may_cancel(
    person: Person | None, command: Command, rules: AccessRules, *, own: bool, here: str | None = None, card: str = ""
) -> Refusal | None:
    """The refusal of a cancellation. Requesters can cancel their own requests whatever their role is now (`own`);
    anybody else must be an approver."""
    return _inactive(person) if own else may_approve(person, command, rules, here=here, card=card, cancels=True)


def may_see(person: Person | None, definition: CommandDefinition, rules: AccessRules) -> bool:
    """True if the person has the right for at least one worker, so that help lists the command."""
    if _inactive(person):
        return False
    places = _one_of_each_team(rules) if definition.target is not TargetRule.NONE else ()
    return any(_missing_right(person, definition, each, rules) is None for each in ((), *places))


def may_see_all_approvals(person: Person | None, rules: AccessRules) -> bool:
    """True for approvers of any worker, and for those whom `slack.access.commands.approvals` lists. Anybody else sees
    their own requests alone."""
    if _inactive(person):
        return False
    definition = CATALOG[APPROVALS]
    if APPROVALS in rules.slack.access.commands:
        return _missing_right(person, definition, (), rules) is None
    places = ((), *_one_of_each_team(rules))
    return any(_missing_right(person, definition, each, rules, votes=True) is None for each in places)


def _one_of_each_team(rules: AccessRules) -> Sequence[tuple[str, ...]]:
    """A worker of each team: rights are the same for all workers of a team."""
    return tuple({worker.team: (worker_id,) for worker_id, worker in rules.workers.items()}.values())


def configured_ids(slack: SlackSettings, teams: Mapping[str, TeamSettings]) -> Iterator[tuple[str, str]]:
    """Every id with a right, including `*`, with each setting that gives it."""
    for role in ROLES.values():
        yield from ((who, f"slack.access.{role}") for who in getattr(slack.access, role))
    for name, those in slack.access.commands.items():
        yield from ((who, f"slack.access.commands.{name}") for who in those)
    for name, team in teams.items():
        yield from ((who, f"teams.{name}.operators") for who in team.operators)
        yield from ((who, f"teams.{name}.approvers") for who in team.approvers)


def approver_ids(command: Command, rules: AccessRules) -> tuple[str, ...]:
    """The ids of the people and groups who may approve this command for each of its workers."""
    definition = CATALOG.on_record(command.name)
    teams = {_relevant_team(definition, worker, rules, votes=True) for worker in command.workers or ("",)}
    told = [_holders(definition, team, rules, votes=True).told for team in sorted(teams)]
    return tuple(dict.fromkeys(who for who in chain(*told) if all(who in each for each in told)))


def group_ids(names: Collection[str]) -> frozenset[str]:
    """The user groups and channels among these ids."""
    return frozenset(name for name in names if name.startswith(GROUP_PREFIXES))


def _inactive(person: Person | None) -> Refusal | None:
    if person is None:
        return Refusal("identity", *refused.UNKNOWN)
    if person.deleted or person.is_bot:
        return Refusal("identity", *refused.inactive(bot=person.is_bot))
    return None


def _wrong_channel(channel: str, rules: AccessRules, *, votes: bool = False) -> Refusal:
    places = dict.fromkeys((*rules.slack.channels, *([rules.slack.approval_channel] if votes else [])))
    return Refusal("channel", *refused.elsewhere(channel, [place for place in places if place], votes=votes))


def _missing_right(
    person: Person | None,
    definition: CommandDefinition,
    workers: Sequence[str],
    rules: AccessRules,
    *,
    votes: bool = False,
    cancels: bool = False,
) -> Refusal | None:
    """The missing right and its workers; None if none is missing."""
    if person is None:
        return _inactive(person)
    teams = {worker: _relevant_team(definition, worker, rules, votes=votes) for worker in workers or ("",)}
    named = {team: _holders(definition, team, rules, votes=votes) for team in dict.fromkeys(teams.values())}
    without = {team for team, those in named.items() if not _is_holder(person, those.ids, rules)}
    if not without:
        return None
    lacks = [worker for worker, team in teams.items() if team in without]
    missed = [those for team, those in named.items() if team in without]
    keys = tuple(dict.fromkeys(chain.from_iterable(those.keys for those in missed)))
    told = tuple(dict.fromkeys(chain.from_iterable(those.told for those in missed)))
    kind = membership(person, rules.workspace)
    helping = group_ids(frozenset().union(*(those.ids for those in missed))) if kind is Membership.FULL else frozenset()
    only = lacks if len(lacks) < len(teams) else []
    role = ROLES[_right(definition, votes=votes)]
    wanted = refused.RequiredRole(definition.name, role, keys, told, votes=votes, cancels=cancels)
    missing = keys[0].removeprefix("slack.access.")
    return Refusal(missing, *refused.lacking(wanted, only, kind, circles=bool(helping)), helping)


def _right(definition: CommandDefinition, *, votes: bool) -> Right:
    return Right.APPROVER if votes else definition.right


def _relevant_team(definition: CommandDefinition, worker_id: str, rules: AccessRules, *, votes: bool) -> str:
    """The worker's team, if its lists count for this right; else empty."""
    by_list = definition.name in rules.slack.access.commands and not votes
    worker = rules.workers.get(worker_id)
    if by_list or worker is None or _right(definition, votes=votes) is Right.VIEWER:
        return ""
    return worker.team if worker.team in rules.teams else ""


def _holders(definition: CommandDefinition, team: str, rules: AccessRules, *, votes: bool) -> _Holders:
    """The ids with this right on the workers of a team, or without a team if it's empty."""
    access = rules.slack.access
    own = access.commands.get(definition.name)
    if own is not None and not votes:
        return _Holders((f"slack.access.commands.{definition.name}",), own, frozenset(own))
    right = _right(definition, votes=votes)
    if right is Right.VIEWER:
        roles = (access.viewers, access.operators, access.approvers)
        theirs = ((*each.operators, *each.approvers) for each in rules.teams.values())
        told = access.viewers or (*access.operators, *access.approvers)
        return _Holders(("slack.access.viewers",), told, frozenset(chain(*roles, *theirs)))
    role = ROLES[right]
    general: tuple[str, ...] = getattr(access, role)
    counting = rules.teams if _is_for_any_team(definition) and not votes else [team] if team else []
    of_teams: tuple[str, ...] = tuple(chain.from_iterable(getattr(rules.teams[each], role) for each in counting))
    keys = (f"slack.access.{role}", *(f"teams.{each}.{role}" for each in counting))
    return _Holders(keys, (*general, *of_teams), frozenset((*general, *of_teams)))


def _is_for_any_team(definition: CommandDefinition) -> bool:
    """True for a command that only reads and has no target: a role in any team is enough."""
    return definition.target is TargetRule.NONE and definition.risk is Risk.READS


def _is_holder(person: Person, ids: Collection[str], rules: AccessRules) -> bool:
    """True for a listed person or a member of a listed group or channel. Guests must be listed themselves."""
    if person.id in ids:
        return True
    if membership(person, rules.workspace) is not Membership.FULL:
        return False
    return EVERYBODY in ids or not person.groups.isdisjoint(ids)


def may_press(person: Person | None, command: Command, channel: str, rules: AccessRules) -> bool:
    """True if a button with this command works for this person here."""
    return refusal(person, CATALOG[command.name], command, channel, rules) is None
