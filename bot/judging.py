"""Whether somebody may do what they ask for: Slack says who they are, the configuration what they may."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bot.access import Person, Refusal, Rules, may_approve, may_give, refusal
from bot.asked import Asked
from bot.intake.dealing import NotNowError
from bot.outgoing import whisper
from bot.people import People
from bot.views.told import words
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import CommandDefinition, Right, Risk

LATE = timedelta(minutes=10)
"""What could not be carried out for so long is refused: nobody expects it to happen any more."""

WAITING = (
    "Slack does not tell me who you are at the moment. I go on asking for ten minutes, and then carry it out or say no."
)

Why = Callable[[Person | None], Refusal | None]
"""Why this person may not."""


class Judging:
    """Groups are asked for only where the person's own id does not do."""

    def __init__(self, people: People, rules: Rules) -> None:
        self._people = people
        self.rules = rules

    async def of_command(
        self, asked: Asked, definition: CommandDefinition, command: Command | None
    ) -> tuple[Person | None, Refusal | None]:
        """Who asks for it, and why they may not, if so."""

        def why(person: Person | None) -> Refusal | None:
            return refusal(person, definition, command, asked.channel, self.rules)

        fresh = definition.risk is not Risk.READS
        person = await self.person(asked, fresh=fresh, groups=False)
        if person is None or not _by_role(why(person)):
            return person, why(person)
        person = await self.person(asked, fresh=fresh, groups=True)
        return person, why(person)

    async def person(self, asked: Asked, *, fresh: bool, groups: bool) -> Person | None:
        """Who asks; while Slack does not say so, it is asked again later, and they are told. None once it is late."""
        try:
            return await self._people.person(asked.user, fresh=fresh, groups=groups)
        except NotNowError as error:
            if is_late(asked):
                return None
            error.messages = (whisper(asked, words(f":hourglass: {WAITING}"), about=" waits"),)
            raise

    async def of_user(self, user: str, why: Why) -> tuple[Person | None, Refusal | None]:
        """The same for one user by what is true at this very moment; `NotNowError` while Slack does not say."""
        person = await self._people.person(user, fresh=True, groups=False)
        if person is None or not _by_role(why(person)):
            return person, why(person)
        person = await self._people.person(user, fresh=True, groups=True)
        return person, why(person)

    async def still_may(self, user: str, command: Command, right: Right) -> str:
        """Why this user may no longer give or approve this command; empty where they may."""
        judge = may_approve if right is Right.APPROVER else may_give
        _, refused = await self.of_user(user, lambda person: judge(person, command, self.rules))
        return refused.words if refused else ""


def _by_role(refused: Refusal | None) -> bool:
    return refused is not None and refused.by_role


def is_late(asked: Asked) -> bool:
    """Whether it was asked for so long ago that nobody expects it to happen any more."""
    return datetime.now(UTC) - asked.at > LATE
