"""The checks of the people and user groups that the configuration names: Slack knows them, and they can have rights."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from bot.access import EVERYBODY
from bot.doctor.asking import Asking, SlackSaysNoError
from supervisor_core.config import SupervisorConfig
from supervisor_core.runtime.doctor.checks import Check

NAME = "slack_people"
USERS, GROUPS = ("U", "W"), "S"
FIND_USER = "Somebody's id is in their profile: click on their picture, then ⋮ → Copy member ID."
FIND_GROUP = "A group's id is in its address: Directories → User groups → the group → ⋮ → Copy group ID."
FREE_PLAN = "plan_upgrade_required"
NOBODY = "nobody is an operator, so nothing can be changed from Slack (slack.access.operators)"


def named(config: SupervisorConfig) -> dict[str, list[str]]:
    """Every user and user group in the configuration, and the settings that name them."""
    found: dict[str, list[str]] = {}
    for who, setting in _settings(config):
        if who != EVERYBODY and who.startswith((*USERS, GROUPS)) and setting not in found.setdefault(who, []):
            found[who].append(setting)
    return found


def _settings(config: SupervisorConfig) -> Iterator[tuple[str, str]]:
    for role in ("viewers", "operators", "approvers"):
        yield from ((who, f"slack.access.{role}") for who in getattr(config.slack.access, role))
    for name, team in config.teams.items():
        yield from ((who, f"teams.{name}.operators") for who in team.operators)
        yield from ((who, f"teams.{name}.approvers") for who in team.approvers)
    for place, step in enumerate(config.alerts.escalation):
        yield from ((who, f"alerts.escalation[{place}].to") for who in step.to)


async def look(asking: Asking, config: SupervisorConfig, team_id: str) -> list[Check]:
    """One line for those with whom all is well, and one for each of the others."""
    wanted = named(config)
    users = [who for who in wanted if who.startswith(USERS)]
    groups = [who for who in wanted if who.startswith(GROUPS)]
    answers = await asyncio.gather(*(_user(asking, who) for who in users))
    known = await _groups(asking) if groups else {}
    troubles, notes = [], []
    for who, told in zip(users, answers, strict=True):
        trouble, note = judge_user(who, wanted[who], told, team_id)
        troubles += [trouble] if trouble else []
        notes += [note] if note else []
    troubles += [trouble for who in groups if (trouble := judge_group(who, wanted[who], known))]
    if not troubles:
        notes.insert(0, _summed_up(len(users), len(groups)))
    if not _may_anybody_operate(config):
        notes.append(NOBODY)
    return [*troubles, *([Check(NAME, True, "; ".join(notes))] if notes else [])]


def _may_anybody_operate(config: SupervisorConfig) -> bool:
    return bool(config.slack.access.operators) or any(team.operators for team in config.teams.values())


def _summed_up(users: int, groups: int) -> str:
    counts = [
        f"{count} {word}{'s' * (count != 1)}" for count, word in ((users, "user"), (groups, "user group")) if count
    ]
    return f"Slack knows all that are named: {' and '.join(counts)}" if counts else "the configuration names nobody"


async def _user(asking: Asking, who: str) -> Mapping[str, Any]:
    """The user as Slack tells them, or `error` with Slack's reason."""
    try:
        answer = await asking(asking.client.users_info, user=who)
    except SlackSaysNoError as error:
        return {"error": error.word}
    told: Mapping[str, Any] = answer["user"]
    return told


async def _groups(asking: Asking) -> Mapping[str, Any]:
    """All user groups by their id, disabled ones as well, or `error` with Slack's reason."""
    try:
        answer = await asking(asking.client.usergroups_list, include_disabled=True, include_count=True)
    except SlackSaysNoError as error:
        return {"error": error.word}
    return {str(group["id"]): group for group in answer["usergroups"]}


def judge_user(who: str, settings: list[str], told: Mapping[str, Any], team_id: str) -> tuple[Check | None, str]:
    """What is wrong with this user, and what should be known of them all the same."""
    name, where = f"slack_user_{who}", ", ".join(settings)
    error = told.get("error")
    if error == "missing_scope":
        return Check(
            name, False, f"{where}: {who} can't be looked up", "Grant users:read; slack_scopes says where."
        ), ""
    if error:
        remedy = f"Correct the id, or take it out of the configuration. {FIND_USER}"
        words = "is not known to Slack" if error == "user_not_found" else f"can't be looked up: {error}"
        return Check(name, False, f"{where}: {who} {words}", remedy), ""
    profile = told.get("profile") or {}
    person = f"{who} ({profile.get('display_name') or told.get('real_name') or told.get('name')})"
    for fact, words in (("deleted", "is deactivated"), ("is_bot", "is a bot")):
        if told.get(fact):
            message = f"{where}: {person} {words}, and gets no rights"
            return Check(name, False, message, "Take the id out of the configuration, or name a person."), ""
    if told.get("is_restricted") or told.get("is_ultra_restricted"):
        return None, f"{person} is a guest, with rights in {where} all the same"
    if told.get("is_stranger") or told.get("team_id") not in (team_id, None, ""):
        return None, f"{person} is of another workspace, with rights in {where} all the same"
    return None, ""


def judge_group(who: str, settings: list[str], known: Mapping[str, Any]) -> Check | None:
    """What is wrong with this user group; None where nothing is."""
    name, where = f"slack_group_{who}", ", ".join(settings)
    error = known.get("error")
    if error == FREE_PLAN:
        message = f"{where}: {who} gives no rights: the workspace's plan has no user groups"
        return Check(name, False, message, f"Name people by their user ids instead. {FIND_USER}")
    if error:
        message = f"{where}: {who} can't be looked up: {error}"
        return Check(name, False, message, "Grant usergroups:read; slack_scopes says where.")
    group = known.get(who)
    if group is None:
        remedy = f"Correct the id, or take it out of the configuration. {FIND_GROUP}"
        return Check(name, False, f"{where}: {who} is not known to Slack", remedy)
    title = f"{who} (@{group.get('handle')})"
    if group.get("date_delete"):
        remedy = "Enable it again in Slack (Directories → User groups), or name another."
        return Check(name, False, f"{where}: {title} is disabled, and gives no rights", remedy)
    if str(group.get("user_count", "")) == "0":
        return Check(name, False, f"{where}: {title} has no members", "Add somebody to it in Slack.")
    return None
