"""The Slack service of the daemon: connection, intake, router and delivery."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from bot.access.checks import AccessChecks
from bot.access.config_ids import find_unknown_ids
from bot.access.on_call import OnCallPeople
from bot.access.people import People, UnverifiedError
from bot.access.rules import AccessRules, approver_ids, configured_ids
from bot.answers import ReportReader
from bot.inbound.dispatcher import EnvelopeDispatcher, Refusals
from bot.inbound.identity import Identity, find_identity
from bot.inbound.intake import EnvelopeWriter, Intake
from bot.inbound.notices import ConnectionNotices
from bot.inbound.reconnection import Link, run_until_stopped
from bot.inbound.router import Router
from bot.outbound.channel_health import ChannelHealth
from bot.outbound.content import MessageComposer
from bot.outbound.delivery import Delivery
from bot.outbound.home import HomePage
from bot.outbound.messages import notify_admins
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi, connect_by, one_session, web_client
from bot.requests.handlers import RequestHandlers, build_handlers
from bot.requests.introductions import Introductions
from supervisor_core.alerts.oncall import OnCallDirectory
from supervisor_core.commands.command import Command, Issuer, person_of
from supervisor_core.commands.definitions import Right
from supervisor_core.common.errors import TemporaryError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.slack_credentials import SlackCredentials
from supervisor_core.daemon.chat import Chat
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.intake.approvals.rights import CHAT, Rights, RightsUnknown, RightsUnverifiable
from supervisor_core.intake.approvals.rules import Approval
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.schedules.rules import Schedule
from supervisor_core.intake.schedules.runner import ScheduledAnswer
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.store import Ledger

CALL_SECONDS = 10
"""For one call of the Web API; the SDK's own 30 would keep everything that waits behind it too long."""

log = logging.getLogger(__name__)


ASK_SECONDS = 20.0
"""Time for all questions to Slack about one person. Each call has a limit of its own."""

ANSWER_SECONDS = 30.0
"""Time for an answer, with a live look at all workers."""

T = TypeVar("T")


class ChatBridge:
    """Asks the bot from any thread but that of its event loop: whether a person still has a right, and for the answer
    of a scheduled command. While Slack isn't connected, the host's own knowledge decides about rights."""

    def __init__(
        self, config: SupervisorConfig, ledger: Ledger, credentials: SlackCredentials, host_rights: Rights
    ) -> None:
        self._config, self._ledger, self._credentials = config, ledger, credentials
        self._host_rights = host_rights
        self._chat: tuple[asyncio.AbstractEventLoop, Callable[[], RequestHandlers]] | None = None

    def service(self, approvals: Approvals, hosts: Hosts) -> SlackService:
        return SlackService(self._config, self._ledger, self._credentials, self, approvals, hosts)

    def connected(self, handlers: Callable[[], RequestHandlers]) -> None:
        """Start to ask; call it on the event loop. The handlers change with the configuration."""
        self._chat = (asyncio.get_running_loop(), handlers)

    def disconnected(self) -> None:
        self._chat = None

    def check_right(self, who: Issuer, command: Command, right: Right) -> str:
        """The reason for a refusal now; empty if the person has the right."""
        if self._chat is None or not who.id.startswith(CHAT):
            return self._host_rights(who, command, right)
        loop, handlers = self._chat
        user = who.id.rpartition("/")[2]

        async def ask() -> str:
            return await handlers().access.still_may(user, command, right)

        try:
            return _run(loop, ask(), ASK_SECONDS)
        except UnverifiedError as error:
            raise (RightsUnverifiable if error.permanent else RightsUnknown)(f"{error}.") from error
        except (TimeoutError, CancelledError) as error:
            raise RightsUnknown(
                f"Slack didn't confirm in time that {who.name or who.id} still has the right."
            ) from error

    def answer(self, schedule: Schedule, command: Command) -> ScheduledAnswer:
        """The answer of a scheduled command; a retryable error if there's none now."""
        if self._chat is None:
            raise TemporaryError(f"{command.name} can't be answered: Slack isn't connected.")
        loop, handlers = self._chat

        async def ask() -> ScheduledAnswer:
            return await handlers().schedules.answered(schedule, command)

        try:
            return _run(loop, ask(), ANSWER_SECONDS)
        except UnverifiedError as error:
            raise TemporaryError(f"{error}.") from error
        except (TimeoutError, CancelledError) as error:
            raise TemporaryError(f"{command.name} had no answer within {ANSWER_SECONDS:g} s.") from error


def _run(loop: asyncio.AbstractEventLoop, question: Coroutine[Any, Any, T], seconds: float) -> T:
    future = asyncio.run_coroutine_threadsafe(question, loop)
    try:
        return future.result(seconds)
    except (TimeoutError, CancelledError):
        future.cancel()
        raise


class SlackService(Chat):
    """Takes requests from Slack and delivers messages to it. Everything else goes on without Slack."""

    name = "slack"

    def __init__(
        self,
        config: SupervisorConfig,
        ledger: Ledger,
        credentials: SlackCredentials,
        bridge: ChatBridge,
        approvals: Approvals,
        hosts: Hosts,
    ) -> None:
        if credentials.bot_token is None or credentials.app_token is None:
            raise ValueError("Slack needs both tokens")
        super().__init__()
        self._config = config
        self._ledger = ledger
        self._approvals = approvals
        self._bridge = bridge
        self._hosts = hosts
        self._notices = ConnectionNotices(ledger, lambda: self._config)
        self._known: Identity | None = None
        self._handlers: RequestHandlers | None = None
        self._app_token = credentials.app_token.get_secret_value()
        self._client = web_client(credentials, CALL_SECONDS)
        self._channels = ChannelHealth(self._client, lambda: self._config.slack)
        self._on_call = OnCallPeople(self._client, OnCallDirectory(lambda: self._config))
        self._link: Link | None = None
        self._delivery: Delivery | None = None
        self._trouble = "not connected yet"

    def configured(self, config: SupervisorConfig) -> None:
        """Handle the next requests by this configuration."""
        self._config = config
        if self._known is not None:
            self._handlers = self._build_handlers(self._known)

    def problem(self) -> str:
        """The problem with the connection to Slack, else with its channels and the messages that wait."""
        if self._link is None or self._delivery is None:
            return self._trouble
        return self._link.trouble or "; ".join(filter(None, (self._channels.problem, self._delivery.problem)))

    def notice(self) -> str:
        """What Slack said about connections of other processes."""
        return self._link.others if self._link else ""

    def figures(self) -> dict[str, float]:
        link = self._link
        if link is None:
            return {"connected": 0.0}
        found = {"connected": float(bool(link.connections and not link.trouble))}
        found |= {"connection_age_seconds": link.age, "connections_total": float(link.opened)}
        if (heard := link.last_heard) is not None:
            found["heard_seconds_ago"] = max(0.0, (datetime.now(UTC) - heard).total_seconds())
        return found

    async def run(self, stopping: asyncio.Event) -> None:
        """Stay connected and deliver until asked to stop."""
        connect_by(self._config.network, self._client)
        async with one_session(self._client):
            await self._run(stopping)

    async def _run(self, stopping: asyncio.Event) -> None:
        def report(trouble: str) -> None:
            self._trouble = trouble

        identity = await run_until_stopped(stopping, find_identity(self._client, stopping, self.pulse, report))
        if identity is None:
            return
        log.info("known to Slack as @%s in %s", identity.name, identity.team)
        self._known, self._handlers = identity, self._build_handlers(identity)
        api = SlackApi(self._client, identity.bot_id, self._config.network)
        writer = EnvelopeWriter(self._ledger)
        self._handlers.introductions.order(self._ledger)
        router = Router(self._client, identity, self._handlers_now)
        dispatcher = EnvelopeDispatcher(self._ledger, router.handle, writer.quiet)
        # Looked up at each call: the handlers change with the configuration.
        answer = lambda *args: self._handlers_now().forms.answer(*args)  # noqa: E731, PLW0108
        intake = Intake(writer, dispatcher, Refusals(api, identity), answer)
        network = self._config.network
        link = Link(self._client, self._app_token, intake.receive, self._notices.report_gap, network)
        link.alive = partial(self.pulse.beat, loop="connection")
        delivery = Delivery(self._sender(api, identity), resolve=self._on_call.resolve)
        delivery.alive = partial(self.pulse.beat, loop="messages")
        self._link, self._delivery = link, delivery
        before = await self._notices.load()
        # Before the next can come: one person's requests are handled in their order.
        if left := await dispatcher.resume():
            log.info("%d requests from before the last end are handled now", left)
        work = (
            link.run(stopping, before, delivery.back),
            delivery.run(stopping),
            self._notices.keep_saving(stopping, lambda: link.last_heard),
            self._check_ids(identity),
            self._channels.watch(stopping),
        )
        loop = asyncio.get_running_loop()
        try:
            with self._ledger.listening(lambda: loop.call_soon_threadsafe(delivery.wake)):
                await self._together(work)
            await self._notices.save(link.last_heard)
        finally:
            await dispatcher.close()
            self._link, self._delivery, self._trouble = None, None, "not connected"

    async def _together(self, work: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run all of it, with answers for rights and schedules; when one part fails, end the others."""
        self._bridge.connected(self._handlers_now)
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            self._bridge.disconnected()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _handlers_now(self) -> RequestHandlers:
        if self._handlers is None:
            raise TemporaryError("The supervisor is just starting.", remedy="Try again.")
        return self._handlers

    def _build_handlers(self, identity: Identity) -> RequestHandlers:
        config = self._config
        return build_handlers(
            config,
            self._client,
            self._ledger,
            self._approvals,
            self._hosts,
            AccessChecks(
                People(
                    self._client, {who for who, _ in configured_ids(config.slack, config.teams)}, on_call=self._on_call
                ),
                self._rules(identity),
            ),
            self._composer(identity),
            Introductions(config, identity.name, self._reopen),
            self._channels,
        )

    def _reopen(self, channel: str) -> None:
        if self._delivery is not None:
            self._delivery.reopen(channel)

    def _rules(self, identity: Identity) -> AccessRules:
        return AccessRules(self._config.slack, self._config.teams, self._config.workers, identity.team_id)

    def _composer(self, identity: Identity) -> MessageComposer:
        return MessageComposer(
            lambda name: self._config.needs_approval(name, "slack"),
            identity.url,
            lambda approval: self._approvers(approval, self._rules(identity)),
        )

    def _approvers(self, approval: Approval, rules: AccessRules) -> list[str]:
        """The people who may approve it, without its requester, whose Slack user the configuration may know."""
        people = self._config.slack.access.people
        own = "" if approval.terms.self_approval else person_of(approval.requester.person.id, people)
        return [who for who in approver_ids(approval.command, rules) if f"slack:{who}" != own]

    def _sender(self, api: SlackApi, identity: Identity) -> MessageSender:
        config = self._config
        return MessageSender(
            self._ledger,
            api,
            identity.name,
            fallback=config.slack.fallback_channel,
            composer=self._composer(identity),
            compose_page=self._compose_page,
            read_report=ReportReader(config.drive_root, config.state_dir).read,
            on_refusal=partial(notify_admins, slack=config.slack, host=config.supervisor.id, bot=identity.name),
            channels=self._channels,
        )

    async def _compose_page(self, message: PendingMessage) -> HomePage:
        return await self._handlers_now().pages.compose(message)

    async def _check_ids(self, identity: Identity) -> None:
        """Report the ids in the configuration that Slack doesn't know."""
        found = await find_unknown_ids(self._client, self._config, identity.team_id, identity.name)
        await self._notices.report_unknown_ids(found)
