"""The connection to NATS: kept up forever, with its own words for every error.

A `tls://` URL begins with the TLS handshake. Otherwise a server in between could announce that it has no TLS, and
nats-py would go on without.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from supervisor_core.common.errors import SupervisorError
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport.messages import (
    ANSWER_SECONDS,
    FleetMessage,
    FleetUnavailable,
    NotPermitted,
    Pull,
    TranslatedErrors,
    in_words,
)

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

CONNECT_SECONDS = 5.0
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 30.0
"""Each wait is random up to this limit, which doubles: a thousand hosts don't come back at the same moment."""

CLOSE_SECONDS = 2.0
FAILED_CLOSE_SECONDS = 0.1
"""After a failed handshake, TLS is never closed."""

PING_SECONDS = 4.0
PATIENCE_SECONDS = 6.0
"""A connection whose server doesn't answer a ping for so long is given up: a line may fail without a word."""

NEVER = 10**6
"""In seconds: nats-py breaks its connection if an answer comes after it has given up a ping."""

SECURE = ("tls", "wss")
MESSAGE_ID = "Nats-Msg-Id"
_VIOLATION = re.compile(r'permissions violation for (?:publish|subscription) to "([^"]+)"')

log = logging.getLogger(__name__)


Handler = Callable[[FleetMessage], Awaitable[None]]


class FleetConnection:
    """One user's connection. It reconnects forever and subscribes again; everything else fails until it's back."""

    def __init__(self, url: str, keys: KeyPair, *, name: str, inbox: str, ca: Path | None = None) -> None:
        self._urls = url.split(",")
        self._keys = keys
        self._name = name
        self._inbox = inbox
        self._ca = ca
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._up, self._down = asyncio.Event(), asyncio.Event()
        self.came_up: Callable[[], None] = lambda: None
        """Called after each connect, once all is subscribed."""
        self._since = self._heard_at = datetime.now(UTC)
        self._problem = "It hasn't connected yet."
        self._handlers: dict[str, Handler] = {}
        self._pulls: dict[tuple[str, str], Pull] = {}
        self._refusals: dict[str, set[asyncio.Future[None]]] = {}
        """Requests under way by their subjects, as the server writes them in a refusal."""

    @property
    def connected(self) -> bool:
        return self._client is not None

    @property
    def since(self) -> datetime:
        """The time since when it has been up or down."""
        return self._since

    @property
    def heard_at(self) -> datetime:
        """The time at which the server certainly heard us: since then the line may have failed without a word."""
        return self._heard_at

    @property
    def problem(self) -> str:
        return "" if self.connected else self._problem

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="fleet-connection")

    async def wait_connected(self, seconds: float) -> None:
        """Wait until it's up; `FleetUnavailable` with the reason if that takes too long."""
        try:
            await asyncio.wait_for(self._up.wait(), seconds)
        except TimeoutError:
            raise self._unavailable() from None

    async def close(self) -> None:
        """Send what waits, and disconnect for good."""
        if self._task is not None:
            while not self._task.done():  # nats-py may keep a cancellation to itself
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            self._task = None
        self._client = None
        self._up.clear()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def publish(self, subject: str, data: bytes) -> None:
        """Send a message that isn't stored; nobody says whether it arrived."""
        client = self._connected()
        with TranslatedErrors():
            await client.publish(subject, data)

    async def publish_durably(
        self, subject: str, data: bytes, message_id: str, seconds: float = ANSWER_SECONDS
    ) -> Mapping[str, Any]:
        """Store a message in its stream. When this returns, it's on the server's disk.

        A message with the id of a recent one isn't stored again; then `duplicate` is true in the answer.
        """
        answer = json.loads(await self.request(subject, data, seconds, headers={MESSAGE_ID: message_id}))
        if "error" in answer:
            raise FleetUnavailable(f"The server didn't store a message to {subject}: {_api_error(answer)}.")
        return dict(answer)

    async def request(
        self, subject: str, data: bytes, seconds: float = ANSWER_SECONDS, *, headers: dict[str, str] | None = None
    ) -> bytes:
        """Ask, and wait for one answer. `NoAnswer` if nobody listens or answers, `NotPermitted` if we may not ask."""
        client = self._connected()
        refusal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refusals = self._refusals.setdefault(subject.casefold(), set())
        refusals.add(refusal)
        asking = asyncio.ensure_future(client.request(subject, data, seconds, headers=headers))
        try:
            both: set[asyncio.Future[Any]] = {asking, refusal}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if refusal.done():
                raise NotPermitted(f"The server doesn't permit this key to use {subject}.")
            with TranslatedErrors(subject):
                return (await asking).data
        finally:
            asking.cancel()
            refusal.cancel()
            refusals.discard(refusal)

    async def subscribe(self, subject: str, handler: Handler) -> None:
        """Have `handler` called for each message, now and after each reconnect. One handler for each subject."""
        is_new = subject not in self._handlers
        self._handlers[subject] = handler
        if is_new and self._client is not None:
            await self._subscribe(self._client, subject)

    async def pull(self, stream: str, consumer: str, seconds: float = 30.0) -> Sequence[FleetMessage]:
        """The next stored message of a consumer. Empty if none comes within the time limit."""
        client = self._connected()
        with TranslatedErrors():
            pulling = self._pulls.get((stream, consumer))
            if pulling is None:
                pulling = self._pulls[stream, consumer] = Pull(client, self._inbox, stream, consumer)
                await pulling.subscribe()
            return await pulling.next(seconds)

    def _connected(self) -> Client:
        if self._client is None:
            raise self._unavailable()
        return self._client

    def _unavailable(self) -> FleetUnavailable:
        servers = ", ".join(each.rpartition("@")[2].rpartition("/")[2] for each in self._urls)
        return FleetUnavailable(f"The fleet's server ({servers}) can't be used. {self._problem}")

    async def _run(self) -> None:
        longest = FIRST_RETRY_SECONDS
        while True:
            try:
                await self._live()
                longest = FIRST_RETRY_SECONDS
            except Exception as error:  # noqa: BLE001 (whatever it is, the next attempt may succeed)
                self._problem = in_words(error)
                longest = min(longest * 2, LONGEST_RETRY_SECONDS)
            await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311 (no secret)

    async def _live(self) -> None:
        """Connect, and return when the connection has ended."""
        self._down.clear()
        client = await self._connect()
        try:
            for subject in self._handlers:
                await self._subscribe(client, subject)
            await client.flush()
            self._client, self._since, self._problem = client, datetime.now(UTC), "The connection has ended."
            self._heard_at = self._since
            self._up.set()
            self.came_up()
            await self._stay(client)
        finally:
            if self._client is client:
                self._client, self._since = None, datetime.now(UTC)
            self._up.clear()
            self._pulls.clear()
            await _end(client, CLOSE_SECONDS)

    async def _stay(self, client: Client) -> None:
        """Return once the connection has ended, or the server doesn't answer any more."""
        down = asyncio.ensure_future(self._down.wait())
        ping: asyncio.Future[None] | None = None
        try:
            while True:
                ping = asyncio.ensure_future(client.flush(timeout=NEVER))
                for _ in range(2):  # once more: it may be this program that was held up
                    await asyncio.wait({ping, down}, timeout=PATIENCE_SECONDS / 2, return_when=asyncio.FIRST_COMPLETED)
                if not (ping.done() or down.done()):
                    self._problem = "The server doesn't answer any more."
                    return
                if not ping.done() or ping.exception() is not None:
                    return
                self._heard_at = datetime.now(UTC)
                await asyncio.wait({down}, timeout=PING_SECONDS)
        finally:
            down.cancel()
            if ping is not None:
                ping.cancel()

    async def _connect(self) -> Client:
        from nats.aio.client import Client

        client, errors = Client(), list[Exception]()

        async def failed(error: Exception) -> None:
            errors.append(error)
            self._violated(str(error))
            if self._client is client:
                self._problem = in_words(error)

        async def ended() -> None:
            self._down.set()

        secure = any(each.partition("://")[0] in SECURE for each in self._urls)
        try:
            await client.connect(
                self._urls,
                error_cb=failed,
                closed_cb=ended,
                name=self._name,
                allow_reconnect=False,  # we do it: nats-py gives up for good when its key is refused once
                connect_timeout=int(CONNECT_SECONDS),
                max_reconnect_attempts=1,  # of each server, in this attempt
                reconnect_time_wait=0,
                ping_interval=math.ceil(PING_SECONDS),  # its own pings find out if it doesn't read any more
                max_outstanding_pings=2,
                tls=self._tls() if secure else None,
                tls_handshake_first=secure,
                nkeys_seed_str=self._keys.seed,
                inbox_prefix=self._inbox,
            )
        except Exception as error:  # noqa: BLE001 (nats-py raises many kinds)
            cause = errors[-1] if errors else error
            await _end(client, FAILED_CLOSE_SECONDS)
            raise FleetUnavailable(in_words(cause)) from None
        return client

    def _tls(self) -> ssl.SSLContext:
        logging.getLogger("asyncio").addFilter(_is_news)
        try:
            return ssl.create_default_context(cafile=self._ca)
        except OSError as error:
            raise SupervisorError(f"The certificate file {self._ca} can't be used: {error.strerror}.") from None

    async def _subscribe(self, client: Client, subject: str) -> None:
        async def handle(message: Msg) -> None:
            try:
                got = FleetMessage(message.subject, message.data, message=message)
                await self._handlers[subject](got)
            except Exception:
                log.exception("a message to %s can't be handled", message.subject)

        with TranslatedErrors():
            await client.subscribe(subject, cb=handle)

    def _violated(self, words: str) -> None:
        """End the requests to a subject that we may not use; the server answers them with nothing else."""
        found = _VIOLATION.search(words)
        if found and not self._refusals.get(found[1].casefold()):
            log.warning("the fleet's server refused: %s", words)
        for each in tuple(self._refusals.get(found[1].casefold(), ())) if found else ():
            if not each.done():
                each.set_result(None)


async def _end(client: Client, seconds: float) -> None:
    """Send what waits, and disconnect; what can't be sent in this time is dropped with the connection."""
    ending = asyncio.ensure_future(client.close())
    try:
        await asyncio.wait({ending}, timeout=seconds)
    finally:
        if not ending.done():  # nats-py waits forever for a dead line
            ending.cancel()
            writer = getattr(client._transport, "_io_writer", None)  # noqa: SLF001 (it has no other way to give up)
            if writer is not None:
                writer.transport.abort()
        elif not ending.cancelled():
            ending.exception()  # there's nothing more to close


def _api_error(answer: Mapping[str, Any]) -> str:
    return str(answer["error"].get("description", "no reason given"))


def _is_news(record: logging.LogRecord) -> bool:
    """False for what asyncio says of each TLS connection of nats-py that ends."""
    return not str(record.msg).startswith("returning true from eof_received")
