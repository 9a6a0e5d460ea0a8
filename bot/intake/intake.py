"""The intake: an envelope is a row before it is acknowledged, acknowledged before anything is done, done from its row.

So a crash after the acknowledgement loses nothing, and a second delivery does nothing. Only what must be answered *in*
the acknowledgement (the submission of a modal, the options of a menu) is dealt with first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import ClientError

from bot.intake.connection import Connection, Envelope
from bot.intake.keys import key_of
from supervisor_core.domain import crashpoints
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.ledger import envelopes
from supervisor_core.ledger.envelopes import Received
from supervisor_core.ledger.store import Ledger

ANSWER_SECONDS = 2.5
"""For what is answered in its acknowledgement; Slack gives up after three."""

AT_ONCE = 100
"""So many are dealt with at the same time; more wait in their rows, acknowledged."""

log = logging.getLogger(__name__)

Deal = Callable[[Received], Awaitable[None]]
Answer = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any] | None]]


class Intake:
    """`deal` does what an envelope asks for, and may be called again after a crash; `answer` answers at once."""

    def __init__(self, ledger: Ledger, deal: Deal, answer: Answer) -> None:
        self._ledger = ledger
        self._deal = deal
        self._answer = answer
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def resume(self) -> int:
        """Go on with what an earlier run acknowledged and did not deal with; how many those were."""
        left = await asyncio.wrap_future(self._ledger.submit(envelopes.unhandled))
        for received in left:
            self._start(received)
        return len(left)

    async def receive(self, connection: Connection, envelope: Envelope) -> None:
        """Take one envelope from a connection."""
        kind, envelope_id = str(envelope.get("type")), str(envelope["envelope_id"])
        payload = envelope.get("payload")
        if not isinstance(payload, dict):
            payload = {}
        if _wants_its_answer_in_the_ack(kind, payload):
            await self._acknowledge(connection, envelope_id, await self._answered(kind, payload))
            return
        try:
            received = await self._keep(kind, payload, envelope_id)
        except SupervisorError:
            log.exception("an envelope could not be kept, so it is not acknowledged: whoever sent it is told by Slack")
            return
        crashpoints.reach("envelope.row:after")
        await self._acknowledge(connection, envelope_id, None)
        crashpoints.reach("envelope.ack:after")
        if received is not None:
            self._start(received)

    async def settle(self) -> None:
        """Wait until everything that was started is done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Let go of what is under way; its rows are dealt with by the next run."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, kind: str, payload: Mapping[str, Any], envelope_id: str) -> Received | None:
        key, now = key_of(kind, payload, envelope_id), datetime.now(UTC)
        received: Received | None = await asyncio.wrap_future(
            self._ledger.submit(lambda connection: envelopes.keep(connection, key, kind, payload, now))
        )
        if received is None:
            log.info("%s came again and is not dealt with twice", key)
        return received

    async def _answered(self, kind: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(kind, payload)
        except Exception:  # the edge: an acknowledgement without an answer is better than none
            log.exception("what wanted its answer at once got none")
            return None

    async def _acknowledge(self, connection: Connection, envelope_id: str, payload: dict[str, Any] | None) -> None:
        try:
            await connection.acknowledge(envelope_id, payload)
        except (ClientError, OSError):
            log.warning("the connection ended before %s was acknowledged; it is kept all the same", envelope_id)

    def _start(self, received: Received) -> None:
        task = asyncio.create_task(self._deal_with(received), name=received.key)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deal_with(self, received: Received) -> None:
        async with self._room:
            try:
                await self._deal(received)
                step = envelopes.handled(received, datetime.now(UTC))
            except Exception as error:  # the edge of an envelope: it fails alone, and is kept with its reason
                log.exception("%s could not be dealt with", received.key)
                step = envelopes.failed(received, f"{type(error).__name__}: {error}", datetime.now(UTC))
            await asyncio.get_running_loop().run_in_executor(None, self._ledger.step, step)


def _wants_its_answer_in_the_ack(kind: str, payload: Mapping[str, Any]) -> bool:
    return kind == "interactive" and payload.get("type") in ("view_submission", "block_suggestion")
