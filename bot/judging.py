"""Whether somebody may do what they ask for: Slack says who they are, the configuration what they may."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from functools import partial

from bot.access import Person, Refusal, Rules, may_approve, may_cancel, may_give, refusal
from bot.asked import Asked, Vote
from bot.people import Judge, People, UnverifiedError
from bot.views import refused
from supervisor_core.domain.approvals import Approval
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import CommandDefinition, Right, Risk

EXPIRES = timedelta(minutes=5)
"""A request that changes something and is older is refused: after an outage nobody expects it to happen any more."""

NOBODY = Refusal("identity", *refused.unknown())
UNVERIFIED = Refusal("identity", *refused.unverified(), again=True)
TOO_OLD = Refusal("time", *refused.too_old(EXPIRES), again=True)

Judged = tuple[Person | None, Refusal | None]
"""Who it is, and why they may not; None where they may."""

log = logging.getLogger(__name__)


class Judging:
    """All questions of rights, by the configuration that is in force."""

    def __init__(self, people: People, rules: Rules) -> None:
        self._people = people
        self.rules = rules

    async def of_command(self, asked: Asked, definition: CommandDefinition, command: Command | None) -> Judged:
        """Who asks for it, and why they may not: as Slack says right now, before anything is changed."""
        judge = partial(refusal, definition=definition, command=command, channel=asked.channel, rules=self.rules)
        changes = definition.risk is not Risk.READS
        return (None, TOO_OLD) if changes and is_old(asked) else await self._judged(asked.user, judge, fresh=changes)

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

        return (None, TOO_OLD) if is_old(vote.asked) else await self._judged(vote.asked.user, judge, fresh=True)

    async def person(self, asked: Asked) -> Person | None:
        """Who asks, for what is only shown to them; None where Slack does not say so."""
        try:
            return await self._people.person(asked.user)
        except UnverifiedError:
            return None

    async def known(self, user: str) -> Person | None:
        """Who this is; `UnverifiedError` while Slack does not say."""
        return await self._people.person(user)

    async def still_may(self, user: str, command: Command, right: Right) -> str:
        """Why this user may not give or approve this command at this moment, without markup; empty where they may."""
        judge = may_approve if right is Right.APPROVER else may_give
        _, why = await self._people.judged(user, partial(judge, command=command, rules=self.rules), fresh=True)
        return why.plain if why else ""

    async def _judged(self, user: str, judge: Judge, *, fresh: bool) -> Judged:
        """A right that can't be verified is none."""
        try:
            return await self._people.judged(user, judge, fresh=fresh)
        except UnverifiedError as error:
            log.warning("%s; refused", error)
            return None, UNVERIFIED


def is_old(asked: Asked) -> bool:
    """Whether it was asked for so long ago that nobody expects it to happen any more."""
    return datetime.now(UTC) - (asked.said_at or asked.at) > EXPIRES
