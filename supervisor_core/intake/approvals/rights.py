"""Rights to send and to approve commands, as far as this host knows them without Slack."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import Right
from supervisor_core.common.errors import TemporaryError
from supervisor_core.config.load import SupervisorConfig

SHELL = "cli:"
"""Whoever runs a shell on this host holds it: they could do anything that a command does."""

SCHEDULE = "schedule:"
CHAT = "slack:"


class RightsUnknown(TemporaryError):
    """The right can't be verified now."""


class RightsUnverifiable(RightsUnknown):
    """The right can't be verified, and waiting doesn't help: the command is refused."""

    retryable = False


Rights = Callable[[Issuer, Command, Right], str]
"""Why this person may not, at this moment: give the command (its own right) or approve it (`Right.APPROVER`). Empty
where they may; `RightsUnknown` where that can't be found out now. It may ask others: it blocks."""


def host_rights(config: Callable[[], SupervisorConfig]) -> Rights:
    """The rights that this host knows without Slack: those of its shells and schedules, and that nobody has a right for
    which nobody is listed. Only Slack knows groups, guests and people who left."""

    def rights(who: Issuer, command: Command, right: Right) -> str:
        if who.id.startswith(SHELL) or (who.id.startswith(SCHEDULE) and right is not Right.APPROVER):
            return ""
        if not who.id.startswith(CHAT):
            return f"{who.name or who.id} has no known rights on this host."
        if not _listed(config(), command, right):
            role = {Right.APPROVER: "an approver", Right.VIEWER: "a viewer"}.get(right, "an operator")
            return f"Nobody is listed as {role} any more."
        action = "approve" if right is Right.APPROVER else "send this command"
        raise RightsUnknown(
            f"Whether {who.name or who.id} may still {action} can't be checked: Slack isn't connected.",
            remedy="On the host, `supervisor approvals` works without Slack.",
        )

    return rights


def nobody_to_approve(config: SupervisorConfig, command: Command) -> str:
    """Why nobody can approve the command; empty if somebody can."""
    if "cli" in config.slack.approvals.doors or _listed(config, command, Right.APPROVER):
        return ""
    return (
        f"{command.name} needs an approval, but nobody is configured to give it. An "
        "administrator can list people under `slack.access.approvers`, or under `approvers` of the worker's team."
    )


def _listed(config: SupervisorConfig, command: Command, right: Right) -> Sequence[str]:
    """The ids that the configuration lists for the right, for every worker of the command."""
    own = config.slack.access.commands.get(command.name)
    if own is not None and right is not Right.APPROVER:
        return own
    if right is Right.VIEWER:
        access = config.slack.access
        return (*access.viewers, *access.operators, *access.approvers)
    role = "approvers" if right is Right.APPROVER else "operators"
    general: tuple[str, ...] = getattr(config.slack.access, role)
    if general:
        return general
    of_teams: list[str] = []
    for worker_id in command.workers:
        worker = config.workers.get(worker_id)
        team = config.teams.get(worker.team) if worker else None
        mine: tuple[str, ...] = getattr(team, role) if team else ()
        if not mine:
            return ()
        of_teams += mine
    return of_teams


def right_to_give(command: Command) -> Right:
    """The right that the requester needs."""
    return CATALOG.on_record(command.name).right
