"""The live events of the playground: numbered, kept for a while, and awaited by the page and by tests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from slack_playground.values import Clock, Json

T = TypeVar("T")

KEPT = 20_000  # events; a page that was away for longer fetches the state again


class Feed:
    """Publishes events in one order; every listener has its own queue."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seq = 0
        self._kept: deque[Json] = deque(maxlen=KEPT)
        self._queues: set[asyncio.Queue[Json]] = set()
        self._waiters: set[asyncio.Event] = set()

    def publish(self, kind: str, **fields: object) -> None:
        """Tell everybody who listens, and wake everybody who waits."""
        self.seq += 1
        event = {"seq": self.seq, "at": self._clock.now(), "type": kind, **fields}
        self._kept.append(event)
        for queue in self._queues:
            queue.put_nowait(event)
        for waiter in self._waiters:
            waiter.set()

    def listen(self, since: int | None) -> asyncio.Queue[Json]:
        """A queue of all events after `since`; `reset` comes first where some of them are gone."""
        queue: asyncio.Queue[Json] = asyncio.Queue()
        if since is not None and since != self.seq:
            oldest = self._kept[0]["seq"] if self._kept else self.seq + 1
            if since > self.seq or since + 1 < oldest:
                queue.put_nowait({"seq": self.seq, "at": self._clock.now(), "type": "reset"})
            else:
                for event in self._kept:
                    if event["seq"] > since:
                        queue.put_nowait(event)
        self._queues.add(queue)
        return queue

    def forget(self, queue: asyncio.Queue[Json]) -> None:
        """This listener is gone."""
        self._queues.discard(queue)

    async def until(self, condition: Callable[[], T], seconds: float) -> T:
        """The first true answer of the condition, looked at after each event; the last one when the time is over."""
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                while not (answer := condition()):
                    waiter.clear()
                    await waiter.wait()
                return answer
        except TimeoutError:
            return condition()
        finally:
            self._waiters.discard(waiter)
