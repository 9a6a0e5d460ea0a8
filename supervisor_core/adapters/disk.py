"""How full a disk is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import psutil


class Space(NamedTuple):
    """In bytes. `free` is what we may still write, so it may be less than `total` without `used`."""

    total: int
    used: int
    free: int
    percent: float
    """Used, of what we may use at all."""
    percent_free: float


def space(folder: Path) -> Space:
    """The disk that this folder lies on. It may hang as long as that does."""
    found = psutil.disk_usage(str(folder))
    return Space(found.total, found.used, found.free, found.percent, round(100.0 - found.percent, 1))
