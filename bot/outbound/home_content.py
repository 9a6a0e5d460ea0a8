"""What somebody's page shows: gathered from a live look, from the ledger, and from what they may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.rules import Person, may_approve, may_give
from bot.outbound.content import MessageComposer
from bot.outbound.home import place_of, until
from bot.pools import quick
from bot.views.cards.approval import ApprovalDetails
from bot.views.home.page import home, plain_home, refused_home
from bot.views.home.sections import HomeData, HomeReader, OpenAlert, RecentCommand
from supervisor_core.commands.command import Command
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.wiring import ChatContext
from supervisor_core.intake.approvals.rules import ApprovalState
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import resting

RECENT = 5  # commands

Alerts = Callable[[Connection], Sequence[OpenAlert]]
"""Those that are open, the newest first."""


def no_alerts(_connection: Connection) -> Sequence[OpenAlert]:
    """Where nobody looks for conditions yet."""
    return ()


@dataclass(frozen=True, slots=True)
class HomePage:
    """A page, and the least there is to say where Slack does not take it."""

    view: dict[str, Any]
    plain: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Looked:
    """A look at the workers, which serves everybody whose page was ordered before it began."""

    at: datetime
    workers: list[dict[str, Any]]
    versions: Mapping[str, str]


class HomePages:
    """Composes pages, by the configuration that is in force."""

    def __init__(
        self,
        config: SupervisorConfig,
        judging: AccessChecks,
        offering: AllowedCommands,
        composing: MessageComposer,
        ledger: Ledger,
        doors: ChatContext,
        alerts: Alerts = no_alerts,
    ) -> None:
        self._config = config
        self._judging = judging
        self._offering = offering
        self._composing = composing
        self._ledger = ledger
        self._doors = doors
        self._alerts = alerts
        self._looked: _Looked | None = None

    async def compose(self, message: PendingMessage) -> HomePage:
        """The page that was ordered, as all is now; `UnverifiedError` while Slack does not say who its reader is."""
        user = message.subject
        person = await self._judging.known(user)
        now = datetime.now(UTC)
        config, kept = self._config, until(message.payload)
        refused = may_give(person, Command("status"), self._judging.rules)
        if refused is not None:
            nothing = HomeData(config.supervisor.id, (), now, kept)
            view = refused_home(refused.words, nothing)
            return HomePage(view, view)
        looked = await self._look(message.due_at)
        waiting, alerts, recent, rests = await quick(self._ledger.read, self._rows)
        picture = HomeData(
            host=config.supervisor.id,
            workers=looked.workers,
            at=looked.at,
            until=kept,
            teams={name: team.objective for name, team in config.teams.items()},
            versions=looked.versions,
            approvals=[each for each in waiting if self._waits_for(person, each)],
            alerts=alerts,
            recent=recent,
            rests=rests,
        )
        return HomePage(home(picture, self._reader(person), place_of(message.payload)), plain_home(picture))

    async def _look(self, ordered: datetime) -> _Looked:
        if self._looked is None or self._looked.at <= ordered:
            now = datetime.now(UTC)
            workers, versions = await asyncio.gather(self._doors.look(), self._doors.versions())
            self._looked = _Looked(now, workers, versions)
        return self._looked

    def _rows(
        self, connection: Connection
    ) -> tuple[list[ApprovalDetails], Sequence[OpenAlert], list[RecentCommand], str]:
        return (
            self._composing.waiting(connection),
            self._alerts(connection),
            self._composing.recent(connection, RECENT),
            resting(connection, self._config.supervisor.id),
        )

    def _waits_for(self, person: Person | None, asking: ApprovalDetails) -> bool:
        """Whether their vote would count, and they have not given it."""
        approval = asking.approval
        if person is None or approval.state is not ApprovalState.PENDING:
            return False
        me = f"slack:{self._judging.rules.workspace}/{person.id}"
        own = approval.requester.person.id == me and not approval.terms.self_approval
        said = any(vote.voter.id == me for vote in asking.votes)
        return not own and not said and may_approve(person, approval.command, self._judging.rules) is None

    def _reader(self, person: Person | None) -> HomeReader:
        """What they may; the same for all workers of a team, so it is asked once for each."""
        teams = {worker_id: worker.team for worker_id, worker in self._config.workers.items()}
        known: dict[tuple[str, str], bool] = {}

        def may(name: str, worker_id: str) -> bool:
            key = (name, teams.get(worker_id, ""))
            if key not in known:
                known[key] = self._offering.may_fill_in(person, name, worker_id)
            return known[key]

        return HomeReader([each.name for each in self._offering.in_a_form(person)], may)


PageComposer = Callable[[PendingMessage], Awaitable[HomePage]]
