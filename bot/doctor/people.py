"""The checks of the people, user groups and channels with rights, for the doctor and for a daemon that has started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from bot.access.rules import Person, configured_ids, membership
from bot.doctor.channels import FIND as FIND_CHANNEL
from bot.doctor.slack_queries import SlackQueries, SlackRefusalError, reason_of, refused
from bot.views.answers.refusals import Membership
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import Risk
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.doctor.checks import CheckResult

NAME = "slack_people"
USERS, GROUPS, CHANNELS = ("U", "W"), ("S",), ("C", "G")
FIND_USER = "To find a person's id, click their picture, then ⋮ → Copy member ID."
FIND_GROUP = "To find a group's id, open Directories → User groups → the group → ⋮ → Copy group ID."
FREE_PLAN = "plan_upgrade_required"
NOBODY = "no operators (slack.access.operators), so nobody can run commands from Slack"


def configured_people(config: SupervisorConfig) -> dict[str, list[str]]:
    """Every user, user group and channel with rights or in an escalation, and the settings that name it. Channels that
    alerts reach are in `channels`."""
    found: dict[str, list[str]] = {}
    for who, setting in _settings(config):
        if who.startswith((*USERS, *GROUPS, *CHANNELS)) and setting not in found.setdefault(who, []):
            found[who].append(setting)
    return found


def _settings(config: SupervisorConfig) -> Iterator[tuple[str, str]]:
    yield from configured_ids(config.slack, config.teams)
    yield from ((user, f"slack.access.people.{name}") for name, user in config.slack.access.people.items())
    for place, step in enumerate(config.alerts.escalation):
        yield from ((who, f"alerts.escalation[{place}].to") for who in step.to if not who.startswith(CHANNELS))


async def check_people(asking: SlackQueries, config: SupervisorConfig, team_id: str) -> list[CheckResult]:
    """One line for those with whom all is well, and one for each of the others."""
    wanted = configured_people(config)
    users, groups, channels = ([who for who in wanted if who.startswith(kind)] for kind in (USERS, GROUPS, CHANNELS))
    client = asking.client
    answers = await asyncio.gather(*(asking.about(client.users_info, "user", user=who) for who in users))
    look_up = partial(asking.about, client.conversations_info, "channel", include_num_members=True)
    channel_answers = await asyncio.gather(*(look_up(channel=who) for who in channels))
    known = await _groups(asking) if groups else {}
    found = [user_problem(who, wanted[who], answer, team_id) for who, answer in zip(users, answers, strict=True)]
    found += [(group_problem(who, wanted[who], known), "") for who in groups]
    found += [
        member_channel_problem(who, wanted[who], answer) for who, answer in zip(channels, channel_answers, strict=True)
    ]
    troubles = [trouble for trouble, _ in found if trouble]
    notes = [note for _, note in found if note]
    if not troubles:
        notes.insert(0, _summed_up(len(users), len(groups), len(channels)))
    if not _may_anybody_operate(config):
        notes.append(NOBODY)
    return [*troubles, *([CheckResult(NAME, True, "; ".join(notes))] if notes else [])]


def _may_anybody_operate(config: SupervisorConfig) -> bool:
    access = config.slack.access
    of_commands = any(those and CATALOG[name].risk is not Risk.READS for name, those in access.commands.items())
    return bool(access.operators) or of_commands or any(team.operators for team in config.teams.values())


def _summed_up(users: int, groups: int, channels: int) -> str:
    numbers = ((users, "user"), (groups, "user group"), (channels, "channel"))
    counts = [f"{count} {word}{'s' * (count != 1)}" for count, word in numbers if count]
    return f"Slack knows all of them: {' and '.join(counts)}" if counts else "none configured"


async def _groups(asking: SlackQueries) -> Mapping[str, Any]:
    """All user groups by their id, disabled ones as well, or `error` with Slack's reason."""
    try:
        answer = await asking(asking.client.usergroups_list, include_disabled=True, include_count=True)
    except SlackRefusalError as error:
        return refused(error)
    return {str(group["id"]): group for group in answer["usergroups"]}


def user_problem(
    who: str, settings: list[str], answer: Mapping[str, Any], team_id: str
) -> tuple[CheckResult | None, str]:
    """The failed result of this user, and a remark about them."""
    name, where = f"slack_user_{who}", ", ".join(settings)
    error = answer.get("error")
    if error == "missing_scope":
        message = f"{where}: {who} can't be looked up: {reason_of(answer)}"
        return CheckResult(name, False, message, "Grant users:read; see slack_scopes."), ""
    if error:
        remedy = f"Correct the id, or remove it from the configuration. {FIND_USER}"
        words = "isn't known to Slack" if error == "user_not_found" else f"can't be looked up: {reason_of(answer)}"
        return CheckResult(name, False, f"{where}: {who} {words}", remedy), ""
    person = Person.from_slack(who, answer)
    title = f"{who} ({person.name})"
    for fact, words in ((person.deleted, "is deactivated"), (person.is_bot, "is a bot")):
        if fact:
            message = f"{where}: {title} {words} and gets no rights"
            return CheckResult(name, False, message, "Remove the id from the configuration, or name a person."), ""
    if answer.get("id", who) != who:
        message = f"{where}: {title} gets no rights: Slack calls this person {answer['id']}"
        return CheckResult(name, False, message, f"Write {answer['id']} instead of {who}."), ""
    kind = membership(person, team_id)
    if person.is_guest:
        never = ", but can't vote" if any(setting.endswith("approvers") for setting in settings) else ""
        return None, f"{title} is a guest, but has rights in {where}{never}"
    if kind is Membership.STRANGER and not (person.team_id or person.teams or person.is_stranger):
        return None, f"Slack names no workspace for {title}, who has rights only by their own id in {where}"
    if kind is Membership.STRANGER:
        return None, f"{title} is from another workspace, but has rights in {where}"
    return None, ""


def group_problem(who: str, settings: list[str], known: Mapping[str, Any]) -> CheckResult | None:
    """The failed result of this user group; None where nothing is wrong."""
    name, where = f"slack_group_{who}", ", ".join(settings)
    error = known.get("error")
    if error == FREE_PLAN:
        message = f"{where}: {who} gives no rights: the workspace's plan doesn't include user groups"
        return CheckResult(name, False, message, f"Name people by user id instead. {FIND_USER}")
    if error:
        message = f"{where}: {who} can't be looked up: {reason_of(known)}"
        return CheckResult(name, False, message, "Grant usergroups:read; see slack_scopes.")
    group = known.get(who)
    if group is None:
        remedy = f"Correct the id, or remove it from the configuration. {FIND_GROUP}"
        return CheckResult(name, False, f"{where}: {who} isn't known to Slack", remedy)
    title = f"{who} (@{group.get('handle')})"
    if group.get("date_delete"):
        remedy = "Enable it again in Slack (Directories → User groups), or name another."
        return CheckResult(name, False, f"{where}: {title} is disabled and gives no rights", remedy)
    if str(group.get("user_count", "")) == "0":
        return CheckResult(name, False, f"{where}: {title} has no members", "Add members in Slack.")
    return None


def member_channel_problem(who: str, settings: list[str], answer: Mapping[str, Any]) -> tuple[CheckResult | None, str]:
    """The failed result of a channel whose members have rights, and a remark about it."""
    name, where = f"slack_members_{who}", ", ".join(settings)
    error = answer.get("error")
    if error == "missing_scope":
        remedy = "Grant channels:read and groups:read; see slack_scopes."
        return CheckResult(name, False, f"{where}: {who} gives no rights: {reason_of(answer)}", remedy), ""
    if error:
        words = (
            "it doesn't exist, or is private and the bot isn't a member"
            if error == "channel_not_found"
            else reason_of(answer)
        )
        remedy = f"Correct the id, or invite the bot to the channel. {FIND_CHANNEL}"
        return CheckResult(name, False, f"{where}: {who} gives no rights: {words}", remedy), ""
    title = f"{who} (#{answer.get('name') or who})"
    if answer.get("is_archived"):
        remedy = "Name another channel, or unarchive it in Slack."
        return CheckResult(name, False, f"{where}: {title} is archived and gives no rights", remedy), ""
    if str(answer.get("num_members", "")) == "0":
        return CheckResult(name, False, f"{where}: {title} has no members", "Invite members in Slack."), ""
    if answer.get("is_private") or answer.get("is_group") or answer.get("is_mpim"):
        return None, ""
    return None, f"{title} is public: everybody who joins gets the rights of {where}"
