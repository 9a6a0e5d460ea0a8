"""The rows that benchmarks return, and the comparison of two runs by their ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

OURS, FLOOR = "ours", "floor"
MARGIN = 1.5
"""The factor by which a ratio may grow before `make bench-check` fails: machines are noisy."""


@dataclass(frozen=True)
class Row:
    """One measured thing under one subject. Less is better, whatever the unit."""

    what: str
    subject: str
    unit: str = ""
    median: float | None = None
    p95: float | None = None
    against: str = ""
    """The subject that this one is compared with: a peer, or a floor."""

    @property
    def is_ours(self) -> bool:
        return self.subject.startswith(OURS)


def row_of(what: str, subject: str, samples: Sequence[float], against: str = "", unit: str = "ms") -> Row:
    """A row from samples. A single sample has no 95th percentile."""
    p95 = sorted(samples)[math.ceil(len(samples) * 0.95) - 1] if len(samples) > 1 else None
    return Row(what, subject, unit, statistics.median(samples), p95, against)


def rows_of(times: Mapping[str, Sequence[float]], floor: str, others: Mapping[str, str] | None = None) -> list[Row]:
    """Rows from milliseconds by name, each compared with the floor. All are ours but the floor and `others`."""
    subjects = {**(others or {}), floor: FLOOR}
    return [row_of(name, subjects.get(name, OURS), taken, FLOOR) for name, taken in times.items()]


def ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """The row's median in relation to that of its peer or floor, for the same thing or for the only one."""
    if row.median is None or row.subject == row.against:
        return None
    bases = [each for each in rows if each.subject == row.against]
    base = next((each for each in bases if each.what == row.what), bases[0] if len(bases) == 1 else None)
    return row.median / base.median if base and base.median else None


def regressions(committed: Sequence[Row], measured: Sequence[Row], margin: float = MARGIN) -> Iterator[str]:
    """A line for each row of ours whose ratio grew by more than the margin, or that is gone."""
    now = {(row.what, row.subject): ratio(row, measured) for row in measured}
    for row in committed:
        before = ratio(row, committed)
        if not row.is_ours or before is None:
            continue
        key, name = (row.what, row.subject), f"{row.what} ({row.subject})"
        after = now.get(key)
        if key not in now:
            yield f"{name}: no longer measured"
        elif after is not None and after > before * margin:
            yield f"{name}: {after:.3g} times {row.against}, was {before:.3g}"
