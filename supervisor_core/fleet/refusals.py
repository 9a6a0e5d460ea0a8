"""Counts of refusals: a flood of them is one audit row now and then, with their number."""

from __future__ import annotations


class RefusalCounts:
    """The refusals of each subject that aren't on record yet. Times are in seconds."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._counts: dict[str, int] = {}
        self._recorded_at: dict[str, float] = {}

    def add(self, subject: str, now: float) -> int:
        """Count one; the number to record now, and 0 before the interval since the last record is over."""
        self._counts[subject] = self._counts.get(subject, 0) + 1
        last = self._recorded_at.get(subject)
        return self._counts[subject] if last is None or now >= last + self._interval else 0

    def recorded(self, subject: str, now: float) -> None:
        del self._counts[subject]
        self._recorded_at[subject] = now
