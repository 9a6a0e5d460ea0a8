"""How old a worker's heartbeat was, over the last week: one sample for each five minutes, in a small file of its own.

A sample is the oldest that the heartbeat was seen within its five minutes. The file is appended to, and begun anew with
its newer half when it has twice as many as are kept. It is a picture's worth and no record: what is cut off by a crash,
or can't be written, is left out.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

STEP_SECONDS = 300
FORGOTTEN_STEPS = 12  # an hour: a worker that wasn't looked at for so long was removed
KEPT = 7 * 24 * 3600 // STEP_SECONDS + 1
SAMPLE = struct.Struct("<If")
"""The time in seconds since 1970, and the age in seconds."""

PRIVATE = 0o600


class Age(NamedTuple):
    """At one moment."""

    at: datetime
    seconds: float


class BeatAges:
    """Keeps samples of the workers of one host. For whoever looks at them regularly, in one thread at a time."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._oldest: dict[str, tuple[int, float]] = {}
        """For each worker the five minutes that are under way, and the oldest so far."""

    def seen(self, worker_id: str, age_seconds: float, now: datetime) -> None:
        """So old it is now. Nothing is raised: of what can't be written there is no picture."""
        step, age = int(now.timestamp()) // STEP_SECONDS, max(age_seconds, 0.0)
        known = self._oldest.get(worker_id)
        if known is not None and known[0] == step:
            self._oldest[worker_id] = (step, max(known[1], age))
            return
        self._oldest = {each: held for each, held in self._oldest.items() if step - held[0] <= FORGOTTEN_STEPS}
        self._oldest[worker_id] = (step, age)
        if known is not None:
            with contextlib.suppress(OSError, struct.error):
                _append(_path(self._state_dir, worker_id), known[0] * STEP_SECONDS, known[1])


def read_ages(state_dir: Path, worker_id: str, since: datetime, until: datetime) -> list[Age]:
    """The samples between these moments, oldest first; those that are damaged are left out."""
    try:
        data = _path(state_dir, worker_id).read_bytes()
    except OSError:
        return []
    first, last = int(since.timestamp()), int(until.timestamp())
    whole = data[: len(data) - len(data) % SAMPLE.size]
    found = ((at, age) for at, age in SAMPLE.iter_unpack(whole) if first <= at <= last and math.isfinite(age))
    return [Age(datetime.fromtimestamp(at, UTC), age) for at, age in _in_order(found) if age >= 0]


def _in_order(found: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """A clock that was set back leaves some twice: the newer ones count."""
    return sorted(dict(found).items())


def _append(path: Path, at: int, age: float) -> None:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, PRIVATE), "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        size -= size % SAMPLE.size  # of one that was cut off nothing is left
        if size >= 2 * KEPT * SAMPLE.size:
            file.seek(size - KEPT * SAMPLE.size)
            newer = file.read(KEPT * SAMPLE.size)
            file.seek(0)
            file.write(newer)
            size = len(newer)
        file.seek(size)
        file.write(SAMPLE.pack(at, age))
        file.truncate()


def _path(state_dir: Path, worker_id: str) -> Path:
    return state_dir / "workers" / f"{worker_id}.ages"
