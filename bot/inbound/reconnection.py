"""The link to Slack: always one connection, the next one open before the last one closes, and a new one after a cut."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from aiohttp import ClientError, ClientSession
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.connection import Connection, ConnectionEnd, NotWantedError, Receive
from bot.outbound.slack_errors import ErrorKind, explain, failure_text, kind_of, retry_after
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import BEAT_SECONDS, wait_until
from supervisor_core.host.network import DIRECT, Network

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.5, 10.0
"""Delays between tries, which double. They end early, because no command arrives meanwhile."""

SHORT_LIFE_SECONDS = 10.0
"""A shorter connection counts as a failed try."""

DISABLED_SECONDS = 60.0
"""Delay after `link_disabled`: only a person can turn Socket Mode on."""

CROWDED_SECONDS, LONGEST_CROWDED_SECONDS = (1.0, 5.0), 60.0
"""First delays after `too_many_websockets`. Later ones double and are spread, because others wait as well."""

LINGER_SECONDS = 10.0
"""Time during which an old connection may still bring envelopes after the next one is open."""

LAST_RECEIVING_SECONDS = 2.0

NOT_WANTED: Mapping[ConnectionEnd, str] = {
    ConnectionEnd.DISABLED: "Socket Mode is turned off for this app. Turn it on in the app's settings",
    ConnectionEnd.TOO_MANY: "the app has too many connections: another process uses the same token, or Slack still "
    "counts connections that were cut",
}

T = TypeVar("T")

log = logging.getLogger(__name__)


class SlackRefusedError(SupervisorError):
    """Slack refuses the connection, and waiting doesn't help."""


def token_refused(variable: str, word: str) -> SlackRefusedError:
    return SlackRefusedError(f"Slack rejected {variable}: {word}.", remedy="`supervisor doctor` says what to do.")


OnGap = Callable[[datetime, datetime], Awaitable[None]]


class Link:
    """Keeps the bot connected. `on_gap` is called after a gap with its start and end."""

    def __init__(
        self,
        client: AsyncWebClient,
        app_token: str,
        receive: Receive,
        on_gap: OnGap,
        network: Network = DIRECT,
    ) -> None:
        self._client = client
        self._app_token = app_token
        self._network = network
        self._receive = receive
        self._on_gap = on_gap
        self.alive: Callable[[float], None] = lambda _: None
        """Called regularly, with the longest time until the next call, work excluded."""
        self._open: dict[Connection, asyncio.Task[ConnectionEnd]] = {}
        self._lingering: dict[Connection, asyncio.Task[None]] = {}
        self._receiving: set[asyncio.Task[None]] = set()
        self._last_heard: datetime | None = None
        self._trouble = "not connected yet"
        self._since = datetime.now(UTC)
        self.others = ""
        """What Slack said at the last hello about connections of this app that aren't ours; empty without any."""
        self._short_lives = 0
        self._crowded = 0
        """`too_many_websockets` in a row."""
        self.opened = 0
        """The connections since the start."""
        self._opened_at = 0.0

    @property
    def trouble(self) -> str:
        """The problem with the link and its start; empty while there is none."""
        return f"{self._trouble}; since {self._since:%H:%M:%S} UTC" if self._trouble else ""

    @property
    def connections(self) -> int:
        """The open connections; Slack asks for a second one before it closes the first."""
        return len(self._open)

    @property
    def age(self) -> float:
        """How long the newest connection is open, in seconds; 0 without one."""
        return time.monotonic() - self._opened_at if self._open else 0.0

    @property
    def last_heard(self) -> datetime | None:
        """The last sign of Slack on any connection, including pongs."""
        heard = [
            datetime.now(UTC) - timedelta(seconds=each.heard_seconds_ago) for each in (*self._open, *self._lingering)
        ]
        return max([*heard, *([self._last_heard] if self._last_heard else [])], default=None)

    async def run(self, stopping: asyncio.Event, last_heard: datetime | None, connected: Callable[[], None]) -> None:
        """Stay connected until asked to stop. `last_heard`: when an earlier run of this program last heard Slack."""
        self._last_heard = last_heard
        async with ClientSession() as session:
            try:
                while not stopping.is_set():
                    self.alive(0.0)
                    delay = await self._once(session, stopping, connected)
                    if delay > 0:
                        self.alive(delay)
                        await wait_until(None, stopping, delay)
            finally:
                await self._leave()

    async def _once(self, session: ClientSession, stopping: asyncio.Event, connected: Callable[[], None]) -> float:
        """Connect, and stay until another connection is needed; return the delay before it."""
        try:
            connection = await run_until_stopped(stopping, self._connect(session))
        except (ClientError, OSError, TimeoutError, SlackApiError) as error:
            return self._could_not(error)
        if connection is None:
            return 0.0
        since, self._last_heard = self.last_heard, None
        running = asyncio.create_task(connection.run())
        running.add_done_callback(lambda _: connection.leaving.set())
        for old in tuple(self._open):
            self._let_go(old, self._open.pop(old))
        self._open[connection] = running
        self.opened, self._opened_at = self.opened + 1, time.monotonic()
        if self._trouble:
            log.info("connected to Slack", extra=LogEvent.SLACK_CONNECTED.extra())
        self._trouble = ""
        connected()
        self._compare(connection.connections)
        if since is not None:
            await self._on_gap(since, datetime.now(UTC))
        await self._stay(connection, stopping)
        if stopping.is_set():
            return 0.0
        if connection.reason is ConnectionEnd.REFRESH and not running.done():
            return self._delay()  # the old one receives until the next one is open
        if connection.reason in NOT_WANTED:
            await connection.close(connection.reason)
        return self._after(connection, await running)

    async def _stay(self, connection: Connection, stopping: asyncio.Event) -> None:
        """Wait until Slack ends the connection, or until the stop."""
        begun = time.monotonic()
        while not (connection.leaving.is_set() or stopping.is_set()):
            self.alive(BEAT_SECONDS)
            await wait_until(connection.leaving, stopping, BEAT_SECONDS)
        if time.monotonic() - begun < SHORT_LIFE_SECONDS:
            self._short_lives += 1
        else:
            self._short_lives = self._crowded = 0

    async def _connect(self, session: ClientSession) -> Connection:
        answer = await self._client.apps_connections_open(app_token=self._app_token)
        connection = Connection(session, str(answer["url"]), self._receive, self._receiving, self._network)
        await connection.open()
        return connection

    def _compare(self, counted: int) -> None:
        """Compare Slack's number of the app's connections with ours."""
        ours, self.others = len(self._open) + len(self._lingering), ""
        if counted > ours:
            self.others = (
                f"Slack counts {counted} connections of this app, and {ours} of them is ours: another process may use "
                "the same token and get some of the commands, or Slack still counts one that was cut"
            )
            log.warning("%s", self.others, extra=LogEvent.SLACK_TOKEN_SHARED.extra(error=self.others))

    def _could_not(self, error: Exception) -> float:
        """Note why there is no connection; return the delay before the next try."""
        self._short_lives += 1
        if isinstance(error, NotWantedError) and error.end in NOT_WANTED:
            return self._not_wanted(error.end)
        asked = None
        if isinstance(error, SlackApiError):
            asked = retry_after(error)
            if kind_of(error) is ErrorKind.PERMISSION:
                raise token_refused("SLACK_APP_TOKEN", explain(error)) from None
        self._wrong(f"Slack can't be reached: {failure_text(error)}")
        return asked if asked is not None else max(self._delay(), FIRST_DELAY_SECONDS)

    def _after(self, connection: Connection, end: ConnectionEnd) -> float:
        """Note how a connection ended; return the delay before the next one."""
        self._last_heard = self.last_heard
        del self._open[connection]
        if end is ConnectionEnd.REFRESH:
            return self._delay()
        if end in NOT_WANTED:
            return self._not_wanted(end)
        words_of = {ConnectionEnd.CUT: "was cut", ConnectionEnd.SILENT: "froze"}
        self._wrong(f"the connection to Slack {words_of.get(end, 'ended')}")
        return self._delay()

    def _not_wanted(self, end: ConnectionEnd) -> float:
        """Note why Slack refuses connections; return the delay before the next try."""
        self._wrong(NOT_WANTED[end])
        if end is ConnectionEnd.DISABLED:
            return DISABLED_SECONDS
        self._crowded += 1
        if self._crowded <= len(CROWDED_SECONDS):
            return CROWDED_SECONDS[self._crowded - 1]
        doubled: float = CROWDED_SECONDS[-1] * 2 ** min(self._crowded - len(CROWDED_SECONDS), 10)
        spread: float = random.uniform(0.5, 1.0)  # noqa: S311 (spreads tries, hides nothing)
        return min(LONGEST_CROWDED_SECONDS, doubled) * spread

    def _wrong(self, words: str) -> None:
        if not self._trouble:
            self._since = datetime.now(UTC)
        if words != self._trouble:  # logged once while it lasts
            log.warning("%s", words, extra=LogEvent.SLACK_DISCONNECTED.extra(error=words))
        self._trouble = words

    def _delay(self) -> float:
        """The delay before the next try: none after a long connection or the first short one, then longer each time."""
        if self._short_lives <= 1:
            return 0.0
        delay = FIRST_DELAY_SECONDS * 2 ** min(self._short_lives - 2, 10)
        spread: float = random.uniform(0.75, 1.25)  # noqa: S311 (spreads reconnects, hides nothing)
        return min(LONGEST_DELAY_SECONDS, float(delay)) * spread

    def _let_go(self, connection: Connection, running: asyncio.Task[ConnectionEnd]) -> None:
        """Keep receiving on the old connection for a moment, beside the next one."""

        async def wait() -> None:
            await asyncio.wait([running], timeout=LINGER_SECONDS)
            await connection.close()
            await running
            del self._lingering[connection]

        self._lingering[connection] = asyncio.create_task(wait())

    async def _leave(self) -> None:
        """Close all connections; what has arrived is stored first."""
        self._last_heard = self.last_heard
        endings: list[asyncio.Task[Any]] = [*self._open.values(), *self._lingering.values()]
        for connection in (*self._open, *self._lingering):
            await connection.close()
        await asyncio.gather(*endings, return_exceptions=True)
        self._open.clear()
        if self._receiving:
            await asyncio.wait(self._receiving, timeout=LAST_RECEIVING_SECONDS)
        for task in self._receiving:
            task.cancel()


async def run_until_stopped(stopping: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of the work; None if the stop came first."""
    task = asyncio.create_task(work)
    try:
        await wait_until(task, stopping)
        return task.result() if task.done() else None
    finally:
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ClientError, OSError, TimeoutError, SlackApiError):
                await task
