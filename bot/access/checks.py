"""Access checks of requests: Slack says who a person is, the configuration what that person can do."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from functools import partial

from bot.access.people import AccessRule, People, UnverifiedError
from bot.access.rules import (
    AccessRules,
    Person,
    Refusal,
    may_approve,
    may_cancel,
    may_give,
    may_press,
    may_see,
    may_see_all_approvals,
    refusal,
)
from bot.requests.request import Request, VoteRequest
from bot.views.answers import refusals as refused
from supervisor_core.commands.catalog import CATALOG, FAMILIES, OVERVIEW
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Right, Risk, TargetRule
from supervisor_core.config.load import SupervisorConfig, example_worker
from supervisor_core.intake.approvals.rules import Approval

MAX_AGE = timedelta(minutes=5)
"""An older request that changes something is refused: after an outage nobody expects it to run."""

NOBODY = Refusal("identity", *refused.UNKNOWN)
UNVERIFIED = Refusal("identity", *refused.UNVERIFIED, again=True)
UNVERIFIABLE = Refusal("identity", *refused.UNVERIFIABLE)
TOO_OLD = Refusal("time", *refused.too_old(MAX_AGE), again=True)

AccessResult = tuple[Person | None, Refusal | None]
"""The person, and the refusal; None if they have the right."""

log = logging.getLogger(__name__)


class AccessChecks:
    """Checks the rights of requests by the current configuration."""

    def __init__(self, people: People, rules: AccessRules) -> None:
        self._people = people
        self.rules = rules

    async def of_command(
        self, request: Request, definition: CommandDefinition, command: Command | None
    ) -> AccessResult:
        """Check the right to send a command; before a change, by a fresh answer from Slack."""
        judge = partial(refusal, definition=definition, command=command, channel=request.channel, rules=self.rules)
        changes = definition.risk is not Risk.READS
        return (
            (None, TOO_OLD) if changes and is_old(request) else await self._judged(request.user, judge, fresh=changes)
        )

    async def of_vote(self, vote: VoteRequest, approval: Approval) -> AccessResult:
        """Check the right to vote or cancel, by a fresh answer from Slack."""
        command, rules = approval.command, self.rules
        here = None if vote.at_home else vote.request.channel
        card = str((approval.card or {}).get("channel") or "")
        own = approval.requester.person.is_same_as(vote.request.actor, rules.slack.access.people)

        def judge(person: Person | None) -> Refusal | None:
            if vote.choice == "cancel":
                return may_cancel(person, command, rules, own=own, here=here, card=card)
            return may_approve(person, command, rules, here=here, card=card)

        return (None, TOO_OLD) if is_old(vote.request) else await self._judged(vote.request.user, judge, fresh=True)

    async def person(self, request: Request) -> Person | None:
        """The person behind a request; None if Slack doesn't say."""
        try:
            return await self._people.person(request.user)
        except UnverifiedError:
            return None

    async def known(self, user: str) -> Person | None:
        """The person with this id; `UnverifiedError` while Slack doesn't say."""
        return await self._people.person(user)

    async def still_may(self, user: str, command: Command, right: Right) -> str:
        """Why this user can't send or approve a command now, without markup; empty if they can."""
        judge = may_approve if right is Right.APPROVER else may_give
        _, why = await self._people.judged(user, partial(judge, command=command, rules=self.rules), fresh=True)
        return why.plain if why else ""

    async def objection(self, user: str, command: Command) -> str:
        """Why this user can't send a command, as far as Slack said lately; empty if they can."""
        _, why = await self._judged(user, partial(may_give, command=command, rules=self.rules), fresh=False)
        return why.words if why else ""

    async def _judged(self, user: str, judge: AccessRule, *, fresh: bool) -> AccessResult:
        """Check a right by the rule. A right that can't be verified is refused."""
        try:
            return await self._people.judged(user, judge, fresh=fresh)
        except UnverifiedError as error:
            log.warning("%s; refused", error)
            return None, UNVERIFIABLE if error.permanent else UNVERIFIED


def is_old(request: Request) -> bool:
    return datetime.now(UTC) - (request.said_at or request.at) > MAX_AGE


WITHOUT_A_FORM = frozenset({OVERVIEW, "help", *(each.name for each in FAMILIES["rolling"])})
"""Commands without a form: menus of commands, and those with buttons on the card that they are about."""


class AllowedCommands:
    """The commands that a person can send, by the current configuration."""

    def __init__(self, config: SupervisorConfig, access: AccessChecks) -> None:
        self._config = config
        self._access = access

    @property
    def example(self) -> str:
        """A worker of this host, for examples of commands."""
        return example_worker(self._config)

    @property
    def workers(self) -> int:
        return len(self._config.workers)

    def known(self, person: Person | None) -> list[CommandDefinition]:
        """The commands that a person can send for at least one worker."""
        return [each for each in CATALOG.values() if may_see(person, each, self._access.rules)]

    def in_a_form(self, person: Person | None) -> list[CommandDefinition]:
        return [
            each
            for each in self.known(person)
            if each.name not in WITHOUT_A_FORM
            if self._config.workers or each.target is not TargetRule.WORKERS
        ]

    async def to_user(self, user: str) -> list[CommandDefinition]:
        """The commands with a form for the person with this id."""
        return self.in_a_form(await self._access.known(user))

    def all_approvals(self, person: Person | None) -> bool:
        """True if the person may see the requests of others."""
        return may_see_all_approvals(person, self._access.rules)

    def may_press(self, person: Person | None, name: str, worker_id: str, channel: str) -> bool:
        """True if a button with this command and worker works for the person in this channel."""
        return self.may_give(person, Command(name, workers=(worker_id,)), channel)

    def may_give(self, person: Person | None, command: Command, channel: str) -> bool:
        """True if a button with this command works for the person in this channel."""
        return may_press(person, command, channel, self._access.rules)

    def may_fill_in(self, person: Person | None, name: str, worker_id: str) -> bool:
        """True if the form of a command for this worker works for the person in a permitted channel."""
        command = Command(name, workers=(worker_id,))
        return may_give(person, command, self._access.rules) is None

    def asks(self, name: str) -> bool:
        """True if a command from Slack needs an approval."""
        return self._config.needs_approval(name, "slack")
