"""The intake: an envelope is a row before it is acknowledged, acknowledged before anything is done, done from its row.

So a crash after the acknowledgement loses nothing, and a second delivery does nothing. Only what must be answered *in*
the acknowledgement is looked at first: the options of a menu, and a modal that is refused; neither leaves a row. A
modal that is taken is a row, as everything else is, before the acknowledgement closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import ClientError

from bot.intake.connection import Connection, Envelope
from bot.intake.dealing import Dealing
from bot.intake.keeping import Keeping
from bot.intake.keys import key_of
from bot.intake.refusing import Refusing
from supervisor_core.domain import crashpoints
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.ledger.envelopes import Received

ANSWER_SECONDS = 2.5
"""For what is answered in its acknowledgement; Slack gives up after three."""

log = logging.getLogger(__name__)

Answer = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any] | None]]
"""What is said in the acknowledgement of a modal or a menu; None: nothing, and a modal is taken as it is."""


class Intake:
    """Takes envelopes from connections. `dealing` gets them once they are safe; `answer` answers at once; `refusing`
    says no to what can't be made safe."""

    def __init__(self, keeping: Keeping, dealing: Dealing, refusing: Refusing, answer: Answer) -> None:
        self._keeping = keeping
        self._refusing = refusing
        self._dealing = dealing
        self._answer = answer

    async def receive(self, connection: Connection, envelope: Envelope) -> None:
        """Take one envelope from a connection."""
        kind, envelope_id = str(envelope.get("type")), str(envelope["envelope_id"])
        payload = envelope.get("payload")
        if not isinstance(payload, dict):
            payload = {}
        if _wants_its_answer_in_the_ack(kind, payload):
            answer = await self._answered(kind, payload)
            if answer is not None or payload.get("type") != "view_submission":
                await self._acknowledge(connection, envelope_id, answer)
                return
        crashpoints.reach("envelope.row:before")
        try:
            received = await self._keep(kind, payload, envelope_id)
        except SupervisorError as error:
            log.error("a request could not be kept, so it is refused: %s", error)  # noqa: TRY400 (its words say it)
            told, answer = await self._refusing.refuse(kind, payload, error)
            if told:  # else Slack brings it again, or says itself that there was no answer
                await self._acknowledge(connection, envelope_id, answer)
            return
        crashpoints.reach("envelope.row:after")
        await self._acknowledge(connection, envelope_id, None)
        crashpoints.reach("envelope.ack:after")
        if received is not None:
            self._dealing.start(received)

    async def _keep(self, kind: str, payload: Mapping[str, Any], envelope_id: str) -> Received | None:
        received = Received(key_of(kind, payload, envelope_id), kind, payload, datetime.now(UTC))
        if await self._keeping.keep(received):
            return received
        log.info("%s came again and is not dealt with twice", received.key)
        return None

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


def _wants_its_answer_in_the_ack(kind: str, payload: Mapping[str, Any]) -> bool:
    return kind == "interactive" and payload.get("type") in ("view_submission", "block_suggestion")
