"""When a worker was started by itself, noted in the state folder: passes and the daemon count together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.domain.times import from_text, to_text

PRIVATE = 0o600


def noted(state_dir: Path, worker_id: str) -> list[datetime]:
    """Those that are on record; empty where there are none, or nothing that can be read."""
    found = (read_json(_path(state_dir, worker_id), tolerant=True) or {}).get("starts")
    times = []
    for text in found if isinstance(found, list) else []:
        try:
            times.append(from_text(text))
        except (TypeError, ValueError):  # what a hand wrote there is no start
            continue
    return times


def write(state_dir: Path, worker_id: str, times: Sequence[datetime]) -> None:
    """Have exactly these on record."""
    path = _path(state_dir, worker_id)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_json(path, {"starts": [to_text(moment) for moment in times]}, mode=PRIVATE)


def forget(state_dir: Path, worker_id: str) -> None:
    """Begin to count anew: a person has taken the worker in hand."""
    _path(state_dir, worker_id).unlink(missing_ok=True)


def _path(state_dir: Path, worker_id: str) -> Path:
    return state_dir / "workers" / f"{worker_id}.starts"
