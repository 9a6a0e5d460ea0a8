"""Cutting off the beginning of a file that somebody else has open for appending.

ext4 and XFS remove whole blocks at the beginning in one step, which no write can come between. Elsewhere only all of a
file can be cut off.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache

_FALLOC_FL_COLLAPSE_RANGE = 0x08  # from <linux/falloc.h>


def block_size(descriptor: int) -> int:
    """What a beginning must be a multiple of, so that it can be cut off."""
    return os.fstatvfs(descriptor).f_bsize if hasattr(os, "fstatvfs") else 1


def cut_beginning(descriptor: int, length: int) -> bool:
    """Remove so many bytes at the beginning; False where this file system can't, and nothing was done.

    The length is a multiple of the block size, and something must be left behind it.
    """
    collapse = _collapse()
    return collapse is not None and collapse(descriptor, length) == 0


@cache
def _collapse() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if call is None:  # musl has one for all lengths
        call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if call is None:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    call.restype = ctypes.c_int
    return lambda descriptor, length: int(call(descriptor, _FALLOC_FL_COLLAPSE_RANGE, 0, length))
