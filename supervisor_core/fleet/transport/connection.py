"""Messages of the fleet, pulls of stored ones, and the errors of a connection in our words."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import re
import ssl
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from supervisor_core.common.errors import RefusedError, SupervisorError, TemporaryError
from supervisor_core.fleet.keys import KeyPair

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

ANSWER_SECONDS = 5.0
NO_RESPONDERS = "503"
"""The status of a request to a subject that nobody serves."""


class FleetUnavailable(TemporaryError):
    """The fleet's server can't be reached."""


class NoAnswer(TemporaryError):
    """Nobody answered."""


class NotPermitted(RefusedError):
    """The server doesn't permit it."""


class FleetMessage:
    def __init__(self, message: Msg) -> None:
        self._message = message
        self.subject, self.data = message.subject, message.data

    @property
    def sequence(self) -> int:
        return self._message.metadata.sequence.stream

    async def respond(self, data: bytes) -> None:
        if self._message.reply:
            await self._message.respond(data)

    async def acknowledge(self) -> None:
        """Tell the server that a stored message is done, and wait until it knows."""
        with translated_errors():
            await self._message.ack_sync(ANSWER_SECONDS)

    async def redeliver(self, delay_seconds: float = 0) -> None:
        with translated_errors():
            await self._message.nak(delay_seconds)


class Pull:
    def __init__(self, client: Client, inbox: str, stream: str, consumer: str) -> None:
        self._client = client
        # A name of its own: the server drops the requests of earlier connections, to whose names nobody listens now.
        self._inbox = f"{inbox}.pull-{uuid.uuid4().hex}"
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._subscription: Any = None
        self._count = 0

    async def next(self, seconds: float) -> Sequence[FleetMessage]:
        """The next message; empty if none comes within the time limit.

        Each request is for one: the server lets one answer through to a host's account.
        """
        if self._subscription is None:
            self._subscription = await self._client.subscribe(f"{self._inbox}.*")
        self._count += 1
        place = f"{self._inbox}.{self._count}"
        content = {"batch": 1, "expires": int(seconds * 10**9)}
        await self._client.publish(self._subject, json.dumps(content).encode(), reply=place)
        try:
            while True:
                message = await self._subscription.next_msg(seconds + ANSWER_SECONDS)
                if message.subject == place:  # a note that this request gets no more
                    if (message.headers or {}).get("Status") == NO_RESPONDERS:
                        raise NoAnswer(f"There's no answer from {self._subject}: the server has no such queue now.")
                    return []
                if not message.subject.startswith(f"{self._inbox}."):  # else a note for an earlier request
                    return [FleetMessage(message)]
        except TimeoutError:
            raise NoAnswer(f"There's no answer from {self._subject} within the time limit.") from None


@contextmanager
def translated_errors(subject: str = "") -> Iterator[None]:
    """Errors of nats-py become ours."""
    from nats import errors

    where = f" from {subject}" if subject else ""
    try:
        yield
    except errors.NoRespondersError:
        raise NoAnswer(f"There's no answer{where}: nobody is connected who could give one.") from None
    except (errors.TimeoutError, TimeoutError):
        raise NoAnswer(f"There's no answer{where} within the time limit.") from None
    except errors.MaxPayloadError:
        raise SupervisorError("The message is larger than the server accepts.") from None
    except (errors.Error, OSError) as error:
        raise FleetUnavailable(in_words(error)) from None


def in_words(error: BaseException) -> str:
    if isinstance(error, SupervisorError):
        return str(error)
    words = str(error).removeprefix("nats: ").strip("'\" ")
    known = words.casefold()
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The server's certificate isn't valid for this URL: {error.verify_message}."
    if "authorization violation" in known or type(error).__name__ == "AuthorizationError":
        return "The server refused this key. Either it was revoked, or the server has another list of keys."
    if "timeout" in type(error).__name__.casefold():
        return "The server doesn't answer. It may expect TLS (tls://), or not offer it first (handshake_first)."
    if isinstance(error, OSError):
        return f"The connection failed: {error.strerror or words or type(error).__name__}."
    return f"The server said: {words or type(error).__name__}."


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
        self.since = self.heard_at = datetime.now(UTC)
        """Since when it has been up or down, and when the server certainly heard us: since then the line may have
        failed without a word."""
        self._problem = "It hasn't connected yet."
        self._handlers: dict[str, Handler] = {}
        self._pulls: dict[tuple[str, str], Pull] = {}
        self._refusals: dict[str, set[asyncio.Future[None]]] = {}
        """Requests under way by their subjects, as the server writes them in a refusal."""

    @property
    def connected(self) -> bool:
        return self._client is not None

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
        with translated_errors():
            await client.publish(subject, data)

    async def publish_durably(
        self, subject: str, data: bytes, message_id: str, seconds: float = ANSWER_SECONDS
    ) -> Mapping[str, Any]:
        """Store a message in its stream. When this returns, it's on the server's disk.

        A message with the id of a recent one isn't stored again; then `duplicate` is true in the answer.
        """
        answer = json.loads(await self.request(subject, data, seconds, headers={MESSAGE_ID: message_id}))
        if "error" in answer:
            reason = answer["error"].get("description", "no reason given")
            raise FleetUnavailable(f"The server didn't store a message to {subject}: {reason}.")
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
            with translated_errors(subject):
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
        with translated_errors():
            pulling = self._pulls.get((stream, consumer))
            if pulling is None:
                pulling = self._pulls[stream, consumer] = Pull(client, self._inbox, stream, consumer)
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
        self._down.clear()
        client = await self._connect()
        try:
            for subject in self._handlers:
                await self._subscribe(client, subject)
            await client.flush()
            self._client, self.since, self._problem = client, datetime.now(UTC), "The connection has ended."
            self.heard_at = self.since
            self._up.set()
            self.came_up()
            await self._stay(client)
        finally:
            if self._client is client:
                self._client, self.since = None, datetime.now(UTC)
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
                self.heard_at = datetime.now(UTC)
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

        secure = any(url.partition("://")[0] in SECURE for url in self._urls)
        tls = None
        if secure:
            logging.getLogger("asyncio").addFilter(_is_news)
            try:
                tls = ssl.create_default_context(cafile=self._ca)
            except OSError as error:
                raise SupervisorError(f"The certificate file {self._ca} can't be used: {error.strerror}.") from None
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
                tls=tls,
                tls_handshake_first=secure,
                nkeys_seed_str=self._keys.seed,
                inbox_prefix=self._inbox,
            )
        except Exception as error:  # noqa: BLE001 (nats-py raises many kinds)
            cause = errors[-1] if errors else error
            await _end(client, FAILED_CLOSE_SECONDS)
            raise FleetUnavailable(in_words(cause)) from None
        return client

    async def _subscribe(self, client: Client, subject: str) -> None:
        async def handle(message: Msg) -> None:
            try:
                await self._handlers[subject](FleetMessage(message))
            except Exception:
                log.exception("a message to %s can't be handled", message.subject)

        with translated_errors():
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


def _is_news(record: logging.LogRecord) -> bool:
    """False for what asyncio says of each TLS connection of nats-py that ends."""
    return not str(record.msg).startswith("returning true from eof_received")
