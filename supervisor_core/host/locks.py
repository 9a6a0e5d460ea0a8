"""Locks that the operating system holds: they die with their process, so none is ever stale.

The lock on the open file counts. The file's content only helps a message to name the holder.
Lock files belong on a local disk. They are never deleted: two processes could then hold "the same" lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from supervisor_core.common.errors import TemporaryError
from supervisor_core.host.descriptors import PRIVATE_FILE
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identify, state

LOOK_AGAIN_SECONDS = 0.02  # while waiting for a lock; the system can wait for one, but not with a time limit
HINT_BYTES = 4096
_WINDOWS_BYTE = 1 << 30  # locked on Windows, far behind the hint: a locked byte can't be read there


class Holder(NamedTuple):
    """The holder of a lock, as far as the file says."""

    identity: ProcessIdentity
    purpose: str
    since: str

    def __str__(self) -> str:
        named = f", {self.purpose}" if self.purpose else ""
        return f"pid {self.identity.pid}{named}, since {self.since}"


class LockedError(TemporaryError):
    """Another process holds the lock."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        self.path = path
        self.holder = holder
        by = f"held by {holder}" if holder else "held by another process"
        super().__init__(f"{path.name} is {by}.", remedy="Wait until it's done, or stop that process.")


class FileLock:
    """An advisory lock on a file, exclusive or shared.

    Children don't inherit it: the descriptor closes on exec, and a plain fork closes the child's copy. So take it
    after forking into the background. A program that replaces itself by `exec` can `keep` it, and `resume` it after.
    Windows has no shared locks: readers exclude each other there. One object is for one thread; two objects exclude
    each other like two processes.
    """

    def __init__(self, path: str | Path, purpose: str = "") -> None:
        self.path = Path(path)
        self.purpose = purpose
        self._descriptor: int | None = None
        self._exclusive = False
        _all_locks.add(self)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self, *, exclusive: bool = True, timeout: float = 0.0) -> Self:
        """Take the lock, waiting for at most `timeout` seconds; `LockedError` names its holder."""
        if self.held:
            raise RuntimeError(f"this object already holds {self.path}")
        deadline = time.monotonic() + timeout
        while not self._try(exclusive=exclusive):
            if time.monotonic() >= deadline:
                raise LockedError(self.path, self.holder())
            time.sleep(LOOK_AGAIN_SECONDS)
        return self

    def keep(self) -> int:
        """Have the lock survive `exec`; returns the descriptor with which the new program resumes it."""
        if self._descriptor is None:
            raise RuntimeError(f"this object doesn't hold {self.path}")
        os.set_inheritable(self._descriptor, True)
        return self._descriptor

    def resume(self, descriptor: int) -> bool:
        """Hold the exclusive lock that the program before us in this process has kept; False if it isn't that."""
        try:
            if not self._is_at_path(descriptor) or not _lock(descriptor, exclusive=True):
                return False
            os.set_inheritable(descriptor, False)
        except OSError:
            return False
        self._descriptor, self._exclusive = descriptor, True
        return True

    def release(self) -> None:
        """Release the lock; does nothing without it."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            if self._exclusive:
                os.ftruncate(descriptor, 0)
            _unlock(descriptor)
        finally:
            os.close(descriptor)

    def holder(self) -> Holder | None:
        """The last exclusive holder that still lives; None if the file doesn't say."""
        try:
            with self.path.open("rb") as file:
                hint = json.loads(file.read(HINT_BYTES))
            who = ProcessIdentity(int(hint["pid"]), int(hint["start"]), str(hint["boot_id"]))
            holder = Holder(who, str(hint["purpose"]), str(hint["since"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None  # nobody wrote, or is just writing
        return None if state(who).ended else holder

    def __enter__(self) -> Self:
        return self if self.held else self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _try(self, *, exclusive: bool) -> bool:
        descriptor = os.open(
            self.path,
            os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0),
            PRIVATE_FILE,
        )
        try:
            if not _lock(descriptor, exclusive=exclusive) or not self._is_at_path(descriptor):
                os.close(descriptor)
                return False
            if exclusive:
                self._write_hint(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor, self._exclusive = descriptor, exclusive
        return True

    def _is_at_path(self, descriptor: int) -> bool:
        """True while the locked file is still at its path; somebody may have removed it."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(descriptor), there)

    def _write_hint(self, descriptor: int) -> None:
        try:
            identity = identify(os.getpid())
        except OSError:
            identity = None  # a lock is good without its hint
        hint = {
            "pid": os.getpid(),
            "start": identity.start if identity else 0,
            "boot_id": identity.boot_id if identity else "",
            "purpose": self.purpose,
            "since": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        with contextlib.suppress(OSError):  # as is one on a full disk
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, json.dumps(hint).encode())

    def _forget_in_child(self) -> None:
        """After a fork: close our copy without unlocking, which would take the lock from the parent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    # `msvcrt.locking` knows no shared kind, and passes for different workers hold one lock side by side.
    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _FAIL_IMMEDIATELY, _EXCLUSIVE = 0x1, 0x2
    _TAKEN = (33, 997)  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING

    class _Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_void_p),
            ("internal_high", ctypes.c_void_p),
            ("offset", wintypes.DWORD),
            ("offset_high", wintypes.DWORD),
            ("event", wintypes.HANDLE),
        )

    def _lock(descriptor: int, *, exclusive: bool) -> bool:
        handle = wintypes.HANDLE(msvcrt.get_osfhandle(descriptor))
        flags = _FAIL_IMMEDIATELY | (_EXCLUSIVE if exclusive else 0)
        if _kernel.LockFileEx(handle, flags, 0, 1, 0, ctypes.byref(_Overlapped(offset=_WINDOWS_BYTE))):
            return True
        error = ctypes.get_last_error()
        if error in _TAKEN:
            return False
        raise ctypes.WinError(error)

    def _unlock(descriptor: int) -> None:
        handle = wintypes.HANDLE(msvcrt.get_osfhandle(descriptor))
        if not _kernel.UnlockFileEx(handle, 0, 1, 0, ctypes.byref(_Overlapped(offset=_WINDOWS_BYTE))):
            raise ctypes.WinError(ctypes.get_last_error())

else:
    import fcntl

    def _lock(descriptor: int, *, exclusive: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


_all_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _forget_all_in_child() -> None:
    for lock in list(_all_locks):
        lock._forget_in_child()  # noqa: SLF001 (the same module)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all_in_child)
