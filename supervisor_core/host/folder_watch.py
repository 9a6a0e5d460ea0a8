"""Notice of new files in a folder from the kernel (inotify). Elsewhere the caller polls.

The kernel only reports changes by this host. Files that other hosts write to a shared drive are found by polling. An
event is a hint to look, not a fact.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from supervisor_core.host import drive_files
from supervisor_core.host.open_folder import OpenFolder

# From <sys/inotify.h>
_IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_DELETE_SELF, _IN_MOVE_SELF = 0x8, 0x80, 0x400, 0x800
_EVENTS = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_DELETE_SELF | _IN_MOVE_SELF
_IN_ATTRIB, _IN_MOVED_FROM, _IN_DELETE = 0x4, 0x40, 0x200
_GONE_OR_CLOSED = _IN_ATTRIB | _IN_MOVED_FROM | _IN_DELETE
_IN_MODIFY, _IN_CREATE, _IN_ONESHOT = 0x2, 0x100, 0x80000000
_WRITTEN = _IN_MODIFY | _IN_CREATE | _IN_MOVED_TO | _IN_DELETE_SELF
_READ_AT_ONCE = 64 * 1024


class FolderWatch:
    """A file descriptor that becomes readable when a new file in the folder is complete.

    `fileno()` is None if the system has no inotify or refuses another one; then the caller polls. With `every_change`,
    removed files, moved files and changed rights count too. With `next_write`, it's readable at the next write to any
    file, until `watch` is called again: constant writing costs nothing.
    """

    def __init__(self, *, every_change: bool = False, next_write: bool = False) -> None:
        self._events = _WRITTEN | _IN_ONESHOT if next_write else _EVENTS | _GONE_OR_CLOSED * every_change
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._descriptor = -1
        self._number = -1
        """The kernel's number for the watched folder."""
        if self._libc is not None:
            self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int | None:
        """The descriptor for an event loop; None without inotify."""
        return self._descriptor if self._descriptor >= 0 else None

    def watch(self, folder: Path, root: Path | None = None) -> bool:
        """Watch this folder from now on; False if that's impossible. Call it again at each look: another folder may be
        in its place. A folder on the drive needs the drive's root; the call may then hang as long as the drive does."""
        if self._libc is None or self._descriptor < 0:
            return False
        try:
            opened = OpenFolder.at(folder, shared=False) if root is None else drive_files.open_folder(root, folder)
        except OSError:
            return False
        with opened:
            path = os.fsencode(opened.path_by_descriptor())
            number = int(self._libc.inotify_add_watch(self._descriptor, path, self._events))
        if number != self._number and self._number >= 0:
            self._libc.inotify_rm_watch(self._descriptor, self._number)
        self._number = number
        return number >= 0

    def drain(self) -> list[str]:
        """Read the waiting events, which clears the descriptor, and return the names of the files."""
        names: list[str] = []
        try:
            data = os.read(self._descriptor, _READ_AT_ONCE)
        except BlockingIOError:
            return names
        while data:
            length = int.from_bytes(data[12:16], sys.byteorder)
            names.append(os.fsdecode(data[16 : 16 + length].rstrip(b"\0")))
            data = data[16 + length :]
        return names

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
