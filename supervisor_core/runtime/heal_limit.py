"""How often passes may start one worker by themselves: their starts of the last hour, noted in the state folder.

A pass remembers nothing, and one each minute would start a worker that can't live sixty times within the hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.config import Worker
from supervisor_core.domain.errors import RefusedError
from supervisor_core.domain.times import from_text, to_text

WINDOW = timedelta(hours=1)
PRIVATE = 0o600


class TooManyStarts(RefusedError):
    """It has been started too often."""


def note_start(state_dir: Path, worker: Worker, now: datetime) -> None:
    """Note that a pass is about to start this worker; `TooManyStarts`, and no note, where it did so too often.

    Before the start, so that one which fails counts as well. Where it can't be noted it is an `OSError`: what nobody
    counts is not repeated.
    """
    path = state_dir / "workers" / f"{worker.id}.starts"
    times, limit = recent(_noted(path), now), worker.restart.max_per_hour
    if len(times) >= limit:
        raise TooManyStarts(_why(worker, len(times)), remedy=_remedy(worker))
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_json(path, {"starts": [to_text(moment) for moment in (*times, now)]}, mode=PRIVATE)


def recent(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """Those within the last hour. One from the future was noted by a clock that was wrong, and would count for ever."""
    return [moment for moment in times if now - WINDOW < moment <= now]


def _why(worker: Worker, count: int) -> str:
    key = f"workers.{worker.id}.restart.max_per_hour"
    if count == 0:
        return f"{key} is 0, so no pass starts it."
    times = "once" if count == 1 else f"{count} times"
    return f"Passes have started it {times} within the last hour, and {key} allows no more."


def _remedy(worker: Worker) -> str:
    return f"Look why it does not live (its log says it); a person may start it: restart {worker.id}."


def _noted(path: Path) -> list[datetime]:
    found = (read_json(path, tolerant=True) or {}).get("starts")
    times = []
    for text in found if isinstance(found, list) else []:
        try:
            times.append(from_text(text))
        except (TypeError, ValueError):  # what a hand wrote there is no start
            continue
    return times
