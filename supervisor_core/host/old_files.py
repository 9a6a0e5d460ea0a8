"""Deletion of old files, a few at a time, with the marks of the last and the current sweep."""

from __future__ import annotations

import contextlib
import random
import re
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from supervisor_core.host.descriptors import PRIVATE_FILE
from supervisor_core.host.open_folder import OpenFolder

SECONDS = 3.0
"""The time to list a folder. A slow drive may need it for some thousand files, and must not count as hanging."""

EVERY = timedelta(days=1)
MARK = "retention.swept"
"""A file in the state folder, as old as the last sweep."""

PARTS = "retention.parts"
"""The finished parts of the current sweep, one per line. A pass has little time, and the next one continues."""


def delete_old(
    folder: OpenFolder,
    names: re.Pattern[str],
    before: float,
    most: int | None = None,
    spare: Callable[[str], bool] = lambda _: False,
    *,
    at_once: int = 200,
) -> tuple[int, bool]:
    """Delete regular files with such names that were written before a moment, and all but the newest `most`.

    Returns the number of deleted files, and whether there may be more. Of a folder that is too slow to list as a whole,
    it reads a random part, so that the next call finds others.
    """
    deadline = time.monotonic() + SECONDS
    files = [name for name in folder.names() if names.fullmatch(name) and not spare(name)]
    random.shuffle(files)
    ages: list[tuple[float, str]] = []
    for name in files:
        with contextlib.suppress(FileNotFoundError):
            facts = folder.look(name)
            if stat.S_ISREG(facts.st_mode):
                ages.append((facts.st_mtime, name))
        if time.monotonic() > deadline:
            break
    ages.sort()
    surplus = len(files) - most if most is not None else 0
    old = [name for index, (age, name) in enumerate(ages) if age < before or index < surplus]
    for count, name in enumerate(old):
        if count >= at_once or time.monotonic() > deadline + SECONDS:
            return count, True
        folder.remove(name)
    return len(old), bool(old) and len(ages) < len(files)


def next_sweep(state_dir: Path, now: datetime) -> datetime:
    """The time of the next sweep. On a new host nothing is old, so its first one comes a day later."""
    try:
        swept = datetime.fromtimestamp((state_dir / MARK).stat().st_mtime, UTC)
    except FileNotFoundError:
        note_sweep(state_dir)
        return now + EVERY
    return now if swept > now else swept + EVERY  # a mark from the future was made by a wrong clock


def note_sweep(state_dir: Path) -> None:
    (state_dir / PARTS).unlink(missing_ok=True)
    (state_dir / MARK).touch(mode=PRIVATE_FILE)


def parts_done(state_dir: Path) -> set[str]:
    try:
        return set((state_dir / PARTS).read_text().splitlines())
    except FileNotFoundError:
        return set()


def note_part(state_dir: Path, name: str) -> None:
    path = state_dir / PARTS
    path.touch(mode=PRIVATE_FILE)
    with path.open("a") as file:
        file.write(f"{name}\n")
