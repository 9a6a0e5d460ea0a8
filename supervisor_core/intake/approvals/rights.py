"""Rights to request and to approve, as far as this host knows them by itself.

Rights as tests set them: who may, and whether that can be found out at all.
"""

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
    """Whether they may is not known at the moment."""


Rights = Callable[[Issuer, Command, Right], str]
"""Why this person may not, at this moment: give the command (its own right) or approve it (`Right.APPROVER`). Empty
where they may; `RightsUnknown` where that can't be found out now. It may ask others: it blocks."""


def host_rights(config: Callable[[], SupervisorConfig]) -> Rights:
    """What this host knows without asking anybody: its own shells, its schedules, and that nobody may where nobody is
    listed. Who is in a group, who is a guest and who has left, only the chat can say."""

    def rights(who: Issuer, command: Command, right: Right) -> str:
        if who.id.startswith(SHELL) or (who.id.startswith(SCHEDULE) and right is not Right.APPROVER):
            return ""
        if not who.id.startswith(CHAT):
            return f"{who.name or who.id} has no known rights on this host."
        listed = _listed(config(), command, right)
        if not listed:
            return f"Nobody is listed {_as(right)} any more."
        raise RightsUnknown(
            f"Whether {who.name or who.id} may still {_doing(right)} can't be checked: Slack isn't connected.",
            remedy="On the host, `supervisor approvals` works without Slack.",
        )

    return rights


def nobody_to_approve(config: SupervisorConfig, command: Command) -> str:
    """Why nobody could ever approve this command, in words; empty where somebody could."""
    if "cli" in config.slack.approvals.doors or _listed(config, command, Right.APPROVER):
        return ""
    return (
        f"{command.name} needs an approval, but nobody is configured to give it. An "
        "administrator can list people under `slack.access.approvers`, or under `approvers` of the worker's team."
    )


def _listed(config: SupervisorConfig, command: Command, right: Right) -> Sequence[str]:
    """Who is named for this, for every worker of the command."""
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


def _as(right: Right) -> str:
    return {Right.APPROVER: "as an approver", Right.VIEWER: "as a viewer"}.get(right, "as an operator")


def _doing(right: Right) -> str:
    return "approve" if right is Right.APPROVER else "send this command"


def right_to_give(command: Command) -> Right:
    """The right that whoever asks must have."""
    return CATALOG[command.name].right


class FakeRights:
    """Everybody may everything, unless it was taken from them. Implements `Rights`."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, Right]] = set()
        self.unknown = ""
        """Why nobody's rights can be found out; empty while they can."""

    def take(self, who: Issuer, right: Right) -> None:
        """From now on they may not."""
        self.taken.add((who.id, right))

    def __call__(self, who: Issuer, command: Command, right: Right) -> str:
        """Why they may not; empty where they may."""
        if self.unknown:
            raise RightsUnknown(self.unknown)
        return f"{command.name} is not for them." if (who.id, right) in self.taken else ""
