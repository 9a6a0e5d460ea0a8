"""Introductions: one message in the alert channel, and one in each channel that the bot is invited to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime

from sqlalchemy import Connection

from bot.inbound.dispatcher import Response
from bot.outbound.messages import WELCOME
from bot.views.cards.notices import introduction, welcome
from supervisor_core.config.load import SupervisorConfig, example_worker
from supervisor_core.storage import outbox
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.steps import Message, record
from supervisor_core.storage.store import Ledger

log = logging.getLogger(__name__)


class Introductions:
    """Introduces the bot, once in each channel. `bot`: its name in Slack; `reopen` is told of each channel that the bot
    was invited to, because messages may wait for it."""

    def __init__(self, config: SupervisorConfig, bot: str, reopen: Callable[[str], None]) -> None:
        self._config = config
        self._bot = bot
        self._reopen = reopen

    def order(self, ledger: Ledger) -> None:
        """Order the introduction in the alert channel, unless it was ordered before. It doesn't wait for the ledger."""
        channel = self._config.slack.alert_channel

        def write(connection: Connection) -> None:
            if outbox.payload_of(connection, WELCOME, channel) is None:
                record(connection, "", None, (self._message(channel),), datetime.now(UTC))

        def report(done: Future[None]) -> None:
            if not done.cancelled() and (error := done.exception()):
                log.warning("the introduction can't be stored, retrying at the next start: %s", error)

        if channel and self._config.slack.welcome:
            ledger.submit(write).add_done_callback(report)

    async def joined(self, envelope: StoredEnvelope) -> Response:
        """Introduce the bot in a channel that it was invited to. One that was never posted there is posted now; one
        that was, stays."""
        channel = str(envelope.payload["event"]["channel"])
        self._reopen(channel)
        return Response(messages=(self._message(channel),) if self._config.slack.welcome else ())

    def _message(self, channel: str) -> Message:
        config = self._config
        slack, host = config.slack, config.supervisor.id
        if channel == slack.alert_channel:
            content = welcome(self._bot, host, example_worker(config) if config.workers else "")
        else:
            content = introduction(host, slack.alert_channel, () if channel in slack.channels else slack.channels)
        return Message(WELCOME, channel, {"channel": channel, "alone": True, "content": content})
