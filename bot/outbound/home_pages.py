"""App Home pages: built from a live look, the ledger and the reader's rights, and published where they changed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.people import UnverifiedError
from bot.access.rules import Person, may_approve, may_give
from bot.outbound.content import MessageComposer
from bot.outbound.home import follows_until, position
from bot.outbound.messages import DroppedError
from bot.outbound.rate_limits import PUBLISH, Pace, gates, is_requested
from bot.outbound.slack_api import SlackApi
from bot.outbound.slack_errors import ErrorKind, error_code, explain, kind_of
from bot.pools import quick
from bot.views.cards.approval import ApprovalDetails
from bot.views.home.page import home, plain_home, refused_home
from bot.views.home.sections import HomeData, HomeReader, OpenAlert, RecentCommand
from supervisor_core.commands.command import Command
from supervisor_core.common import crashpoints
from supervisor_core.common.text import canonical_json
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.wiring import ChatContext
from supervisor_core.intake.approvals.rules import ApprovalState
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import pause_reason

RECENT = 5  # commands

CONFLICT = "hash_conflict"
# Slack shows that person no page. Opening App Home orders it again.
NOBODY = frozenset({"not_enabled", "user_not_found", "invalid_user_id", "duplicate_external_id"})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HomePage:
    """A page, and a short one in case Slack refuses it."""

    view: dict[str, Any]
    plain: dict[str, Any]


PageComposer = Callable[[PendingMessage], Awaitable[HomePage]]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A look at the workers, which serves every page that was ordered before it began."""

    at: datetime
    workers: list[dict[str, Any]]
    versions: Mapping[str, str]


class HomePages:
    """Composes pages under one configuration."""

    def __init__(
        self,
        config: SupervisorConfig,
        access: AccessChecks,
        allowed: AllowedCommands,
        composer: MessageComposer,
        ledger: Ledger,
        doors: ChatContext,
    ) -> None:
        self._config = config
        self._access = access
        self._allowed = allowed
        self._composer = composer
        self._ledger = ledger
        self._doors = doors
        self._snapshot: _Snapshot | None = None

    async def compose(self, message: PendingMessage) -> HomePage:
        """The page of an order with the current state; `UnverifiedError` while Slack doesn't say who its reader is."""
        person = await self._access.known(message.subject)
        now = datetime.now(UTC)
        config, kept = self._config, follows_until(message.payload)
        refused = may_give(person, Command("status"), self._access.rules)
        if refused is not None:
            view = refused_home(refused.words, HomeData(config.supervisor.id, (), now, kept))
            return HomePage(view, view)
        snapshot = await self._look(message.due_at)
        waiting, alerts, recent, rests = await quick(self._ledger.read, self._rows)
        data = HomeData(
            host=config.supervisor.id,
            workers=snapshot.workers,
            at=snapshot.at,
            until=kept,
            teams={name: team.objective for name, team in config.teams.items()},
            versions=snapshot.versions,
            approvals=[each for each in waiting if self._waits_for(person, each)],
            alerts=alerts,
            recent=recent,
            rests=rests,
        )
        return HomePage(home(data, self._reader(person), position(message.payload)), plain_home(data))

    async def _look(self, ordered: datetime) -> _Snapshot:
        if self._snapshot is None or self._snapshot.at <= ordered:
            now = datetime.now(UTC)
            workers, versions = await asyncio.gather(self._doors.look(), self._doors.versions())
            self._snapshot = _Snapshot(now, workers, versions)
        return self._snapshot

    def _rows(
        self, connection: Connection
    ) -> tuple[list[ApprovalDetails], Sequence[OpenAlert], list[RecentCommand], str]:
        return (
            self._composer.pending_approvals(connection),
            self._composer.open_alerts(connection),
            self._composer.recent_commands(connection, RECENT),
            pause_reason(connection, self._config.supervisor.id),
        )

    def _waits_for(self, person: Person | None, details: ApprovalDetails) -> bool:
        """True where their vote would count, and they haven't voted."""
        approval = details.approval
        if person is None or approval.state is not ApprovalState.PENDING:
            return False
        me = f"slack:{self._access.rules.workspace}/{person.id}"
        people = self._access.rules.slack.access.people
        own = approval.requester.person.is_same_as(me, people) and not approval.terms.self_approval
        voted = any(vote.voter.is_same_as(me, people) for vote in details.votes)
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

        return HomeReader([each.name for each in self._allowed.in_a_form(person)], may)


class HomePublisher:
    """Publishes one page at a time with its current state, unless nothing changed."""

    def __init__(self, slack: SlackApi, pace: Pace, compose: PageComposer) -> None:
        self._slack = slack
        self._pace = pace
        self._compose = compose

    async def publish(self, message: PendingMessage) -> Mapping[str, Any]:
        """Publish one page; its address. `UnverifiedError` while Slack doesn't say who its reader is, `DroppedError`
        where Slack shows that person none."""
        try:
            page = await self._compose(message)
        except UnverifiedError as error:
            self._pace.hold(PUBLISH, error.seconds or None)
            raise
        mark = _mark(page.view)
        if mark == message.address.get("mark") and not is_requested(message):
            return message.address
        try:
            view_hash = await self._publish_whole_or_plain(message, page)
        except SlackApiError as error:
            if error_code(error) not in NOBODY:
                raise
            raise DroppedError(f"App Home can't be shown to {message.subject}: {explain(error)}") from None
        return {"hash": view_hash, "mark": mark, "at": message.payload.get("at")}

    async def _publish_whole_or_plain(self, message: PendingMessage, page: HomePage) -> str:
        try:
            return await self._publish_view(message, page.view)
        except SlackApiError as error:
            is_content = kind_of(error) is ErrorKind.OTHER and error_code(error) not in NOBODY
            if not is_content or page.view is page.plain:
                raise
            log.error("Slack refuses the page of %s: %s; it's shown as plain text", message.subject, explain(error))  # noqa: TRY400
        return await self._publish_view(message, page.plain)

    async def _publish_view(self, message: PendingMessage, view: Mapping[str, Any]) -> str:
        """Publish the page over its predecessor, so that a slow call never replaces a newer page; return its hash.

        After a crash the stored hash may be old, but this page is still the newest."""
        self._pace.used(gates(message))
        crashpoints.reach("home.publish:before")
        try:
            view_hash = await self._slack.publish(message.subject, view, message.address.get("hash"))
        except SlackApiError as error:
            if error_code(error) != CONFLICT:
                raise
            self._pace.used(gates(message))
            view_hash = await self._slack.publish(message.subject, view, None)
        crashpoints.reach("home.publish:after")
        return view_hash


def _mark(view: Mapping[str, Any]) -> str:
    """A digest of the page without the time at which it was made."""
    blocks = [block for block in view["blocks"] if block.get("block_id") != "footer"]
    return hashlib.sha256(canonical_json(blocks).encode()).hexdigest()
