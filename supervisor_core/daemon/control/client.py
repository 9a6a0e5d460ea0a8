"""Asks a running daemon: one line of JSON there, one line back. It imports nothing slow.

The address is a socket in the state folder; elsewhere, a port on loopback with a token.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from supervisor_core.common.errors import SupervisorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOOK_AGAIN_SECONDS = 0.01

SOCKET_NAME = "control.sock"
PORT_NAME = "control.json"
HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX") and sys.platform != "win32"


def connect(state_dir: str, timeout: float) -> tuple[socket.socket, str]:
    """Open a connection to the daemon, with the required token; raise `OSError` if it isn't listening."""
    if not HAS_UNIX_SOCKETS:
        return _connect_port(state_dir, timeout)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout)
    try:
        with ShortPath(state_dir) as folder:
            _connect_patiently(connection, f"{folder}/{SOCKET_NAME}", timeout)
    except BaseException:
        connection.close()
        raise
    return connection, ""


def _connect_patiently(connection: socket.socket, path: str, timeout: float) -> None:
    """Wait if the queue of connections is full, which Linux refuses immediately: the daemon may be frozen."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            connection.connect(path)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError from None
            time.sleep(LOOK_AGAIN_SECONDS)
        else:
            return


def listen(state_dir: str) -> socket.socket:
    """Open the listening socket for its owner only. The caller owns the state folder."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with ShortPath(state_dir) as folder:
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


class ShortPath:
    """A folder under a name short enough for a socket's address, which holds about 100 characters.

    Linux lends each open folder one; elsewhere a long path must do without.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._descriptor = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._folder)) < 80 or sys.platform != "linux":
            return self._folder
        self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _connect_port(state_dir: str, timeout: float) -> tuple[socket.socket, str]:
    import json

    with open(os.path.join(state_dir, PORT_NAME), encoding="utf-8") as file:  # noqa: PTH118, PTH123 (no pathlib here)
        place = json.load(file)
    return socket.create_connection(("127.0.0.1", place["port"]), timeout), place["token"]


ANSWER_BYTES = 64 * 1024


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
    except TimeoutError:
        raise UnresponsiveError from None
    except (OSError, ValueError, KeyError):
        raise NotRunningError from None
    with connection:
        try:
            connection.sendall(json.dumps({**request, "token": token}).encode() + b"\n")
            answer = _line(connection)
        except TimeoutError:
            raise UnresponsiveError from None
        except OSError:
            raise NotRunningError from None
    if not answer.endswith(b"\n"):
        raise NotRunningError  # it ended while we asked, or while it answered
    document: dict[str, Any] = json.loads(answer)
    if "error" in document:
        raise ControlError(f"The daemon couldn't answer: {document['error']}")
    return document


def _line(connection: Any) -> bytes:  # noqa: ANN401 (a socket, whose module need not be imported for its name)
    parts = []
    while part := connection.recv(ANSWER_BYTES):
        parts.append(part)
        if part.endswith(b"\n"):
            break
    return b"".join(parts)
