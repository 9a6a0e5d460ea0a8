"""The Slack service of the daemon: link, intake, app, commands and delivery, put together here and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.access.checks import AccessChecks, AllowedCommands, ChatRights
from bot.access.config_ids import find_unknown_ids
from bot.access.people import People
from bot.access.rules import AccessRules, configured_ids
from bot.answers.logs import ReportReader
from bot.answers.workers import answer_handlers
from bot.inbound import notices as heard
from bot.inbound.dispatcher import EnvelopeDispatcher, Refusals, Response
from bot.inbound.intake import EnvelopeWriter, Intake
from bot.inbound.reconnection import Link, run_until_stopped, token_refused
from bot.inbound.router import Identity, RequestHandlers, Router
from bot.outbound.content import MessageComposer
from bot.outbound.delivery import Delivery
from bot.outbound.home import HomeRefresher, forget_old
from bot.outbound.home_pages import HomePage, HomePages
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi
from bot.outbound.slack_errors import FATAL, error_code, failure_text, notify_admins, retry_after
from bot.pools import quick
from bot.requests.alert_actions import AlertActions, AlertCommands
from bot.requests.commands import CommandRequests, HostAnswers
from bot.requests.form_views import FORM_SECONDS, FormActions
from bot.requests.home_actions import HomeActions
from bot.requests.request import AlertAction, Request, VoteRequest
from bot.requests.schedules import ChatAnswers, ScheduleCommands
from bot.requests.votes import Votes
from bot.views.cards.approval import ApprovalDetails
from supervisor_core.alerts.actions import AlertService
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Right
from supervisor_core.common.errors import SupervisorError, TemporaryError
from supervisor_core.common.service import wait_until
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.slack_settings import SlackCredentials
from supervisor_core.daemon.wiring import Chat, ChatContext
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.filing import LocalCarrier
from supervisor_core.intake.schedules.rules import Schedule
from supervisor_core.intake.schedules.runner import ScheduledAnswer
from supervisor_core.intake.schedules.service import Schedules
from supervisor_core.intake.submission import Gateway
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import pause_reason

CALL_SECONDS = 10
"""For one call of the Web API; the SDK's own 30 would keep everything that waits behind it too long."""

RETRY_SECONDS = 2.0
TIDY_SECONDS = 3600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handlers:
    """What deals with requests; a new one with each configuration."""

    judging: AccessChecks
    commands: CommandRequests
    offering: AllowedCommands
    voting: Votes
    pages: HomePages
    scheduling: ScheduleCommands
    attending: AlertActions


class SlackService(Chat):
    """Hears commands in Slack and shows what came of them. Without Slack everything else goes on."""

    name = "slack"

    def __init__(
        self,
        config: SupervisorConfig,
        ledger: Ledger,
        credentials: SlackCredentials,
        rights: ChatRights,
        answers: ChatAnswers,
        approvals: Approvals,
        doors: ChatContext,
    ) -> None:
        if credentials.bot_token is None or credentials.app_token is None:
            raise ValueError("Slack needs both tokens")
        super().__init__()
        self._config = config
        self._ledger = ledger
        self._approvals = approvals
        self._rights = rights
        self._answers = answers
        self._doors = doors
        self._homes = HomeRefresher(ledger)
        self._known: Identity | None = None
        self._room: Handlers | None = None
        self._app_token = credentials.app_token.get_secret_value()
        # No retries of the SDK's own: they post twice where only the answer was lost.
        self._client = AsyncWebClient(
            token=credentials.bot_token.get_secret_value(),
            base_url=credentials.api_url,
            timeout=CALL_SECONDS,
            retry_handlers=[],
        )
        self._link: Link | None = None
        self._delivery: Delivery | None = None
        self._trouble = "not connected yet"
        self._came_up = False
        self._ghosts: list[float] = []
        """When connections of this app ended that Slack may still count."""
        self._nobody_was_there = False
        """Whether this run has still to say how long there was none."""

    def configured(self, config: SupervisorConfig) -> None:
        """These workers and teams count from the next request on."""
        self._config = config
        if self._known is not None:
            self._room = self._room_for(self._known)
            self._homes.wake()

    def problem(self) -> str:
        """What is wrong: with the connection to Slack, or with what should be told there."""
        if self._link is None or self._delivery is None:
            return self._trouble
        return self._link.trouble or self._delivery.problem

    async def run(self, stopping: asyncio.Event) -> None:
        """Be connected and deliver until asked to stop."""
        identity = await run_until_stopped(stopping, self._identity(stopping))
        if identity is None:
            return
        speaker = SlackApi(self._client, identity.bot_id)
        reports = ReportReader(self._config.nas.root, self._config.state_dir)
        sender = MessageSender(
            self._ledger,
            speaker,
            identity.name,
            fallback=self._config.slack.fallback_channel,
            composer=self._composing(identity),
            compose_page=self._compose,
            read_report=reports.read,
            on_refusal=partial(
                notify_admins, slack=self._config.slack, host=self._config.supervisor.id, bot=identity.name
            ),
        )
        delivery = Delivery(sender, on_sent=self._homes.wake)
        self._known, self._room = identity, self._room_for(identity)
        self._rights.connected(self._still_may)
        self._answers.connected(self._answered)
        forms = FormActions(self._client, lambda: self._config, self._offered)
        homes = HomeActions(self._homes, forms, lambda: self._config)
        doors = RequestHandlers(self._deal, self._vote, self._ask_why, self._ask_how, self._attend)
        app = Router(self._client, identity, doors, forms, homes)
        keeping = EnvelopeWriter(self._ledger)
        dealing = EnvelopeDispatcher(self._ledger, app.deal, keeping.quiet)
        intake = Intake(keeping, dealing, Refusals(speaker), forms.answer)
        link = Link(self._client, self._app_token, intake.receive, self._was_deaf, self._others, self._ghosts)
        link.alive, delivery.alive = (
            partial(self.pulse.beat, loop="connection"),
            partial(self.pulse.beat, loop="messages"),
        )
        self._delivery, self._link = delivery, link
        loop = asyncio.get_running_loop()
        log.info("known to Slack as @%s in %s", identity.name, identity.team)
        before = await quick(heard.load_last_heard, self._config.state_dir)
        self._nobody_was_there = before is not None
        if not (self._came_up or before is None or await quick(heard.closed_cleanly, self._config.state_dir)):
            age = (datetime.now(UTC) - before).total_seconds()
            self._ghosts.append(time.monotonic() - max(age, 0.0))
        self._came_up = True
        left = await dealing.resume()  # before the next can come: one person's requests are dealt with in their order
        if left:
            log.info("%d requests from before the last end are dealt with now", left)
        tasks = [
            asyncio.create_task(link.run(stopping, before, delivery.back)),
            asyncio.create_task(delivery.run(stopping)),
            asyncio.create_task(self._homes.run(stopping, self._doors.heard)),
            asyncio.create_task(self._note_heard(stopping, link)),
            asyncio.create_task(self._tidy(stopping)),
            asyncio.create_task(self._look_up(identity)),
        ]
        try:
            with self._ledger.listening(lambda: loop.call_soon_threadsafe(delivery.wake)):
                await asyncio.gather(*tasks)
            if link.last_heard is not None:
                await self._noted(link.last_heard, left=True)
        finally:
            self._rights.disconnected()
            self._answers.disconnected()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await dealing.close()
            self._link, self._delivery, self._trouble = None, None, "not connected"

    @property
    def _alert_channel(self) -> str:
        """Where everybody hears of what goes wrong; empty where there is no such channel."""
        return self._config.slack.alert_channel or self._config.slack.fallback_channel

    def _room_for(self, identity: Identity) -> Handlers:
        slack, config = self._config.slack, self._config
        rules = AccessRules(slack, config.teams, config.workers, identity.team_id)
        judging = AccessChecks(People(self._client, {who for who, _ in configured_ids(slack, config.teams)}), rules)
        composing, offering = self._composing(identity), AllowedCommands(config, judging)

        async def waiting() -> list[ApprovalDetails]:
            return await quick(self._ledger.read, composing.pending_approvals)

        async def rests() -> str:
            look = partial(pause_reason, supervisor_id=config.supervisor.id)
            return await quick(self._ledger.read, look)

        informing = HostAnswers(
            config.supervisor.id,
            offering,
            look=self._doors.look,
            monitoring=self._doors.monitoring,
            approvals=waiting,
            rests=rests,
            looks=answer_handlers(config, self._ledger, self._doors, composing, offering),
            channel=self._alert_channel,
        )
        alerts = AlertService(self._ledger)
        tellers = {
            **informing.handlers(),
            **AlertCommands(self._ledger, alerts, self._alert_channel, tuple(config.workers)).handlers(),
        }
        scheduling = ScheduleCommands(config, Schedules(self._ledger), judging, tellers)
        commands = CommandRequests(
            config=config,
            gateway=Gateway(config, LocalCarrier(self._ledger), self._approvals),
            access=judging,
            handlers={**tellers, **scheduling.handlers()},
            submitted=self._doors.filed,
        )
        pages = HomePages(config, judging, offering, composing, self._ledger, self._doors)
        voting = Votes(self._approvals, judging, self._open_form, waiting)
        return Handlers(judging, commands, offering, voting, pages, scheduling, AlertActions(alerts, judging))

    def _composing(self, identity: Identity) -> MessageComposer:
        return MessageComposer(lambda name: self._config.needs_approval(name, "slack"), identity.url)

    async def _open_form(self, trigger_id: str, view: dict[str, Any]) -> None:
        async with asyncio.timeout(FORM_SECONDS):
            await self._client.views_open(trigger_id=trigger_id, view=view)

    def _at_work(self) -> Handlers:
        """What deals with requests, by the configuration that is in force when they are asked."""
        if self._room is None:
            raise TemporaryError("The supervisor is just starting.", remedy="Try again.")
        return self._room

    async def _deal(self, asked: Request) -> Response:
        return await self._at_work().commands.deal(asked)

    async def _vote(self, vote: VoteRequest) -> Response:
        return await self._at_work().voting.deal(vote)

    async def _ask_why(self, vote: VoteRequest) -> Response:
        return await self._at_work().voting.ask_why(vote)

    async def _ask_how(self, vote: VoteRequest) -> Response:
        return await self._at_work().voting.ask_how(vote)

    async def _compose(self, message: PendingMessage) -> HomePage:
        return await self._at_work().pages.compose(message)

    async def _attend(self, attention: AlertAction) -> Response:
        return await self._at_work().attending.deal(attention)

    async def _still_may(self, user: str, command: Command, right: Right) -> str:
        return await self._at_work().judging.still_may(user, command, right)

    async def _answered(self, schedule: Schedule, command: Command) -> ScheduledAnswer:
        return await self._at_work().scheduling.answered(schedule, command)

    async def _offered(self, user: str) -> list[CommandDefinition]:
        return await self._at_work().offering.to_user(user)

    async def _was_deaf(self, since: datetime, until: datetime) -> None:
        away, self._nobody_was_there = self._nobody_was_there, False
        if until - since < heard.SHORTEST_GAP:
            return
        log.warning("nothing was heard from Slack from %s to %s", to_text(since), to_text(until))
        host = self._config.supervisor.id
        await self._notice(partial(heard.notify_gap, host=host, since=since, until=until, away=away))

    async def _others(self, reason: str) -> None:
        await self._notice(partial(heard.notify_other_connections, reason=reason))

    async def _look_up(self, identity: Identity) -> None:
        """Whoever the configuration names and Slack does not know has no right: that is said once it is known."""
        found = await find_unknown_ids(self._client, self._config, identity.team_id, identity.name)
        for trouble in found:
            log.warning("%s", trouble)
        if found:
            await self._notice(partial(heard.notify_unknown_ids, host=self._config.supervisor.id, troubles=found))

    async def _notice(self, tell: Callable[..., None]) -> None:
        """To the alert channel, where there is one; the log has it in any case."""
        if self._alert_channel:
            await self._written(partial(tell, channel=self._alert_channel))

    async def _written(self, work: Callable[..., object]) -> None:
        """Housekeeping: where the ledger can't be written, it is said, and nothing else stops for it."""
        try:
            await asyncio.wrap_future(self._ledger.submit(work))
        except SupervisorError as error:
            log.warning("%s", error)

    async def _note_heard(self, stopping: asyncio.Event, link: Link) -> None:
        """Keep on disk when Slack was last heard of, so that the next run knows how long nobody listened."""
        while True:
            ended = await wait_until(None, stopping, heard.SAVE_SECONDS)
            if link.last_heard is not None:
                await self._noted(link.last_heard)
            if ended:
                return

    async def _noted(self, moment: datetime, *, left: bool = False) -> None:
        try:
            await quick(partial(heard.save_last_heard, left=left), self._config.state_dir, moment)
        except OSError as error:
            log.warning("when Slack was last heard can't be noted: %s", error)

    async def _tidy(self, stopping: asyncio.Event) -> None:
        """Delete the pages of people who don't look any more; all else has its retention in the ledger."""
        while True:
            await self._written(partial(forget_old, now=datetime.now(UTC)))
            if await wait_until(None, stopping, TIDY_SECONDS):
                return

    async def _identity(self, stopping: asyncio.Event) -> Identity | None:
        """Who we are; Slack being away is waited for."""
        said = ""
        while not stopping.is_set():
            self.pulse.beat()
            wait = RETRY_SECONDS
            try:
                answer = await self._client.auth_test()
                return Identity(
                    team_id=str(answer["team_id"]),
                    user_id=str(answer["user_id"]),
                    bot_id=str(answer.get("bot_id") or ""),
                    name=str(answer.get("user") or "supervisor"),
                    team=str(answer.get("team") or answer["team_id"]),
                    url=str(answer.get("url") or ""),
                )
            except SlackApiError as error:
                if error_code(error) in FATAL:
                    raise token_refused("SLACK_BOT_TOKEN", error_code(error)) from None
                self._trouble = f"Slack answers {error_code(error)}"
                wait = max(wait, retry_after(error) or 0.0)
            except (ClientError, OSError, TimeoutError) as error:
                self._trouble = f"Slack can't be reached: {failure_text(error)}"
            if said != self._trouble:  # once for as long as it lasts
                said = self._trouble
                log.warning("%s; trying again until it answers", said)
            self.pulse.beat(within=wait)
            await wait_until(None, stopping, wait)
        return None
