"""Handles acknowledged envelopes from their rows, in each person's order, until each is handled or has failed.

While the ledger can't be written, requests are refused at once and nothing is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError

from bot.inbound.identity import Identity
from bot.outbound.slack_api import SlackApi
from bot.outbound.slack_errors import failure_text
from bot.pools import quick
from bot.views.blocks import Content, text_message
from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, TemporaryError, describe
from supervisor_core.storage import envelopes
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger

AT_ONCE = 100
"""Envelopes handled at the same time. More wait in their rows, acknowledged."""

GIVE_WAY_SECONDS = 0.05
"""The time that handling waits for due acknowledgements. In a flood it continues slowly."""

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.5, 15.0
"""Delays between tries to store the result of an envelope."""

log = logging.getLogger(__name__)

SendNow = Callable[[tuple[Message, ...]], Awaitable[bool]]
"""Orders messages at once, before the rest is done; False if the ledger doesn't take them."""


@dataclass(frozen=True, slots=True)
class Response:
    """The result of an envelope: rows, all written in the step that ends it."""

    audit: AuditEntry | None = None
    messages: tuple[Message, ...] = ()
    error: str | None = None
    """The reason for its failure, if it failed."""
    rest: Callable[[SendNow], Awaitable[Response]] | None = None
    """The slow part, which returns the final response. The sender's next requests don't wait for it. Until it ends,
    the envelope stays unhandled, so after a crash it is handled again from the beginning."""


Handle = Callable[[StoredEnvelope], Awaitable[Response]]
"""Handles an envelope. It may run again after a crash, and must then have the same result."""


class EnvelopeDispatcher:
    """Handles stored envelopes. `quiet` waits until no other is being stored."""

    def __init__(self, ledger: Ledger, handle: Handle, quiet: Callable[[float], Awaitable[None]]) -> None:
        self._ledger = ledger
        self._handle = handle
        self._quiet = quiet
        self._waiting: deque[StoredEnvelope] = deque()
        self._starting: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(AT_ONCE)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, received: StoredEnvelope) -> None:
        self._waiting.append(received)
        if self._starting is None or self._starting.done():
            self._starting = self._run(self._start_all(), "starting handlers")

    async def resume(self) -> int:
        """Handle the envelopes that an earlier run left; return how many."""
        left = await asyncio.wrap_future(self._ledger.submit(envelopes.pending_envelopes))
        for received in left:
            self.start(received)
        return len(left)

    async def settle(self) -> None:
        """Wait until everything that was started is done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Cancel the current work; the next run handles its rows."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _start_all(self) -> None:
        """Start one envelope after the other, but none while others wait for their acknowledgement within 3 s."""
        while self._waiting:
            await self._quiet(GIVE_WAY_SECONDS)
            received = self._waiting.popleft()
            self._run(self._in_turn(received), received.key)
            await asyncio.sleep(0)  # new envelopes are received first

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _in_turn(self, received: StoredEnvelope) -> None:
        """Handle one person's requests in their order: pause, then resume, never becomes resume, then pause. The slow
        part of one doesn't delay the others."""
        turn = self._turns.setdefault(sender_of(received), asyncio.Lock())
        async with turn:
            async with self._room:
                response = await self._handle_safely(received, self._handle(received))
            if response.rest is None:
                await self._end(received, response)
                return
        await self._end(received, await self._handle_safely(received, response.rest(self._order_now)))

    async def _order_now(self, messages: tuple[Message, ...]) -> bool:
        """Order messages before the rest is done. If that fails, log it."""
        try:
            await quick(self._ledger.order, messages)
        except TemporaryError as error:
            log.warning("%s", error)
            return False
        return True

    async def _handle_safely(self, received: StoredEnvelope, handling: Awaitable[Response]) -> Response:
        """Handle one envelope. An error fails this envelope alone, with its reason."""
        try:
            return await handling
        except Exception as error:
            log.exception("%s could not be handled", received.key)
            return Response(error=failure_text(error))

    async def _end(self, received: StoredEnvelope, response: Response) -> None:
        """Store the result, retrying while the disk is full, so that nothing is handled twice."""
        now, delay = datetime.now(UTC), FIRST_DELAY_SECONDS
        if response.error is None:
            step = envelopes.mark_handled(received, now, response.audit, response.messages)
        else:
            step = envelopes.mark_failed(received, response.error, now, response.messages)
        while True:
            try:
                await quick(self._ledger.step, step)
            except Exception as error:  # noqa: BLE001 (without its result, it would be handled again after a restart)
                log.warning("the result of %s can't be stored now: %s", received.key, describe(error))
                await asyncio.sleep(delay)
                delay = min(delay * 2, LONGEST_DELAY_SECONDS)
            else:
                return


def sender_of(received: StoredEnvelope) -> str:
    payload = received.payload
    user, event = payload.get("user"), payload.get("event")
    if isinstance(user, dict):
        return str(user.get("id"))
    if isinstance(event, dict):
        return str(event.get("user"))
    return str(payload.get("user_id"))


class Refusals:
    """Tells people that their request wasn't accepted."""

    def __init__(self, slack: SlackApi, identity: Identity) -> None:
        self._slack = slack
        self._identity = identity

    async def refuse(
        self, kind: str, payload: Mapping[str, Any], error: SupervisorError
    ) -> tuple[bool, dict[str, Any] | None]:
        """Refuse a request: True if the person knows, so that Slack needn't deliver it again; the acknowledgement."""
        why = error.short if isinstance(error, LedgerUnavailable) else error.message
        content = text_message(
            f":warning: *Not accepted:* {why}. Nothing changed. Run `supervisor doctor` on the host, then try again."
        )
        if kind == "slash_commands":
            return True, {"response_type": "ephemeral", **content}
        try:
            return await self._tell(payload, content), None
        except (ClientError, OSError, TimeoutError, SlackApiError) as problem:
            log.warning("a request that can't be stored couldn't be refused either: %s", failure_text(problem))
            return False, None

    async def _tell(self, payload: Mapping[str, Any], content: Content) -> bool:
        """Tell the person who pressed a button or wrote to the bot. Slack delivers other envelopes again."""
        if payload.get("type") == "block_actions" and payload.get("response_url"):
            return await self._slack.answer(str(payload["response_url"]), content, replace=False)
        event = payload.get("event")
        if isinstance(event, dict) and _is_for_us(event) and self._identity.is_meant(event):
            await self._slack.whisper(str(event["channel"]), str(event["user"]), event.get("thread_ts"), content)
            return True
        return False


def _is_for_us(event: Mapping[str, Any]) -> bool:
    """True for a person's mention or direct message."""
    direct = event.get("type") == "message" and event.get("channel_type") == "im" and not event.get("subtype")
    return bool((event.get("type") == "app_mention" or direct) and event.get("user") and not event.get("bot_id"))
