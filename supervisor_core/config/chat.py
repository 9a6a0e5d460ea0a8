"""The section about Slack: where to speak, who may do what, what needs approval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from supervisor_core.config.fields import Flag, Frozen, Minutes, Section, Span, Thawed, number, one_of, wrong
from supervisor_core.config.names import ChannelId, CommandName, OptionalChannel, PersonId
from supervisor_core.domain.catalog import find

DOORS = ("slack", "schedule", "cli", "flag")
"""The ways in which a command can arrive."""


def _once_each(names: tuple[str, ...]) -> tuple[str, ...]:
    _refuse_twice(names)
    return names


def _refuse_twice(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise wrong(f"names {name} twice; its aliases and its handler count as its name")
        seen.add(name)


def _lists(given: object) -> object:
    """No list at all is an empty section. Two names of one command would hide one of their lists."""
    if isinstance(given, Mapping):
        found = (find(name) for name in given if isinstance(name, str))
        _refuse_twice(definition.name for definition in found if definition is not None)
    return {} if given is None else given


class Access(Section):
    """Who has which role: user ids, usergroup ids, ids of channels for their members, or "*" for every full member of
    the workspace."""

    viewers: tuple[PersonId, ...] = ("*",)
    operators: tuple[PersonId, ...] = ()
    approvers: tuple[PersonId, ...] = ()
    commands: Annotated[Mapping[CommandName, tuple[PersonId, ...]], BeforeValidator(_lists), Frozen, Thawed] = Field(
        default_factory=dict
    )
    """Who may give a command, where that is not for the roles to say: those in its list, and nobody else."""


class Approvals(Section):
    """Which commands need the approval of a second person, at which doors, and on what terms."""

    required_for: Annotated[tuple[CommandName, ...], AfterValidator(_once_each)] = (
        "rollback",
        "undo",
        "update",
        "update-deps",
    )
    doors: tuple[Annotated[str, BeforeValidator(one_of(*DOORS))], ...] = ("slack", "schedule")
    votes: Annotated[int, BeforeValidator(number(1, 100, whole=True))] = 1
    self_approval: Flag = False
    expires_minutes: Span = 15.0


DIRECT = ("D", "U", "W")
"""How the ids of places begin in which one person alone reads: direct messages, and people."""


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

    def asks_in(self, card: str) -> str:
        """The channel in which people are asked for an approval, of a command whose card stands in this one; empty
        where the card itself asks. In a direct message no approver would see it."""
        alone = card.startswith(DIRECT)
        channel = self.approval_channel or (self.alert_channel if alone else "")
        return "" if channel == card else channel
