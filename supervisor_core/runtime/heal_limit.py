"""How often one worker may be started by itself within an hour, whoever does it: a pass, or the daemon.

A pass remembers nothing, and one each minute would start a worker that can't live sixty times within the hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from supervisor_core.adapters import starts
from supervisor_core.config import Worker
from supervisor_core.domain.errors import RefusedError
from supervisor_core.domain.texts import times

WINDOW = timedelta(hours=1)


class TooManyStarts(RefusedError):
    """It has been started too often."""


def note_start(state_dir: Path, worker: Worker, now: datetime) -> None:
    """Note that this worker is about to be started by itself; `TooManyStarts`, and no note, where it was too often.

    Before the start, so that one which fails counts as well. Where it can't be noted it is an `OSError`: what nobody
    counts is not repeated.
    """
    times, limit = recent(starts.noted(state_dir, worker.id), now), worker.restart.max_per_hour
    if len(times) >= limit:
        raise TooManyStarts(_why(worker, len(times)), remedy=_remedy(worker))
    starts.write(state_dir, worker.id, (*times, now))


def recent(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """Those within the last hour. One from the future was noted by a clock that was wrong, and would count for ever."""
    return [moment for moment in times if now - WINDOW < moment <= now]


def _why(worker: Worker, count: int) -> str:
    key = f"workers.{worker.id}.restart.max_per_hour"
    if count == 0:
        return f"{key} is 0, so it is never started by itself."
    return f"It was started by itself {times(count)} within the last hour, and {key} allows no more."


def _remedy(worker: Worker) -> str:
    return f"Look why it does not live (its log says it); a person may start it: restart {worker.id}."
