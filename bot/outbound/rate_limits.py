"""Slack's rate limits for each kind of message, and the holds that Slack asks for or that an outage needs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from bot.outbound.messages import HOME, WHISPER
from supervisor_core.storage.outbox import FILE, PendingMessage

FIRST_HOLD_SECONDS, LONGEST_HOLD_SECONDS = 0.5, 30.0
"""The hold after a failed call while Slack is unreachable; it doubles."""

MINUTE = 60.0

KEPT_GATES = 1000
"""More gates than are ever in use; beyond that, expired ones are removed."""


class HeldError(Exception):
    """Slack's rate limit of this method lasts another `seconds`."""

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"Slack's rate limit of {method} lasts another {seconds:.1f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Gate:
    """One limit: the seconds between two calls, after a burst of calls in a row."""

    key: Hashable
    seconds: float
    burst: int = 1


class Pace:
    """Computes how long a call must wait. Nothing here sleeps."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[Hashable, float] = {}
        self._held: dict[Hashable, float] = {}
        self._asked: dict[Hashable, float] = {}
        """Holds that Slack asked for."""
        self._failures: dict[Hashable, int] = {}

    def wait(self, gates: Iterable[Gate], *holds: Hashable) -> float:
        """Return the seconds until all limits allow a call; 0 for now."""
        now = self._clock()
        times = [self._next.get(gate.key, now) - gate.seconds * (gate.burst - 1) for gate in gates]
        times += [found.get(key, now) for found in (self._held, self._asked) for key in holds]
        return max([moment - now for moment in times] + [0.0])

    def free_at(self, gate: Gate) -> float:
        """The time from which this gate allows a call without its burst; 0 if it was never used."""
        return self._next.get(gate.key, 0.0)

    def used(self, gates: Iterable[Gate]) -> None:
        """Count a call for each gate."""
        now = self._clock()
        for gate in gates:
            self._next[gate.key] = max(now, self._next.get(gate.key, now)) + gate.seconds
        if len(self._next) > KEPT_GATES:
            self._next = {key: moment for key, moment in self._next.items() if moment > now}

    def hold(self, key: Hashable, seconds: float | None = None) -> float:
        """Hold calls with this key; without a time, longer for each failure in a row. Return the seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = min(LONGEST_HOLD_SECONDS, FIRST_HOLD_SECONDS * 2 ** min(failures, 10)) if seconds is None else seconds
        holds = self._held if seconds is None else self._asked
        holds[key] = max(self._clock() + wait, holds.get(key, 0.0))
        return wait

    def well(self, *keys: Hashable) -> None:
        """Release these keys, because a call succeeded. It may have been pending for long, so a hold that Slack asked
        for lasts."""
        for key in keys:
            self._failures.pop(key, None)
            self._held.pop(key, None)


POST, EDIT, EPHEMERAL, PUBLISH = "chat.postMessage", "chat.update", "chat.postEphemeral", "views.publish"
SHARE, ANSWER = "files.completeUploadExternal", "response_url"


PER_MINUTE: Mapping[str, int] = {EDIT: 50, EPHEMERAL: 100, SHARE: 100, PUBLISH: 100}
"""Calls that Slack allows an app in a workspace each minute, by the method's tier, as published at
docs.slack.dev/apis/web-api/rate-limits in August 2026. Slack calls them minimums. `chat.postMessage` takes one
message a second in a channel, with short bursts. Other methods aren't spaced: each is left alone for as long as Slack
asks."""

SHARE_OF_TIER = 0.9
"""The part of a tier that is used: calls spaced evenly here may arrive unevenly."""


def spacing(method: str, burst: int = 1) -> float:
    """Seconds between two calls after a burst, so that no minute has more calls than the method's tier allows."""
    return math.ceil(10 * MINUTE / (SHARE_OF_TIER * PER_MINUTE[method] - burst)) / 10


EDIT_OF_ONE_SECONDS, EDIT_SECONDS = 2.5, spacing(EDIT)
POST_SECONDS, POST_BURST = 1.0, 3
EPHEMERAL_GATES = (Gate("whispers", spacing(EPHEMERAL, 20), burst=20),)
RESPONSE_GATES = (Gate("answers", 0.1, burst=100),)  # a response URL accepts five answers
UPLOADS = Gate("files", spacing(SHARE, 20), burst=20)
PAGE_GATES = (Gate("pages", spacing(PUBLISH, 20), burst=20),)


def method(message: PendingMessage) -> str:
    """The method of the message's next call."""
    if message.kind == HOME:
        return PUBLISH
    if message.kind == WHISPER:
        return ANSWER if message.payload.get("response_url") else EPHEMERAL
    if message.kind == FILE:
        return SHARE
    return EDIT if message.address.get("ts") else POST


def hold_key(message: PendingMessage, called: str) -> str:
    """The key of a hold that Slack asks for: posts by channel, as Slack counts them, else the method."""
    return f"{called} {message.payload.get('channel') or ''}" if called == POST else called


def gates(message: PendingMessage) -> tuple[Gate, ...]:
    """The limits of the message's next call."""
    if message.kind == HOME:
        return PAGE_GATES
    if message.kind == WHISPER:
        return RESPONSE_GATES if message.payload.get("response_url") else EPHEMERAL_GATES
    if message.kind == FILE:
        return UPLOADS, *post_gates(message)
    return edit_gates(message) if message.address.get("ts") else post_gates(message)


def edit_gates(message: PendingMessage) -> tuple[Gate, ...]:
    return Gate(("edit", message.outbox_id), EDIT_OF_ONE_SECONDS), Gate("edits", EDIT_SECONDS)


def post_gates(message: PendingMessage) -> tuple[Gate, ...]:
    return (Gate(("post", message.payload.get("channel")), POST_SECONDS, POST_BURST),)
