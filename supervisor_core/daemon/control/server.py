"""The daemon's control socket: answers a line of JSON with a line of JSON, to its owner only."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.daemon.control import client
from supervisor_core.host.callers import peer_person
from supervisor_core.host.files import write_json
from supervisor_core.host.process_facts.identity import since_boot

REQUEST_BYTES = 64 * 1024
READ_SECONDS = 5.0
"""An idle connection is closed after this time."""

LAST_ANSWER_SECONDS = 1.0

Answer = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

log = logging.getLogger(__name__)


class ControlServer:
    """Listens in the state folder; without Unix sockets, on a loopback port with a token."""

    def __init__(self, state_dir: Path, answers: Mapping[str, Answer], *, unix: bool | None = None) -> None:
        self._state_dir = state_dir
        self._answers = answers
        self._unix = client.HAS_UNIX_SOCKETS if unix is None else unix
        self._token = "" if self._unix else secrets.token_hex(32)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        if self._unix:
            listener = client.listen(str(self._state_dir))
            self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=REQUEST_BYTES)
            return
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=REQUEST_BYTES)
        port = self._server.sockets[0].getsockname()[1]
        write_json(self._state_dir / client.PORT_NAME, {"port": port, "token": self._token})

    async def stop(self) -> None:
        """Stop listening; clients that wait are answered, unless that takes too long."""
        if self._server is None:
            return
        self._server.close()
        if self._open:
            await asyncio.wait(self._open, timeout=LAST_ANSWER_SECONDS)
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()
        (self._state_dir / (client.SOCKET_NAME if self._unix else client.PORT_NAME)).unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, connected_at = asyncio.current_task(), since_boot()
        assert task is not None  # noqa: S101 (a coroutine runs in a task)
        self._open.add(task)
        try:
            async with asyncio.timeout(READ_SECONDS):
                line = await reader.readuntil(b"\n")
            answer = await self._answer(line, writer.get_extra_info("socket"), connected_at)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has gone, or is no program of ours
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, line: bytes, connection: socket.socket, connected_at: float) -> dict[str, Any]:
        """The answer. In a request that names its `user`, the caller as the kernel knows it replaces that name."""
        try:
            request = json.loads(line)
            token, action = str(request.get("token", "")), str(request.get("do", ""))
        except (ValueError, AttributeError, RecursionError):
            return {"error": "expected a JSON object on one line"}
        if not hmac.compare_digest(token.encode("utf-8", "backslashreplace"), self._token.encode()):
            return {"error": "wrong token"}
        if action not in self._answers:
            return {"error": f"unknown request {action!r}; expected {', '.join(self._answers)}"}
        try:
            if "user" in request:
                sudo_user = str(request.get("sudo_user") or "")
                person = await asyncio.to_thread(peer_person, connection, connected_at, sudo_user)
                request["user"] = person or request["user"]
            return await self._answers[action](request)
        except SupervisorError as error:
            log.error("the request %r failed: %s", action, error)  # noqa: TRY400
            return {"error": str(error)}
        except Exception as error:  # the edge: the client is told, and the daemon goes on
            log.exception("the request %r failed", action)
            return {"error": describe(error)}


def handle_stop_signals(stop: Callable[[str], None]) -> None:
    """Have this called on the event loop with the name of each signal. SIGHUP too, so that the log tells that a closed
    terminal ended this daemon."""
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows: Ctrl-C is a KeyboardInterrupt
            if name == "SIGHUP" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                continue  # `nohup`: the daemon outlives the terminal
            loop.add_signal_handler(getattr(signal, name), stop, name)


def stop_answer(workers: list[dict[str, Any]], bound_seconds: float) -> dict[str, Any]:
    """For a client that asks the daemon to stop: the process to wait for, how long, and which workers run."""
    running = [worker["id"] for worker in workers if worker["pid"]]
    return {"ok": True, "pid": os.getpid(), "workers": running, "bound_seconds": bound_seconds}
