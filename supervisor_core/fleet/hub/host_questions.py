"""Questions of the hub to its hosts, each with a deadline."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Coroutine, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import UTC, datetime
from typing import Any, TypeVar

from supervisor_core.common.errors import TemporaryError
from supervisor_core.common.text import one_line
from supervisor_core.common.times import to_text
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.questions import HostAway, HostError, Question
from supervisor_core.fleet.signing import QUESTION, signed
from supervisor_core.fleet.transport import subjects
from supervisor_core.fleet.transport.connection import FleetConnection

ANSWER_SECONDS = 5.0
"""The longest wait for an answer; a preview may take as long as the host gives it."""

LONGEST_ERROR = 2_000
"""Characters of a host's refusal."""

T = TypeVar("T")


class Asker:
    """Asks one host at a time; a host that is away is a `HostAway`, a refusal a `HostError`."""

    def __init__(self, connection: FleetConnection, key: KeyPair) -> None:
        self._connection = connection
        self._key = key
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Ask from now on in the running event loop, from any thread."""
        self._loop = asyncio.get_running_loop()

    async def __call__(
        self, host: str, question: Question, about: Mapping[str, Any], seconds: float = ANSWER_SECONDS
    ) -> Any:  # noqa: ANN401 (JSON of any shape)
        return (await self.fetch(host, question, about, seconds))[0]

    async def fetch(
        self, host: str, question: Question, about: Mapping[str, Any], seconds: float = ANSWER_SECONDS
    ) -> tuple[Any, int]:
        """The answer to a question, and its size in bytes."""
        body = {"question": str(question), "about": dict(about), "asked_at": to_text(datetime.now(UTC))}
        body["id"] = uuid.uuid4().hex
        data = signed(QUESTION, host, body, self._key)
        try:
            received = await self._connection.request(subjects.ask_subject(host), data, seconds)
        except TemporaryError as error:
            raise HostAway(f"{host} doesn't answer.", remedy="Try again when it's connected.") from error
        try:
            answer = json.loads(received)
            if "error" not in answer:
                return answer["answer"], len(received)
            kind = HostAway if answer.get("retryable") else HostError
            reason = one_line(str(answer["error"]), LONGEST_ERROR)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise HostError(f"{host}: its answer isn't one of this program's.") from None
        raise kind(f"{host}: {reason}")

    def wait(self, asking: Coroutine[Any, Any, T], seconds: float) -> T:
        """Wait in a thread for what only the event loop can do."""
        if self._loop is None:
            asking.close()
            raise HostAway("The hub isn't connected to its hosts yet.", remedy="Try again.")
        future = asyncio.run_coroutine_threadsafe(asking, self._loop)
        try:
            return future.result(seconds)
        except FutureTimeout:
            future.cancel()
            raise HostAway("A host didn't answer in time.", remedy="Try again.") from None
