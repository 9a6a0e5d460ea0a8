"""A command that only informs, on its way to whoever answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.access import Person
from bot.asked import Asked
from bot.intake.dealing import Dealt
from supervisor_core.domain.command import Command, Issuer


@dataclass(frozen=True, slots=True)
class Question:
    """A command that was understood and allowed."""

    asked: Asked
    command: Command
    person: Person | None
    """Who asks; None where Slack did not say it in time."""

    @property
    def issuer(self) -> Issuer:
        """Who asks, as the audit trail knows them."""
        return Issuer(self.asked.actor, self.person.name if self.person else "")


Tell = Callable[[Question], Awaitable[Dealt]]
"""Answers one command. After a crash it may be called again, and must then come to the same."""
