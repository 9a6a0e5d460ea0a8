"""Values that all parts of the playground share: JSON objects, errors in Slack's words, timings and the clock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
LOCAL = ("127.0.0.1", "localhost", "::1")
"""The names of this machine, and no other."""


class SlackError(Exception):
    """Slack says no: `error` is its own word, `fields` go into the answer beside it."""

    def __init__(self, error: str, *messages: str, **fields: object) -> None:
        self.error = error
        self.fields: Json = dict(fields)
        if messages:
            self.fields["response_metadata"] = {"messages": [f"[ERROR] {message}" for message in messages]}
        super().__init__(error)

    def to_json(self) -> Json:
        return {"ok": False, "error": self.error, **self.fields}


class PlaygroundError(Exception):
    """A request of a person or a test can't be carried out; `error` is a word, the message a sentence."""

    def __init__(self, error: str, message: str, *, status: int = 400, **fields: object) -> None:
        self.error, self.message, self.status = error, message, status
        self.fields: Json = dict(fields)
        super().__init__(message)


def number(value: object, name: str, default: float = 0) -> float:
    """A number that a person or a test gave, or a refusal that names it."""
    try:
        given = default if value is None else float(str(value))
        if not math.isfinite(given):
            raise ValueError
    except ValueError:
        raise PlaygroundError("bad_value", f"`{name}` is a number, not {value!r}.") from None
    return given


def names(value: object, name: str) -> list[object]:
    """A list that a person or a test gave, or a refusal that names it."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise PlaygroundError("bad_value", f"`{name}` is a list, not {value!r}.")
    return value


@dataclass(frozen=True)
class Timings:
    """Slack's own times in seconds; tests make them shorter."""

    ack: float = 3.0
    redelivery: tuple[float, ...] = (0.0, 60.0, 300.0)
    """An event that nobody acknowledged is sent again after each of these."""
    trigger: float = 3.0
    response_url: float = 1800.0
    response_url_uses: int = 5
    ticket: float = 30.0
    connection: float = 18060.0
    """After so long Slack refreshes a connection."""
    warning: float = 10.0
    """So long before its end, a connection is warned."""
    ping: float = 5.0
    pong_patience: float = 30.0
    connections: int = 10


class Clock:
    """The time by which lifetimes age. A test may put it forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        """Seconds since the epoch, plus what was put forward."""
        return time.time() + self.ahead
