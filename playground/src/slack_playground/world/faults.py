"""Failures on purpose: faults that a test sets, and Slack's rate limits."""

from __future__ import annotations

import fnmatch
import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from slack_playground.values import Clock, Json, PlaygroundError, number
from slack_playground.world.feed import Feed

HTTP_KINDS = ("ratelimited", "status", "error", "drop_before", "drop_after", "delay", "garbage", "answer")
SOCKET_KINDS = ("duplicate", "redeliver", "lose", "lose_ack")
FIRST_STATUS, LAST_STATUS = 200, 599
PARAMETERS: Json = {"retry_after": 1, "status": 500, "error": "internal_error", "seconds": 1.0, "fields": {}}


@dataclass
class Fault:
    id: str
    kind: str
    method: str
    times: int = 1
    after: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    struck: int = 0

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 -- a number or a word, as JSON has it
        return self.parameters.get(name, PARAMETERS.get(name))

    def to_json(self) -> Json:
        own = {key: value for key, value in vars(self).items() if key != "parameters"}
        return own | self.parameters


class Faults:
    """All active faults, in order; the first that matches a call strikes it."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._all: list[Fault] = []
        self._n = 0

    def add(self, kind: str, method: str = "*", *, times: int = 1, after: int = 0, **parameters: object) -> Fault:
        if kind not in HTTP_KINDS + SOCKET_KINDS:
            kinds = ", ".join(HTTP_KINDS + SOCKET_KINDS)
            raise PlaygroundError("unknown_fault", f"There is no fault {kind!r}; there are {kinds}.")
        unknown = [name for name in parameters if name not in PARAMETERS]
        if unknown:
            raise PlaygroundError("unknown_parameter", f"A fault has no {unknown[0]!r}; it may have {[*PARAMETERS]}.")
        for name in ("retry_after", "status", "seconds"):
            number(parameters.get(name), name)
        if not FIRST_STATUS <= number(parameters.get("status"), "status", FIRST_STATUS) <= LAST_STATUS:
            raise PlaygroundError("bad_value", f"`status` is from {FIRST_STATUS} to {LAST_STATUS}.")
        if not isinstance(parameters.get("fields", {}), dict):
            raise PlaygroundError("bad_value", f"`fields` is an object, not {parameters['fields']!r}.")
        if kind in SOCKET_KINDS:
            method = "socket"
        self._n += 1
        fault = Fault(f"F{self._n}", kind, method, int(number(times, "times")), int(number(after, "after")), parameters)
        self._all.append(fault)
        self._told()
        return fault

    def strike(self, method: str, *kinds: str) -> Fault | None:
        """The fault that strikes this call; counts it."""
        for fault in self._all:
            if fault.kind not in kinds or not fnmatch.fnmatchcase(method, fault.method):
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            fault.struck += 1
            if fault.times and fault.struck >= fault.times:
                self._all.remove(fault)
            self._told()
            return fault
        return None

    def clear(self, fault_id: str | None = None) -> None:
        if fault_id and not any(fault.id == fault_id for fault in self._all):
            raise PlaygroundError("no_such_fault", f"There is no fault {fault_id!r} now.", status=404)
        self._all = [fault for fault in self._all if fault_id and fault.id != fault_id]
        self._told()

    def to_json(self) -> list[Json]:
        return [fault.to_json() for fault in self._all]

    def _told(self) -> None:
        self._feed.publish("faults", faults=self.to_json())


MINUTE = 60.0
POSTS_BURST = 3  # a channel bears a short burst before one post per second holds
TIERS = {"t1": 1, "t2": 20, "t3": 50, "t4": 100, "t5": 600}


class Rates:
    """Counts calls; says how many seconds to wait, or 0."""

    def __init__(self, clock: Clock, *, on: bool) -> None:
        self._clock = clock
        self.on = on
        self._calls: dict[str, deque[float]] = defaultdict(deque)
        self._posts: dict[str, float] = {}

    def method(self, name: str, tier: str) -> int:
        if not self.on:
            return 0
        now, calls = self._clock.now(), self._calls[name]
        while calls and calls[0] <= now - MINUTE:
            calls.popleft()
        if len(calls) >= TIERS[tier]:
            return math.ceil(calls[0] + MINUTE - now)
        calls.append(now)
        return 0

    def post(self, channel: str) -> int:
        """A post into this channel: a bucket that holds a burst and gains one each second."""
        if not self.on:
            return 0
        now = self._clock.now()
        free_at = max(self._posts.get(channel, 0.0), now - POSTS_BURST + 1)
        if free_at > now:
            return max(1, math.ceil(free_at - now))
        self._posts[channel] = free_at + 1
        return 0
