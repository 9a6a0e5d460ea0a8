"""Slack's rate limits, where they are wanted: calls per minute by a method's tier, one post per second and channel."""

from __future__ import annotations

import math
from collections import defaultdict, deque

from slack_playground.values import Clock

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
        """A call of this method."""
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
