"""The limits of automatic restarts: the starts of the last hour, and quarantines, kept in the state folder.

Passes and the daemon count together. A quarantine outlives the daemon and a reboot, until a person ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from supervisor_core.common.errors import RefusedError
from supervisor_core.common.text import one_line
from supervisor_core.common.text import times as count_times
from supervisor_core.common.times import from_text, to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FOLDER, UnreadableFileError
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.files import read_json, write_json


def read_starts(state_dir: Path, worker_id: str) -> list[datetime]:
    """The recorded starts; empty if there are none, or if the file can't be read."""
    found = (read_json(_path(state_dir, worker_id), tolerant=True) or {}).get("starts")
    times = []
    for text in found if isinstance(found, list) else []:
        try:
            times.append(from_text(text))
        except (TypeError, ValueError):  # what a hand wrote there is no start
            continue
    return times


def write_starts(state_dir: Path, worker_id: str, times: Sequence[datetime]) -> None:
    """Record exactly these starts. The note of the run that follows is in the same folder and syncs it; a power cut
    before that ends the run as well."""
    path = _path(state_dir, worker_id)
    path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    write_json(path, {"starts": [to_text(moment) for moment in times]}, synced=False)


def forget_starts(state_dir: Path, worker_id: str) -> None:
    """Reset the count, after a person's command."""
    _path(state_dir, worker_id).unlink(missing_ok=True)


def _path(state_dir: Path, worker_id: str) -> Path:
    return state_dir / "workers" / f"{worker_id}.starts"


HOME = "desired"
LONGEST = 500  # characters of its reason


class Quarantine(NamedTuple):
    """The beginning of a quarantine, and its reason in words."""

    at: str
    words: str

    def __str__(self) -> str:
        return self.words


class Quarantines:
    """The quarantines of one host's workers. A file that can't be read counts as a quarantine."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._home = state_dir / HOME

    def read(self, worker_id: str) -> Quarantine | None:
        path = self._path(worker_id)
        try:
            document = read_json(path)
        except (UnreadableFileError, OSError):
            return Quarantine("", f"quarantined; the reason in {path} can't be read")
        if document is None:
            return None
        at, words = (document.get(name) for name in Quarantine._fields)
        said = words if isinstance(words, str) and words else "quarantined"
        return Quarantine(at if isinstance(at, str) else "", one_line(said, LONGEST))

    def begin(self, worker_id: str, words: str, now: datetime) -> None:
        """Quarantine the worker until `end`."""
        self._home.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        write_json(self._path(worker_id), {"at": to_text(now), "words": one_line(words, LONGEST)})

    def end(self, worker_id: str) -> bool:
        """End the quarantine and reset the count of starts. Returns whether there was one."""
        path = self._path(worker_id)
        there = path.exists()
        path.unlink(missing_ok=True)
        forget_starts(self._state_dir, worker_id)
        return there

    def _path(self, worker_id: str) -> Path:
        return self._home / f"{worker_id}.quarantine"


WINDOW = timedelta(hours=1)


class TooManyStarts(RefusedError):
    """It was started automatically too often."""


def restarts_count(drive: Drive) -> bool:
    """False while the shared drive is away: the exit may not be the worker's fault, so its restart doesn't count."""
    try:
        drive.check()
    except (DriveUnavailable, OSError):
        return False
    return True


def note_start(state_dir: Path, worker: WorkerSettings, now: datetime) -> None:
    """Record an automatic start that is about to happen; `TooManyStarts`, without a record, if the limit is reached.

    It comes before the start, so that failed starts count too. If it can't be recorded, that's an `OSError`: an
    uncounted start must not be repeated.
    """
    times, limit = recent(read_starts(state_dir, worker.id), now), worker.restart.max_per_hour
    if len(times) >= limit:
        key = f"workers.{worker.id}.restart.max_per_hour"
        why = f"Automatic starts are off ({key} is 0)."
        if times:
            why = f"It was restarted automatically {count_times(len(times))} in an hour ({key} allows no more)."
        raise TooManyStarts(why, remedy=f"Check its log. To start it by hand: restart {worker.id}.")
    write_starts(state_dir, worker.id, (*times, now))


def recent(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """The starts within the last hour. One in the future is from a wrong clock, and would count forever."""
    return [moment for moment in times if now - WINDOW < moment <= now]
