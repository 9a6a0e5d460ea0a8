"""Socket Mode: the open connections, and each envelope to one of them until it is acknowledged or given up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from dataclasses import dataclass
from itertools import count

from aiohttp import WSMessage, WSMsgType, web

from slack_playground.socket_mode.connection import Connection
from slack_playground.values import Json, PlaygroundError
from slack_playground.world.grants import Grants
from slack_playground.world.world import World

ACKED, TIMEOUT, NOBODY = "acked", "operation_timeout", "dispatch_failed"
REMEMBERED = 10_000  # envelopes whose late acks are still known


@dataclass(frozen=True)
class Outcome:
    outcome: str
    envelope_id: str
    ms: int = 0
    payload: Json | None = None

    def to_json(self) -> Json:
        return {"ok": True, "outcome": self.outcome, "envelope_id": self.envelope_id, "ms": self.ms}


class Sockets:
    def __init__(self, world: World, grants: Grants) -> None:
        self._world, self._grants = world, grants
        self._open: list[Connection] = []
        self._numbers, self._turns = count(1), count()
        self._waiting: dict[str, asyncio.Future[Json | None]] = {}
        self._sent: dict[str, float] = {}
        world.connections = lambda: len(self._open)

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one connection until it ends."""
        if not self._grants.redeem(request.query.get("ticket", "")):
            self._world.journal.write("connection", connection=0, event="refused", reason="ticket")
            raise web.HTTPForbidden(text="This ticket is invalid, expired or already used.")
        socket = web.WebSocketResponse(autoping=False, autoclose=False)
        await socket.prepare(request)
        connection = Connection(next(self._numbers), socket, request, self._world)
        if len(self._open) >= self._world.timings.connections:
            await connection.disconnect("too_many_websockets")
            await connection.close()
            return socket
        self._open.append(connection)
        self._note(connection, "open")
        try:
            await connection.hello(len(self._open))
            self._world.tell_app()
            await self._serve(connection)
        finally:
            self._open.remove(connection)
            self._note(connection, "close")
            self._world.tell_app()
        return socket

    async def _serve(self, connection: Connection) -> None:
        upkeep = asyncio.create_task(connection.keep_up())
        try:
            while True:
                message = await connection.receive()
                if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                    await connection.close()
                    return
                await self._received(connection, message)
        except ConnectionError:
            return
        finally:
            upkeep.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await upkeep

    async def _received(self, connection: Connection, message: WSMessage) -> None:
        if message.type is WSMsgType.PING:
            await connection.pong(message.data)
        elif message.type is WSMsgType.PONG:
            connection.last_pong = time.monotonic()
        elif message.type is WSMsgType.TEXT:
            self._acknowledged(connection, message.data)

    def _acknowledged(self, connection: Connection, text: str) -> None:
        try:
            ack = json.loads(text)
        except json.JSONDecodeError:
            ack = None
        if not isinstance(ack, dict) or not isinstance(ack.get("envelope_id"), str):
            self._note(connection, "garbage", reason=text[:200])
            return
        envelope_id, payload = ack["envelope_id"], ack.get("payload")
        if self._world.faults.strike("socket", "lose_ack"):
            self._note(connection, "ack_lost", reason="fault")
            return
        sent = self._sent.get(envelope_id)
        ms = round((time.monotonic() - sent) * 1000) if sent else 0
        waiting = self._waiting.pop(envelope_id, None)
        self._world.journal.write(
            "ack", envelope_id=envelope_id, connection=connection.number, ms=ms, payload=payload, late=waiting is None
        )
        if waiting and not waiting.done():
            waiting.set_result(payload if isinstance(payload, dict) else None)

    async def deliver(self, kind: str, payload: Json, *, answers: bool, retry: int = 0) -> Outcome:
        """Send one envelope to one connection, and wait for its ack."""
        envelope_id = str(uuid.uuid4())
        envelope = {"envelope_id": envelope_id, "type": kind, "payload": payload, "accepts_response_payload": answers}
        if kind == "events_api":
            envelope |= {"retry_attempt": retry, "retry_reason": "timeout" if retry else ""}
        if not self._open:
            self._world.journal.write("no_ack", envelope_id=envelope_id, type=kind, reason="no_connection")
            return Outcome(NOBODY, envelope_id)
        waiting: asyncio.Future[Json | None] = asyncio.get_running_loop().create_future()
        self._waiting[envelope_id] = waiting
        started = self._sent[envelope_id] = time.monotonic()
        if len(self._sent) > REMEMBERED:
            self._sent.pop(next(iter(self._sent)))
        await self._send(envelope)
        try:
            answer = await asyncio.wait_for(waiting, self._world.timings.ack)
        except TimeoutError:
            self._waiting.pop(envelope_id, None)
            self._world.journal.write("no_ack", envelope_id=envelope_id, type=kind, reason="timeout")
            return Outcome(TIMEOUT, envelope_id, round((time.monotonic() - started) * 1000))
        return Outcome(ACKED, envelope_id, round((time.monotonic() - started) * 1000), answer)

    async def _send(self, envelope: Json) -> None:
        faults = self._world.faults
        if faults.strike("socket", "lose"):
            return
        for _copy in range(2 if faults.strike("socket", "duplicate") else 1):
            connection = self._open[next(self._turns) % len(self._open)]
            words = {key: value for key, value in envelope.items() if key != "accepts_response_payload"}
            self._world.journal.write("envelope", connection=connection.number, **words)
            await connection.send(envelope)

    async def control(self, do: str, number: int | None = None) -> int:
        """Do something to one connection, or to all; says to how many."""
        chosen = [c for c in self._open if number in (None, c.number)]
        for connection in chosen:
            match do:
                case "warning":
                    await connection.disconnect("warning")
                case "refresh" | "link_disabled":
                    await connection.disconnect("refresh_requested" if do == "refresh" else do)
                    await connection.close()
                case "close":
                    await connection.close()
                case "drop":
                    connection.drop()
                case "freeze" | "thaw":
                    connection.freeze(on=do == "freeze")
                case _:
                    known = "warning, refresh, link_disabled, close, drop, freeze, thaw"
                    raise PlaygroundError("unknown_do", f"A connection can't {do!r}; it can {known}.")
        return len(chosen)

    async def close(self) -> None:
        """End all connections, frozen ones as well."""
        for connection in list(self._open):
            connection.freeze(on=False)
            connection.drop()

    def _note(self, connection: Connection, event: str, reason: str = "") -> None:
        self._world.journal.write("connection", connection=connection.number, event=event, reason=reason)
