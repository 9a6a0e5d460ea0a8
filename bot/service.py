"""The Slack service of the daemon: link, intake, commands and delivery, put together here and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.access import Rules
from bot.commands import Commands, status_words
from bot.delivery import Delivery
from bot.intake.intake import Intake
from bot.intake.link import FATAL, Link, SlackRefusedError
from bot.people import People
from supervisor_core.carriers.local import LocalCarrier
from supervisor_core.config import SupervisorConfig
from supervisor_core.config.credentials import SlackCredentials
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.command import Command
from supervisor_core.gateway import Gateway
from supervisor_core.ledger.store import Ledger

RETRY_SECONDS = 2.0

log = logging.getLogger(__name__)

Look = Callable[[], Awaitable[list[dict[str, Any]]]]


class SlackService:
    """Hears commands in Slack and shows what came of them. Without Slack everything else goes on."""

    name = "slack"

    def __init__(
        self,
        config: SupervisorConfig,
        ledger: Ledger,
        credentials: SlackCredentials,
        look: Look,
        submitted: Callable[[], None],
    ) -> None:
        if credentials.bot_token is None or credentials.app_token is None:
            raise ValueError("Slack needs both tokens")
        self._config = config
        self._ledger = ledger
        self._look = look
        self._submitted = submitted
        self._app_token = credentials.app_token.get_secret_value()
        # No retries of the SDK's own: they post twice where only the answer was lost.
        self._client = AsyncWebClient(
            token=credentials.bot_token.get_secret_value(), base_url=credentials.api_url, retry_handlers=[]
        )
        self._delivery = Delivery(ledger, self._client)
        self._link: Link | None = None
        self._trouble = "not connected yet"

    def wake(self) -> None:
        """A command has come further: its card has something new to say."""
        self._delivery.wake()

    def problem(self) -> str:
        """What is wrong with the connection to Slack."""
        return self._link.trouble if self._link else self._trouble

    async def initialise(self) -> None:
        """Nothing yet: Slack may be away, and nobody waits for it here."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Be connected and deliver until asked to stop."""
        workspace = await self._workspace(stopping)
        if workspace is None:
            return
        intake = self._intake(workspace)
        self._link = Link(self._client, self._app_token, intake.receive, self._was_deaf)
        tasks = [
            asyncio.create_task(self._link.run(stopping, None, lambda: log.info("connected to Slack"))),
            asyncio.create_task(self._delivery.run(stopping)),
        ]
        try:
            left = await intake.resume()
            if left:
                log.info("%d requests from before the last end are dealt with now", left)
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await intake.close()
            self._link, self._trouble = None, "not connected"

    async def shut_down(self) -> None:
        """Nothing is left open: the SDK closes its connections after each call."""

    def _intake(self, workspace: str) -> Intake:
        slack, config = self._config.slack, self._config
        groups = (*slack.access.viewers, *slack.access.operators, *slack.access.approvers)
        of_teams = (who for team in config.teams.values() for who in (*team.operators, *team.approvers))
        commands = Commands(
            gateway=Gateway(config, LocalCarrier(self._ledger)),
            people=People(self._client, {*groups, *of_teams}),
            client=self._client,
            rules=Rules(slack, config.teams, config.workers, workspace),
            status=self._status,
            audited=self._audited,
            submitted=self._has_submitted,
        )
        return Intake(self._ledger, commands.deal, _no_answer)

    def _has_submitted(self) -> None:
        self._submitted()
        self._delivery.wake()

    async def _status(self, command: Command) -> str:
        workers = await self._look()
        return status_words([worker for worker in workers if worker["id"] in command.workers])

    async def _audited(self, entry: AuditEntry) -> object:
        return await asyncio.get_running_loop().run_in_executor(None, self._ledger.audit, entry)

    async def _was_deaf(self, since: datetime, until: datetime) -> None:
        log.warning("nothing could be heard from Slack from %s to %s; commands may have been lost", since, until)

    async def _workspace(self, stopping: asyncio.Event) -> str | None:
        """The id of our workspace; Slack being away is waited for."""
        while not stopping.is_set():
            try:
                answer = await self._client.auth_test()
                return str(answer["team_id"])
            except SlackApiError as error:
                word = str(error.response.get("error", ""))
                if word in FATAL:
                    raise SlackRefusedError(f"Slack refuses the bot token: {word}.") from None
                self._trouble = f"Slack answers {word or error.response.status_code}"
            except (ClientError, OSError, TimeoutError) as error:
                self._trouble = f"Slack can't be reached: {type(error).__name__}"
            log.warning("%s; trying again", self._trouble)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await stopping.wait()
        return None


async def _no_answer(_kind: str, _payload: object) -> None:
    """There are no modals and no menus yet."""
