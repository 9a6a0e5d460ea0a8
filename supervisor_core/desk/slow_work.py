"""Work of a chore that may ask git or a chat: one thread for each piece, so that none waits for another."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from supervisor_core.adapters.threads import DaemonThreads

T = TypeVar("T")

MOMENT_SECONDS = 2.0
"""A chore waits so long for the pieces that it has just begun: most end within it. It never waits for older ones."""

LOOK = timedelta(seconds=0.25)
"""Between two looks for the end of the older ones."""

AT_ONCE = 16


class SlowWork(Generic[T]):
    """Runs pieces of work concurrently, each key once at a time. Used by one thread."""

    def __init__(self, name: str) -> None:
        self._threads = DaemonThreads(name, AT_ONCE)
        self._under_way: dict[Hashable, Future[T]] = {}

    @property
    def under_way(self) -> bool:
        """Whether something was begun whose end was not looked at."""
        return bool(self._under_way)

    def run(self, pieces: dict[Hashable, Callable[[], T]]) -> list[T]:
        """Begin those that are not under way; the results of all that have ended, a moment later."""
        new = {key: self._threads.submit(work) for key, work in pieces.items() if key not in self._under_way}
        self._under_way.update(new)
        wait(new.values(), timeout=MOMENT_SECONDS)
        ended = [key for key, future in self._under_way.items() if future.done()]
        return [self._under_way.pop(key).result() for key in ended]


def looked_at(due_at: datetime | None, work: SlowWork[T]) -> datetime | None:
    """When a chore looks again: at what is due, and for the end of what is under way, which is due all the time."""
    return datetime.now(UTC) + LOOK if work.under_way else due_at
