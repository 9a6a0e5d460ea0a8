"""Stores each envelope once, by its key, before it is acknowledged and handled.

A crash after the acknowledgement loses nothing, and a second delivery does nothing. Envelopes that arrive during a
write share the next one: 15 ms for a burst of 200, where a write for each takes 80 (`tests/benchmarks/bench_ack.py`).
Only the options of a menu and a rejected modal are answered in the acknowledgement itself; they leave no row.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aiohttp import ClientError

from bot.inbound.connection import Connection, Envelope
from bot.inbound.dispatcher import EnvelopeDispatcher, Refusals
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.storage import envelopes
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.store import Ledger

MOST_TOGETHER = 200
"""Envelopes in one write, which takes about 3 ms."""

PendingWrite = tuple[StoredEnvelope, asyncio.Future[bool]]


class EnvelopeWriter:
    """`keep` returns once the envelope is on disk."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[PendingWrite] = []
        self._writing: asyncio.Task[None] | None = None

    async def keep(self, received: StoredEnvelope) -> bool:
        """Store an envelope: True if it's the first with its key. Raise the error if it can't be stored."""
        first: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((received, first))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="keeping envelopes")
        return await first

    async def quiet(self, seconds: float) -> None:
        """Return when nothing waits to be written, or after so many seconds."""
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing], timeout=seconds)

    async def _write_all(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            await self._write(together)

    async def _write(self, together: Sequence[PendingWrite]) -> None:
        arrived = tuple(received for received, _ in together)
        try:
            written = self._ledger.submit(lambda connection: envelopes.store_envelopes(connection, arrived))
            firsts = await asyncio.wrap_future(written)
        except Exception as error:  # noqa: BLE001 (whoever waits is told)
            if len(together) > 1 and not isinstance(error, SupervisorError):
                for each in together:  # one that can't be stored doesn't fail the others
                    await self._write([each])
                return
            for _, first in together:
                if not first.done():
                    first.set_exception(error)
        else:
            for (_, first), answer in zip(together, firsts, strict=True):
                if not first.done():
                    first.set_result(answer)


KEY_LENGTH = 255


def key_of(kind: str, payload: Mapping[str, Any], envelope_id: str) -> str:
    """The key of an envelope; its own id if Slack gives nothing better."""
    parts = _key_parts(kind, payload) or ("envelope", envelope_id)
    key = ":".join(str(part) for part in parts)
    if len(key) <= KEY_LENGTH and key.isprintable():
        return key
    return f"{parts[0]}:{hashlib.sha256(key.encode('utf-8', 'backslashreplace')).hexdigest()}"


def _key_parts(kind: str, payload: Mapping[str, Any]) -> tuple[object, ...] | None:
    if kind == "events_api" and payload.get("event_id"):
        return _message_key(_mapping(payload, "event")) or ("event", payload["event_id"])
    if kind == "slash_commands" and payload.get("trigger_id"):
        return ("command", payload["trigger_id"])
    if kind == "interactive":
        return _interactive_key(payload)
    return None


def _message_key(event: Mapping[str, Any]) -> tuple[object, ...] | None:
    """The key of a message to the bot, by its place: Slack may deliver it as a mention and as a message."""
    direct = event.get("type") == "message" and event.get("channel_type") == "im" and not event.get("subtype")
    if (direct or event.get("type") == "app_mention") and event.get("channel") and event.get("ts"):
        return ("said", event["channel"], event["ts"])
    return None


def _interactive_key(payload: Mapping[str, Any]) -> tuple[object, ...] | None:
    """The key of a click by its time, of a submission by its view and its values, of a shortcut by its trigger.

    A view whose acknowledgement was lost stays open. Its hash isn't part of the key: a preview may change it before the
    person submits the same values again.
    """
    user = _mapping(payload, "user").get("id")
    view = _mapping(payload, "view")
    actions = payload.get("actions")
    if payload.get("type") == "block_actions" and isinstance(actions, list) and actions:
        place = _mapping(payload, "container").get("message_ts") or view.get("id")
        clicks = [(action.get("action_id"), action.get("action_ts")) for action in actions if isinstance(action, dict)]
        return ("click", place, user, json.dumps(clicks))
    if payload.get("type") in ("view_submission", "view_closed") and view.get("id"):
        values = json.dumps(_mapping(view, "state").get("values"), sort_keys=True)
        return (payload["type"], view["id"], hashlib.sha256(values.encode()).hexdigest()[:16], user)
    if payload.get("trigger_id"):
        return ("trigger", payload["trigger_id"])
    return None


def _mapping(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = payload.get(name)
    return value if isinstance(value, Mapping) else {}


ANSWER_SECONDS = 2.5
"""Time for an answer in the acknowledgement; Slack gives up after 3 s."""

log = logging.getLogger(__name__)

AckAnswer = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any] | None]]
"""Answers a modal or a menu in its acknowledgement; None accepts a modal as it is."""


class Intake:
    """Stores the envelopes of connections, and then hands them to the dispatcher. `answer` gives the answers within an
    acknowledgement; `refusals` refuses what can't be stored."""

    def __init__(
        self, writer: EnvelopeWriter, dispatcher: EnvelopeDispatcher, refusals: Refusals, answer: AckAnswer
    ) -> None:
        self._writer = writer
        self._refusals = refusals
        self._dispatcher = dispatcher
        self._answer = answer

    async def receive(self, connection: Connection, envelope: Envelope) -> None:
        kind, envelope_id = str(envelope.get("type")), str(envelope["envelope_id"])
        payload = envelope.get("payload")
        if not isinstance(payload, dict):
            payload = {}
        if _is_answered_in_ack(kind, payload):
            answer = await self._answer_safely(kind, payload)
            if answer is not None or payload.get("type") != "view_submission":
                await self._acknowledge(connection, envelope_id, answer)
                return
        crashpoints.reach("envelope.row:before")
        try:
            received = await self._keep(kind, payload, envelope_id)
        except SupervisorError as error:
            log.error("a request couldn't be stored and is refused: %s", error)  # noqa: TRY400 (its words say it)
            told, answer = await self._refusals.refuse(kind, payload, error)
            if told:  # else Slack delivers it again, or reports that there was no answer
                await self._acknowledge(connection, envelope_id, answer)
            return
        crashpoints.reach("envelope.row:after")
        await self._acknowledge(connection, envelope_id, None)
        crashpoints.reach("envelope.ack:after")
        if received is not None:
            self._dispatcher.start(received)

    async def _keep(self, kind: str, payload: Mapping[str, Any], envelope_id: str) -> StoredEnvelope | None:
        received = StoredEnvelope(key_of(kind, payload, envelope_id), kind, payload, datetime.now(UTC))
        if await self._writer.keep(received):
            return received
        log.info("%s came again and isn't handled twice", received.key)
        return None

    async def _answer_safely(self, kind: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(kind, payload)
        except Exception:  # an acknowledgement without an answer is better than none
            log.exception("a request that needs its answer at once got none")
            return None

    async def _acknowledge(self, connection: Connection, envelope_id: str, payload: dict[str, Any] | None) -> None:
        try:
            await connection.acknowledge(envelope_id, payload)
        except (ClientError, OSError):
            log.warning("the connection ended before %s was acknowledged, but it's stored", envelope_id)


def _is_answered_in_ack(kind: str, payload: Mapping[str, Any]) -> bool:
    return kind == "interactive" and payload.get("type") in ("view_submission", "block_suggestion")
