"""The section about Slack: where to speak, who may do what, what needs approval."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from supervisor_core.config.fields import Flag, Minutes, Section, Span, number, one_of, wrong
from supervisor_core.config.names import ChannelId, CommandName, OptionalChannel, PersonId

DOORS = ("slack", "schedule", "cli", "flag")
"""The ways in which a command can arrive."""


def _once_each(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise wrong(f"names {twice} twice; its aliases and its handler count as its name")
    return names


class Access(Section):
    """Who has which role: user ids, usergroup ids, or "*" for every full member of the workspace."""

    viewers: tuple[PersonId, ...] = ("*",)
    operators: tuple[PersonId, ...] = ()
    approvers: tuple[PersonId, ...] = ()


class Approvals(Section):
    """Which commands need the approval of a second person, at which doors, and on what terms."""

    required_for: Annotated[tuple[CommandName, ...], AfterValidator(_once_each)] = (
        "rollback",
        "update",
        "update-deps",
    )
    doors: tuple[Annotated[str, BeforeValidator(one_of(*DOORS))], ...] = ("slack", "schedule")
    votes: Annotated[int, BeforeValidator(number(1, 100, whole=True))] = 1
    self_approval: Flag = False
    expires_minutes: Span = 15.0


class Slack(Section):
    """Where the bot speaks and listens, and to whom."""

    enabled: Flag = True
    alert_channel: OptionalChannel = ""
    approval_channel: OptionalChannel = ""
    fallback_channel: OptionalChannel = ""
    announce: Flag = True
    channels: tuple[ChannelId, ...] = ()
    access: Access = Field(default_factory=Access)
    approvals: Approvals = Field(default_factory=Approvals)
    bake_minutes: Minutes = 10.0
