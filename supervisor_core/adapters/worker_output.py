"""What workers print, kept within bounds: copied away and cut, because the worker goes on writing into the same file.

It has its output open for appending, so that after the cut it goes on at the beginning. What it prints in the moment
between the copy and the cut is lost; nothing else can be done with a file that somebody else has open.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

COPY_BYTES = 1024 * 1024


def rotate(path: Path, max_bytes: int, backups: int, mode: int) -> bool:
    """Begin the file anew where it is too large: `path.1` is the newest of so many old ones. Whether it was.

    Of one that grew far beyond the limit while nobody looked, the newest part is kept.
    """
    try:
        size = path.lstat().st_size
    except FileNotFoundError:
        return False
    if size <= max_bytes or path.is_symlink() or not path.is_file():
        return False
    if backups > 0:
        copy = path.with_name(f".{path.name}.copy")
        _copy_end(path, copy, max(size - max_bytes, 0), mode)
        for number in range(backups - 1, 0, -1):
            older = _numbered(path, number)
            if older.exists():
                older.replace(_numbered(path, number + 1))
        copy.replace(_numbered(path, 1))
    os.truncate(path, 0)
    return True


def _copy_end(path: Path, copy: Path, start: int, mode: int) -> None:
    """Everything from there on, whole lines where there are any."""
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), mode)
    with path.open("rb") as source, os.fdopen(descriptor, "wb") as target:
        source.seek(start)
        if start:
            source.readline(COPY_BYTES)
        shutil.copyfileobj(source, target, COPY_BYTES)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
