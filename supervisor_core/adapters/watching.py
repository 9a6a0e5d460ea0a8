"""Hearing at once of a new file in a folder, where the kernel can tell (inotify). Elsewhere polling is all there is.

The kernel tells only of what this host does: on a shared drive the other hosts' files are found by polling. An event
is a hint to look, never a fact by itself.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# From <sys/inotify.h>
_IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_DELETE_SELF, _IN_IGNORED = 0x8, 0x80, 0x400, 0x8000
_EVENTS = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_DELETE_SELF
_IN_ATTRIB, _IN_MOVED_FROM, _IN_DELETE = 0x4, 0x40, 0x200
_GONE_OR_CLOSED = _IN_ATTRIB | _IN_MOVED_FROM | _IN_DELETE
_READ_AT_ONCE = 64 * 1024


class FolderWatch:
    """A file descriptor that becomes readable when something new is whole in the folder.

    `fileno()` is None where the system has no inotify, or refused one more: then the caller polls. With `every_change`
    it also tells of what was removed, moved away, or got other rights.
    """

    def __init__(self, *, every_change: bool = False) -> None:
        self._events = _EVENTS | _GONE_OR_CLOSED if every_change else _EVENTS
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._descriptor = -1
        self._watched: Path | None = None
        if self._libc is not None:
            self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int | None:
        """What an event loop may wait on."""
        return self._descriptor if self._descriptor >= 0 else None

    def watch(self, folder: Path) -> bool:
        """Watch this folder from now on; False where it can't be watched. May hang as long as the drive does."""
        if self._libc is None or self._descriptor < 0:
            return False
        if self._watched != folder:
            added = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), self._events)
            self._watched = folder if added >= 0 else None
        return self._watched is not None

    def drain(self) -> list[str]:
        """Take what has come, so that the descriptor is quiet again, and tell the names of the files; a folder that
        went away is watched anew later."""
        names: list[str] = []
        try:
            data = os.read(self._descriptor, _READ_AT_ONCE)
        except BlockingIOError:
            return names
        while data:
            mask, length = (int.from_bytes(data[at : at + 4], sys.byteorder) for at in (4, 12))
            if mask & (_IN_IGNORED | _IN_DELETE_SELF):
                self._watched = None
            names.append(os.fsdecode(data[16 : 16 + length].rstrip(b"\0")))
            data = data[16 + length :]
        return names

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
