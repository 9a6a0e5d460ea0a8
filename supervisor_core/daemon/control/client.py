"""Asks a running daemon: one line of JSON there, one line back. It imports nothing slow.

The address is a socket in the state folder; elsewhere, a port on loopback with a token.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import contextmanager

from supervisor_core.common.errors import SupervisorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LOOK_AGAIN_SECONDS = 0.01
SOCKET_NAME = "control.sock"
PORT_NAME = "control.json"
HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX") and sys.platform != "win32"


class ControlError(SupervisorError):
    """The daemon couldn't answer."""


class NotRunningError(Exception):
    """The daemon isn't running."""


class UnresponsiveError(Exception):
    """The daemon isn't responding."""


def ask(state_dir: str, request: dict[str, Any], timeout: float = 2.0) -> dict[str, Any]:
    """Return the daemon's answer; raise `NotRunningError` or `UnresponsiveError`."""
    try:
        connection, token = connect(state_dir, timeout)
        with connection:
            connection.sendall(json.dumps({**request, "token": token}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline()
    except TimeoutError:
        raise UnresponsiveError from None
    except (OSError, ValueError, KeyError):
        raise NotRunningError from None
    if not line.endswith(b"\n"):
        raise NotRunningError  # it ended while we asked, or while it answered
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise ControlError(f"The daemon couldn't answer: {answer['error']}")
    return answer


def connect(state_dir: str, timeout: float) -> tuple[socket.socket, str]:
    """Open a connection to the daemon, with the required token; raise `OSError` if it isn't listening."""
    if not HAS_UNIX_SOCKETS:
        with open(os.path.join(state_dir, PORT_NAME), encoding="utf-8") as file:  # noqa: PTH118, PTH123 (no pathlib)
            address = json.load(file)
        return socket.create_connection(("127.0.0.1", address["port"]), timeout), address["token"]
    connection, deadline = socket.socket(socket.AF_UNIX), time.monotonic() + timeout
    connection.settimeout(timeout)
    try:
        with short_path(state_dir) as folder:
            while True:
                try:
                    connection.connect(f"{folder}/{SOCKET_NAME}")
                except BlockingIOError:  # Linux refuses immediately if the queue is full: the daemon may be frozen
                    if time.monotonic() >= deadline:
                        raise TimeoutError from None
                    time.sleep(LOOK_AGAIN_SECONDS)
                else:
                    return connection, ""
    except BaseException:
        connection.close()
        raise


def listen(state_dir: str) -> socket.socket:
    """Open the listening socket for its owner only. The caller owns the state folder."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with short_path(state_dir) as folder:
            path = f"{folder}/{SOCKET_NAME}"
            if os.path.lexists(path):
                os.unlink(path)  # noqa: PTH108 (the path is only good while `folder` is open)
            listener.bind(path)
            os.chmod(path, 0o600)  # noqa: PTH101 (the folder is ours alone, so nobody came in between)
        listener.listen(64)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


@contextmanager
def short_path(folder: str) -> Iterator[str]:
    """A path short enough for a socket's address, which holds about 100 characters. Only Linux has one for each folder;
    elsewhere a long path can't be used."""
    if len(os.fsencode(folder)) < 80 or sys.platform != "linux":
        yield folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
