"""The steps of a command on a terminal: each is printed once, as soon as it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from supervisor_core.domain.times import from_text


class Steps:
    """Prints what the handlers of one command said they were doing, with the seconds since it was sent."""

    def __init__(self, since: datetime, *, several: bool) -> None:
        self._since = since
        self._several = several
        self._printed: Counter[str] = Counter()

    @property
    def seen(self) -> int:
        """How many were printed."""
        return self._printed.total()

    def show(self, known: Sequence[Mapping[str, str]]) -> None:
        """Print those that are new. Each worker's are in their order, whichever worker's was written first."""
        met: Counter[str] = Counter()
        for step in known:
            worker = step["worker_id"]
            met[worker] += 1
            if met[worker] > self._printed[worker]:
                self._printed[worker] += 1
                print(self._line(step), flush=True)

    def _line(self, step: Mapping[str, str]) -> str:
        seconds = max((from_text(step["at"]) - self._since).total_seconds(), 0.0)
        who = f"{step['worker_id']}: " if self._several else ""
        return f"{seconds:6.1f} s  {who}{step['words']}"
