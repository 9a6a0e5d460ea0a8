"""The live feed, which the page and tests follow, and the journal of all traffic and all actions of people."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from slack_playground.values import Clock, Json

T = TypeVar("T")

EVENTS_KEPT = 20_000  # events; a page that was away for longer fetches the state again


class Feed:
    """Publishes events in one order; every listener has its own queue."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seq = 0
        self._kept: deque[Json] = deque(maxlen=EVENTS_KEPT)
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


ENTRIES_KEPT = 50_000  # entries in memory; the file has them all


class Journal:
    """Numbered entries, kept in memory, written to a file where one is named, and told to the feed."""

    def __init__(self, clock: Clock, feed: Feed, path: Path | None = None) -> None:
        self._clock, self._feed = clock, feed
        self._file: IO[str] | None = path.open("a", encoding="utf-8", errors="backslashreplace") if path else None
        self.entries: deque[Json] = deque(maxlen=ENTRIES_KEPT)
        self._n = 0

    def write(self, kind: str, **fields: object) -> Json:
        self._n += 1
        entry = {"n": self._n, "at": round(self._clock.now(), 6), "kind": kind, **fields}
        self.entries.append(entry)
        if self._file:
            self._file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")
            self._file.flush()
        self._feed.publish("traffic", entry=entry)
        return entry

    def select(self, *, kind: str | None = None, since: int = 0) -> list[Json]:
        """The entries after `since`, all or of one kind."""
        return [e for e in self.entries if e["n"] > since and kind in (None, e["kind"])]

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None
