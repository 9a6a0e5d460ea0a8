"""Workers that are not started any more because they could not live: why, since when, kept until a person ends it.

A file for each in the state folder, apart from what is observed: it outlives the daemon and a start of the machine.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from supervisor_core.adapters import starts
from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.adapters.open_folder import UnreadableError
from supervisor_core.domain.texts import one_line
from supervisor_core.domain.times import to_text

PRIVATE = 0o600
HOME = "desired"
LONGEST = 500  # characters of its reason


class Quarantine(NamedTuple):
    """Since when, and why, in words for people."""

    at: str
    words: str


class Quarantines:
    """The quarantines of one host's workers. What can't be read counts as one: it may say "rest", never "run"."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._home = state_dir / HOME

    def read(self, worker_id: str) -> Quarantine | None:
        """Why this worker may not be started by itself; None where it may."""
        path = self._path(worker_id)
        try:
            document = read_json(path)
        except (UnreadableError, OSError):
            return Quarantine("", f"quarantined; {path} should say why, and can't be read")
        if document is None:
            return None
        at, words = (document.get(name) for name in Quarantine._fields)
        said = words if isinstance(words, str) and words else "quarantined"
        return Quarantine(at if isinstance(at, str) else "", one_line(said, LONGEST))

    def begin(self, worker_id: str, words: str, now: datetime) -> None:
        """From now on, until `end`."""
        self._home.mkdir(mode=0o700, exist_ok=True)
        write_json(self._path(worker_id), {"at": to_text(now), "words": one_line(words, LONGEST)}, mode=PRIVATE)

    def end(self, worker_id: str) -> bool:
        """A person has taken it in hand: it may be started, and its starts are counted anew. Whether there was one."""
        path = self._path(worker_id)
        there = path.exists()
        path.unlink(missing_ok=True)
        starts.forget(self._state_dir, worker_id)
        return there

    def _path(self, worker_id: str) -> Path:
        return self._home / f"{worker_id}.quarantine"
