"""Asking a running daemon: one line of JSON there, one line back.

On the path of `supervisor status`: imports nothing heavy.
"""

from __future__ import annotations

import json

from supervisor_core.domain.errors import SupervisorError
from supervisor_core.runtime.control_address import connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANSWER_BYTES = 64 * 1024


class ControlError(SupervisorError):
    """The daemon could not answer."""


class NotRunningError(Exception):
    """Nobody listens."""


class UnresponsiveError(Exception):
    """Somebody listens and does not answer."""


def ask(state_dir: str, request: dict[str, Any], timeout: float = 2.0) -> dict[str, Any]:
    """What the daemon answers. `NotRunningError` where there is none, `UnresponsiveError` where it keeps silent."""
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
        raise ControlError(f"The daemon could not answer: {document['error']}")
    return document


def _line(connection: Any) -> bytes:  # noqa: ANN401 (a socket, whose module need not be imported for its name)
    parts = []
    while part := connection.recv(ANSWER_BYTES):
        parts.append(part)
        if part.endswith(b"\n"):
            break
    return b"".join(parts)
