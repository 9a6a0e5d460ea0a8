"""What is on record about one worker's captured output: where its file begins, and how far the drive has it.

It is replaced as a whole and not synced, because the output itself isn't either: a crash of the program loses nothing.
After a power cut, a stretch of output may be delivered twice.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.adapters.files import read_json
from supervisor_core.adapters.open_folder import UnreadableError

FILE_MODE = 0o600


class Attempt(NamedTuple):
    """An append to the drive that may have happened."""

    bytes: int
    lost: int
    """How many bytes before it are gone for good, which is said on the drive."""
    drive_size: int
    """The size of the drive's file before it."""
    drive_file: int
    """The number of that file (inode): another one means that it was begun anew."""


class Cut(NamedTuple):
    """The beginning of the file is being cut off."""

    dropped: int
    """So many bytes were not kept; what follows them was copied."""
    copied: bool
    head: str
    """The digest of the first bytes before the cut, by which a crash shows whether it happened."""
    head_bytes: int


class Progress(NamedTuple):
    """Positions count from the first byte that was ever captured."""

    base: int = 0
    """Where the file begins."""
    sent: int = 0
    """How far the drive has it."""
    attempt: Attempt | None = None
    cut: Cut | None = None


def read_progress(path: Path) -> Progress:
    """What is on record; nothing where the record is missing or damaged, and then all is delivered once more."""
    try:
        document = read_json(path) or {}
        attempt, cut = document.get("attempt"), document.get("cut")
        return Progress(
            base=_count(document.get("base", 0)),
            sent=_count(document.get("sent", 0)),
            attempt=Attempt(*(_count(attempt[name]) for name in Attempt._fields)) if attempt else None,
            cut=_cut(cut) if cut else None,
        )
    except (UnreadableError, KeyError, TypeError, ValueError):
        return Progress()


def write_progress(path: Path, progress: Progress) -> None:
    """Put it on the disk, whole."""
    document: dict[str, Any] = {"base": progress.base, "sent": progress.sent}
    document["attempt"] = progress.attempt._asdict() if progress.attempt else None
    document["cut"] = progress.cut._asdict() if progress.cut else None
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(temporary, flags, FILE_MODE), "w") as file:
        json.dump(document, file)
    temporary.replace(path)


def _cut(found: dict[str, Any]) -> Cut:
    return Cut(_count(found["dropped"]), found["copied"] is True, str(found["head"]), _count(found["head_bytes"]))


def _count(found: object) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ValueError(f"{found!r} is no count")
    return found
