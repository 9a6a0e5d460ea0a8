"""Whether somebody may do what they ask for: Slack says who they are, the configuration what they may."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from bot.access import Person, Refusal, Rules, may_approve, may_cancel, may_give, refusal
from bot.asked import Asked, Vote
from bot.blockkit import escape
from bot.intake.dealing import NotNowError
from bot.outgoing import whisper
from bot.people import People
from bot.views.refused import unknown
from bot.views.told import words
from supervisor_core.domain.approvals import Approval
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import CommandDefinition, Right, Risk
from supervisor_core.domain.errors import SupervisorError

LATE = timedelta(minutes=10)
"""What could not be carried out for so long is refused: nobody expects it to happen any more."""

WAITING = (
    "Slack does not tell me who you are at the moment. I go on asking for ten minutes, and then carry it out or say no."
)
NOBODY = Refusal("identity", *unknown())

Answer = TypeVar("Answer")
Judged = tuple[Person | None, Refusal | None]
"""Who it is, and why they may not; None where they may."""


class Judging:
    """All questions of rights, by the configuration that is in force."""

    def __init__(self, people: People, rules: Rules) -> None:
        self._people = people
        self.rules = rules

    async def of_command(self, asked: Asked, definition: CommandDefinition, command: Command | None) -> Judged:
        """Who asks for it, and why they may not: as Slack says right now, before anything is changed."""
        judge = partial(refusal, definition=definition, command=command, channel=asked.channel, rules=self.rules)
        looking = self._people.judged(asked.user, judge, fresh=definition.risk is not Risk.READS)
        return await self._unless_late(asked, looking) or (None, NOBODY)

    async def of_vote(self, vote: Vote, approval: Approval) -> Judged:
        """Who votes, or cancels, and why that does not count: as Slack says right now."""
        command, rules = approval.command, self.rules
        here = None if vote.at_home else vote.asked.channel
        card = str((approval.card or {}).get("channel") or "")
        own = approval.requester.person.is_same_as(vote.asked.actor)

        def judge(person: Person | None) -> Refusal | None:
            if vote.choice == "cancel":
                return may_cancel(person, command, rules, own=own, here=here, card=card)
            return may_approve(person, command, rules, here=here, card=card)

        looking = self._people.judged(vote.asked.user, judge, fresh=True)
        return await self._unless_late(vote.asked, looking) or (None, NOBODY)

    async def person(self, asked: Asked) -> Person | None:
        """Who asks, for what is only shown to them; None where Slack does not say so."""
        return await self._unless_late(asked, self._people.person(asked.user))

    async def known(self, user: str) -> Person | None:
        """Who this is; `NotNowError` while Slack does not say."""
        return await self._people.person(user)

    async def still_may(self, user: str, command: Command, right: Right) -> str:
        """Why this user may not give or approve this command at this moment, without markup; empty where they may."""
        judge = may_approve if right is Right.APPROVER else may_give
        _, refused = await self._people.judged(user, partial(judge, command=command, rules=self.rules), fresh=True)
        return refused.plain if refused else ""

    async def _unless_late(self, asked: Asked, looking: Awaitable[Answer]) -> Answer | None:
        """What Slack says of the asker; None where it has said nothing for too long. Until then they are told."""
        try:
            return await looking
        except NotNowError as error:
            if is_late(asked):
                return None
            error.messages = (whisper(asked, words(f":hourglass: {WAITING}"), about=" waits"),)
            raise


def not_now(asked: Asked, error: SupervisorError) -> NotNowError:
    """Something is away on this side, and is tried again; whoever waits is told so."""
    later = NotNowError(str(error))
    told = words(f":hourglass: {escape(error.message)} I go on trying for ten minutes, and then say no.")
    later.messages = (whisper(asked, told, about=" waits"),)
    return later


def is_late(asked: Asked) -> bool:
    """Whether it was asked for so long ago that nobody expects it to happen any more."""
    return datetime.now(UTC) - asked.at > LATE
