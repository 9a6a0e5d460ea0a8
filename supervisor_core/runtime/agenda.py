"""Who must be looked at when: the moments at which a worker's condition may change although nothing happens.

It is in memory alone: whoever begins looks at all workers first, and knows all of it again.
"""

from __future__ import annotations

import heapq
import math
from datetime import datetime

SHORTEST_SECONDS = 0.001


class Agenda:
    """One moment for each worker. What is noted anew takes the place of what was noted before."""

    def __init__(self) -> None:
        self._moments: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def note(self, worker_id: str, moment: datetime | None) -> None:
        """Look at this worker then; None: nothing can change by itself."""
        if moment is None:
            self._moments.pop(worker_id, None)
        elif self._moments.get(worker_id) != moment:
            self._moments[worker_id] = moment
            heapq.heappush(self._heap, (moment, worker_id))
            if len(self._heap) > 2 * len(self._moments) + 100:  # what was overtaken is let go of now and then
                self._heap = [(at, each) for each, at in self._moments.items()]
                heapq.heapify(self._heap)

    def forget(self, worker_id: str) -> None:
        """It was removed."""
        self._moments.pop(worker_id, None)

    def due(self, now: datetime) -> list[str]:
        """Whose moment has come; each is told once."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            moment, worker_id = heapq.heappop(self._heap)
            if self._moments.get(worker_id) == moment:
                del self._moments[worker_id]
                found.append(worker_id)
        return found

    def wait(self, now: datetime) -> float:
        """Seconds until the first moment; without end where there is none."""
        while self._heap and self._moments.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return math.inf
        return max((self._heap[0][0] - now).total_seconds(), SHORTEST_SECONDS)
