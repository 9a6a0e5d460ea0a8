"""App Home: each person's page, composed when it's sent and published under their id.

A page is a row of the outbox, so it waits while Slack is away, survives a crash, and several orders are published
once. It's ordered when its reader opens it, turns or refreshes it, and after their own action.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.rules import Person, may_approve, may_give
from bot.outbound.content import MessageComposer
from bot.outbound.messages import HOME, DroppedError
from bot.outbound.slack_api import SlackApi
from bot.outbound.slack_errors import ErrorKind, error_code, explain, kind_of
from bot.pools import quick
from bot.views.cards.approval import ApprovalDetails
from bot.views.home import HomeData, HomePosition, HomeReader, home, plain_home, refused_home
from supervisor_core.commands.command import Command
from supervisor_core.common import crashpoints
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.intake.approvals.rules import ApprovalState
from supervisor_core.jobs.rows import recent
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import pause_reason

RECENT = 5  # commands

ACTION_SECONDS = 1.0
"""The delay after a reader's own action, so that the page shows the result of a quick command."""

NO_PAGE = frozenset({"not_enabled", "user_not_found", "invalid_user_id", "duplicate_external_id"})
"""Error codes for a person to whom Slack shows no page."""

log = logging.getLogger(__name__)


def order_page(user: str, position: HomePosition) -> Message:
    """Order the page of a reader who opens or turns it."""
    return Message(HOME, user, asdict(position))


def refresh_page(user: str) -> Message:
    """Order a person's page again after their own action; nothing if they haven't opened one."""
    return Message(HOME, user, None, ACTION_SECONDS)


def position_in(payload: Mapping[str, Any]) -> HomePosition:
    start = HomePosition()
    return HomePosition(int(payload.get("page", start.page)), str(payload.get("only", start.only)))


@dataclass(frozen=True, slots=True)
class HomePage:
    """A page, and a short one in case Slack refuses it."""

    view: dict[str, Any]
    plain: dict[str, Any]


PageComposer = Callable[[PendingMessage], Awaitable[HomePage]]


class HomePages:
    """Composes pages under one configuration."""

    def __init__(
        self,
        config: SupervisorConfig,
        access: AccessChecks,
        allowed: AllowedCommands,
        composer: MessageComposer,
        ledger: Ledger,
        hosts: Hosts,
    ) -> None:
        self._config = config
        self._access = access
        self._allowed = allowed
        self._composer = composer
        self._ledger = ledger
        self._hosts = hosts

    async def compose(self, message: PendingMessage) -> HomePage:
        """The page with the current state; `UnverifiedError` while Slack doesn't say who its reader is."""
        person = await self._access.known(message.subject)
        host, now = self._config.supervisor.id, datetime.now(UTC)
        refused = may_give(person, Command("status"), self._access.rules)
        if refused is not None:
            view = refused_home(refused.words, HomeData(host, (), now))
            return HomePage(view, view)
        workers, versions = await asyncio.gather(self._hosts.statuses(), self._hosts.versions())

        def read(connection: Connection) -> HomeData:
            pending = self._composer.pending_approvals(connection)
            return HomeData(
                host=host,
                workers=workers,
                at=now,
                teams={name: team.objective for name, team in self._config.teams.items()},
                versions=versions,
                approvals=[details for details in pending if self._waits_for(person, details)],
                alerts=self._composer.open_alerts(connection),
                recent=[(each, self._composer.link(connection, each.task_id)) for each in recent(connection, RECENT)],
                rests=pause_reason(connection, host),
            )

        data = await quick(self._ledger.read, read)
        return HomePage(home(data, self._reader(person), position_in(message.payload)), plain_home(data))

    def _waits_for(self, person: Person | None, details: ApprovalDetails) -> bool:
        """True where their vote would count, and they haven't voted."""
        approval = details.approval
        if person is None or approval.state is not ApprovalState.PENDING:
            return False
        reader = f"slack:{self._access.rules.workspace}/{person.id}"
        people = self._access.rules.slack.access.people
        own = approval.requester.person.is_same_as(reader, people) and not approval.terms.self_approval
        voted = any(vote.voter.is_same_as(reader, people) for vote in details.votes)
        return not own and not voted and may_approve(person, approval.command, self._access.rules) is None

    def _reader(self, person: Person | None) -> HomeReader:
        """The rights of the reader, looked up once for each team: its workers share them."""
        teams = {worker_id: worker.team for worker_id, worker in self._config.workers.items()}
        known: dict[tuple[str, str], bool] = {}

        def may(name: str, worker_id: str) -> bool:
            key = (name, teams.get(worker_id, ""))
            if key not in known:
                known[key] = self._allowed.may_fill_in(person, name, worker_id)
            return known[key]

        return HomeReader([definition.name for definition in self._allowed.in_a_form(person)], may)


async def publish_page(slack: SlackApi, user: str, page: HomePage) -> None:
    """Publish a page, or the short one if Slack refuses its content. `DroppedError` if Slack shows that person none."""
    try:
        await _publish(slack, user, page.view)
    except SlackApiError as error:
        if kind_of(error) is not ErrorKind.OTHER:
            raise
        log.error("Slack refuses the page of %s: %s; it's shown as plain text", user, explain(error))  # noqa: TRY400
        await _publish(slack, user, page.plain)


async def _publish(slack: SlackApi, user: str, view: dict[str, Any]) -> None:
    crashpoints.reach("home.publish:before")
    try:
        await slack.publish(user, view)
    except SlackApiError as error:
        if error_code(error) in NO_PAGE:
            raise DroppedError(f"App Home can't be shown to {user}: {explain(error)}") from None
        raise
    crashpoints.reach("home.publish:after")
