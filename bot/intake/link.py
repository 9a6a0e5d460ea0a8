"""The link to Slack: always one connection, the next one open before the last one closes, and back after every cut."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

from aiohttp import ClientError, ClientSession
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.intake.connection import Connection, End, Receive
from bot.weather import FATAL, wait_asked, word_of
from supervisor_core.domain.errors import SupervisorError

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.5, 30.0
PATIENT_SECONDS = 60.0
"""After `link_disabled`, or `too_many_websockets` again and again: trying harder would make it worse."""

LINGER_SECONDS = 10.0
"""How long an old connection may still bring envelopes after the next one is open."""

log = logging.getLogger(__name__)


class SlackRefusedError(SupervisorError):
    """Slack refuses us, and no waiting will change that."""


def refused(variable: str, word: str) -> SlackRefusedError:
    """The error for a token that Slack does not take."""
    return SlackRefusedError(f"Slack refuses {variable}: {word}.", remedy="`supervisor doctor` says what to do.")


Deaf = Callable[[datetime, datetime], Awaitable[None]]
Others = Callable[[str], Awaitable[None]]


class Link:
    """Keeps the bot connected. `deaf` is told afterwards from when to when nothing could be heard, `others` at once
    that the app has connections which are not ours."""

    def __init__(self, client: AsyncWebClient, app_token: str, receive: Receive, deaf: Deaf, others: Others) -> None:
        self._client = client
        self._app_token = app_token
        self._receive = receive
        self._deaf = deaf
        self._tell_others = others
        self._current: Connection | None = None
        self._lingering: set[asyncio.Task[End]] = set()
        self._last_heard: datetime | None = None
        self._trouble = "not connected yet"
        self._others = ""

    @property
    def trouble(self) -> str:
        """What is wrong with the link; empty while it is well."""
        return self._trouble or self._others

    @property
    def last_heard(self) -> datetime | None:
        """When Slack was last heard of; moves on with every pong."""
        if self._current is not None:
            return datetime.now(UTC) - timedelta(seconds=self._current.heard_seconds_ago)
        return self._last_heard

    async def run(self, stopping: asyncio.Event, last_heard: datetime | None, connected: Callable[[], None]) -> None:
        """Stay connected until asked to stop. `last_heard`: when an earlier run of this program last heard Slack."""
        self._last_heard = last_heard
        failures = 0
        async with ClientSession() as session:
            stop = asyncio.create_task(stopping.wait())
            try:
                while not stopping.is_set():
                    delay = await self._once(session, stop, failures, connected)
                    failures = 0 if delay is None else failures + 1
                    if delay:
                        await asyncio.wait([stop], timeout=delay)
            finally:
                stop.cancel()
                await self._leave()

    async def _once(
        self, session: ClientSession, stop: asyncio.Task[Literal[True]], failures: int, connected: Callable[[], None]
    ) -> float | None:
        """Connect and stay; how long to wait before the next try, None for a connection that was well."""
        try:
            connection = await self._open(session)
        except (ClientError, OSError, TimeoutError, SlackApiError) as error:
            return self._could_not(error, failures)
        running = asyncio.create_task(connection.run())
        self._current, self._trouble = connection, ""
        connected()
        await self._was_deaf()
        leaving = asyncio.create_task(connection.leaving.wait())
        await asyncio.wait({running, leaving, stop}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        self._last_heard = self.last_heard
        if not running.done() and not stop.done():
            self._let_linger(connection, running)
            return None
        if stop.done():
            await connection.close()
        return self._after(await running)

    async def _open(self, session: ClientSession) -> Connection:
        answer = await self._client.apps_connections_open(app_token=self._app_token)
        connection = Connection(session, str(answer["url"]), self._receive)
        await connection.open()
        known = 1 + len(self._lingering)
        if connection.connections > known:
            self._others = (
                f"Slack counts {connection.connections} connections of this app, and only {known} are ours: "
                "another process uses the same token, and gets some of the commands."
            )
            log.error("%s", self._others)
            await self._tell_others(self._others)
        else:
            self._others = ""
        return connection

    def _could_not(self, error: Exception, failures: int) -> float:
        if isinstance(error, SlackApiError):
            word, asked = word_of(error), wait_asked(error)
            if word in FATAL:
                raise refused("SLACK_APP_TOKEN", word) from None
            if asked is not None:
                self._trouble = f"Slack asks us to wait {asked:.0f} s before the next connection"
                log.warning("%s", self._trouble)
                return asked
        said = word_of(error) if isinstance(error, SlackApiError) else f"{type(error).__name__} {error}".strip()
        self._trouble = f"Slack can't be reached: {said}"
        log.warning("%s", self._trouble)
        delay: float = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** min(failures, 10))
        return delay * random.uniform(0.75, 1.25)  # noqa: S311 (spreads reconnects, hides nothing)

    def _after(self, end: End) -> float | None:
        """What to do after a connection ended of which Slack had not said that it would."""
        self._current = None
        if end in (End.CLOSED, End.REFRESH):
            return None
        if end in (End.DISABLED, End.TOO_MANY):
            self._trouble = {
                End.DISABLED: "Socket Mode was switched off for this app: switch it on in the app's settings",
                End.TOO_MANY: "the app has too many connections: another process uses the same token",
            }[end]
            log.error("%s", self._trouble)
            return PATIENT_SECONDS
        self._trouble = f"the connection to Slack was lost ({end})"
        log.warning("%s; connecting again", self._trouble)
        return FIRST_DELAY_SECONDS * random.uniform(0.0, 0.5)  # noqa: S311 (spreads reconnects)

    def _let_linger(self, connection: Connection, running: asyncio.Task[End]) -> None:
        """Go on receiving on the old connection for a moment, beside the next one."""

        async def wait() -> End:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    return await asyncio.shield(running)
            await connection.close()
            return await running

        task = asyncio.create_task(wait())
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def _was_deaf(self) -> None:
        if self._last_heard is not None:
            await self._deaf(self._last_heard, datetime.now(UTC))

    async def _leave(self) -> None:
        if self._current is not None:
            await self._current.close()
        for task in self._lingering:
            task.cancel()
        await asyncio.gather(*self._lingering, return_exceptions=True)
