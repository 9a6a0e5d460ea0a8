"""Dealing with what was acknowledged: from its row, in each person's order, until it is done or can't be done."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.errors import TemporaryError
from supervisor_core.ledger import envelopes
from supervisor_core.ledger.envelopes import Received
from supervisor_core.ledger.steps import Message
from supervisor_core.ledger.store import Ledger

AT_ONCE = 100
"""So many are dealt with at the same time; more wait in their rows, acknowledged."""

MOMENT_SECONDS = 2.0
"""What takes longer is said to whoever waits for it."""

GIVE_WAY_SECONDS = 0.05
"""So long dealing waits for acknowledgements that are due; under a flood that never ends it goes on slowly."""

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.5, 15.0
"""Between two tries at what Slack's absence keeps from being dealt with."""

log = logging.getLogger(__name__)


class NotNowError(Exception):
    """It can't be dealt with now, through no fault of its own; later it can, after `seconds` at the earliest."""

    def __init__(self, words: str, seconds: float = 0.0) -> None:
        super().__init__(words)
        self.seconds = seconds
        self.messages: tuple[Message, ...] = ()
        """What whoever waits is told, once, when it takes longer than a moment."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """What came of an envelope: rows, all of them written in the step that ends it."""

    audit: AuditEntry | None = None
    messages: tuple[Message, ...] = ()
    error: str | None = None
    """Why it could not be dealt with, where that is so."""


Deal = Callable[[Received], Awaitable[Dealt]]
"""Does what an envelope asks for. It may be called again after a crash, and must then come to the same."""


class Dealing:
    """Takes envelopes that are rows and brings each to its end. `quiet` waits until no other is being kept."""

    def __init__(self, ledger: Ledger, deal: Deal, quiet: Callable[[float], Awaitable[None]]) -> None:
        self._ledger = ledger
        self._deal = deal
        self._quiet = quiet
        self._waiting: deque[Received] = deque()
        self._starting: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(AT_ONCE)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, received: Received) -> None:
        """Deal with it, and come back at once."""
        self._waiting.append(received)
        if self._starting is None or self._starting.done():
            self._starting = self._run(self._start_all(), "starting to deal")

    async def resume(self) -> int:
        """Go on with what an earlier run acknowledged and did not deal with; how many those were."""
        left = await asyncio.wrap_future(self._ledger.submit(envelopes.unhandled))
        for received in left:
            self.start(received)
        return len(left)

    async def settle(self) -> None:
        """Wait until everything that was started is done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Let go of what is under way; its rows are dealt with by the next run."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _start_all(self) -> None:
        """One after the other, and none while others wait for their acknowledgement: those have three seconds."""
        while self._waiting:
            await self._quiet(GIVE_WAY_SECONDS)
            received = self._waiting.popleft()
            self._run(self._in_turn(received), received.key)
            await asyncio.sleep(0)  # what has come in the meantime is heard first

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _in_turn(self, received: Received) -> None:
        """One person's requests are dealt with one after the other: pause, then resume, is never resume, then pause."""
        turn = self._turns.setdefault(sender_of(received), asyncio.Lock())
        async with turn:
            delay, waited, told = FIRST_DELAY_SECONDS, 0.0, False
            while True:
                try:
                    async with self._room:
                        dealt = await self._dealt(received)
                    await self._end(received, dealt)
                except (NotNowError, TemporaryError) as error:  # the second: on a full disk nothing can be ended
                    wait = max(delay, error.seconds) if isinstance(error, NotNowError) else delay
                    waited += wait
                    if isinstance(error, NotNowError) and waited > MOMENT_SECONDS and not told:
                        told = await self._tell(error.messages)
                    log.warning("%s waits %.1f s: %s", received.key, wait, error)
                    await asyncio.sleep(wait)
                    delay = min(delay * 2, LONGEST_DELAY_SECONDS)
                else:
                    return

    async def _tell(self, messages: tuple[Message, ...]) -> bool:
        """Whoever waits is told so; where even that can't be written, the log has it."""
        try:
            await asyncio.to_thread(self._ledger.order, messages)
        except TemporaryError as error:
            log.warning("%s", error)
            return False
        return True

    async def _dealt(self, received: Received) -> Dealt:
        """The edge of an envelope: it fails alone, and is kept with its reason."""
        try:
            return await self._deal(received)
        except NotNowError:
            raise
        except Exception as error:
            log.exception("%s could not be dealt with", received.key)
            return Dealt(error=f"{type(error).__name__}: {error}")

    async def _end(self, received: Received, dealt: Dealt) -> None:
        now = datetime.now(UTC)
        if dealt.error is None:
            step = envelopes.handled(received, now, dealt.audit, dealt.messages)
        else:
            step = envelopes.failed(received, dealt.error, now, dealt.messages)
        await asyncio.to_thread(self._ledger.step, step)


def sender_of(received: Received) -> str:
    """Who sent it, as far as its order matters."""
    payload = received.payload
    user, event = payload.get("user"), payload.get("event")
    if isinstance(user, dict):
        return str(user.get("id"))
    if isinstance(event, dict):
        return str(event.get("user"))
    return str(payload.get("user_id"))
