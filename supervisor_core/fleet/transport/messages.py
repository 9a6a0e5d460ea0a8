"""Messages of the fleet, pulls of stored ones, and the errors of a connection in our words."""

from __future__ import annotations

import json
import ssl
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from supervisor_core.common.errors import RefusedError, SupervisorError, TemporaryError

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


@dataclass(frozen=True, slots=True)
class FleetMessage:
    subject: str
    data: bytes
    deliveries: int = 1
    """The number of times that a stored message was delivered, this one included."""
    sequence: int = 0
    """The place of a stored message in its stream."""
    message: Msg | None = field(default=None, repr=False, compare=False)

    async def respond(self, data: bytes) -> None:
        if self.message is not None and self.message.reply:
            await self.message.respond(data)

    async def acknowledge(self, seconds: float = ANSWER_SECONDS) -> None:
        """Tell the server that a stored message is done, and wait until it knows."""
        if self.message is not None:
            with TranslatedErrors():
                await self.message.ack_sync(seconds)

    async def redeliver(self, delay_seconds: float = 0) -> None:
        if self.message is not None:
            with TranslatedErrors():
                await self.message.nak(delay_seconds)


class Pull:
    """Pulls from one consumer over one connection."""

    def __init__(self, client: Client, inbox: str, stream: str, consumer: str) -> None:
        self._client = client
        # A name of its own: the server drops the requests of earlier connections, to whose names nobody listens now.
        self._inbox = f"{inbox}.pull-{uuid.uuid4().hex}"
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._subscription: Any = None
        self._count = 0

    async def subscribe(self) -> None:
        """Subscribe to the place where the server delivers."""
        self._subscription = await self._client.subscribe(f"{self._inbox}.*")

    async def next(self, seconds: float) -> Sequence[FleetMessage]:
        """The next message; empty if none comes within the time limit.

        Each request is for one: the server lets one answer through to a host's account.
        """
        self._count += 1
        place = f"{self._inbox}.{self._count}"
        content = {"batch": 1, "expires": int(seconds * 10**9)}
        await self._client.publish(self._subject, json.dumps(content).encode(), reply=place)
        try:
            message = await self._message(place, seconds + ANSWER_SECONDS)
        except TimeoutError:
            raise NoAnswer(f"There's no answer from {self._subject} within the time limit.") from None
        return [] if message is None else [message]

    async def _message(self, place: str, seconds: float) -> FleetMessage | None:
        """The next message; None for the server's note that this request gets no more."""
        while True:
            message = await self._subscription.next_msg(seconds)
            if message.subject == place:
                if (message.headers or {}).get("Status") == NO_RESPONDERS:
                    raise NoAnswer(f"There's no answer from {self._subject}: the server has no such queue now.")
                return None
            if not message.subject.startswith(f"{self._inbox}."):  # else a note for an earlier request
                about = message.metadata
                deliveries, sequence = about.num_delivered or 1, about.sequence.stream
                return FleetMessage(message.subject, message.data, deliveries, sequence, message)


class TranslatedErrors:
    """A context in which errors of nats-py become ours."""

    def __init__(self, subject: str = "") -> None:
        self._subject = subject

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from nats import errors

        where = f" from {self._subject}" if self._subject else ""
        match error:
            case errors.NoRespondersError():
                raise NoAnswer(f"There's no answer{where}: nobody is connected who could give one.") from None
            case errors.TimeoutError() | TimeoutError():
                raise NoAnswer(f"There's no answer{where} within the time limit.") from None
            case errors.MaxPayloadError():
                raise SupervisorError("The message is larger than the server accepts.") from None
            case errors.Error() | OSError():
                raise FleetUnavailable(in_words(error)) from None


def in_words(error: BaseException) -> str:
    """An error of a connection, for people."""
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
