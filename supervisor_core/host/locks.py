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
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from supervisor_core.common.errors import TemporaryError
from supervisor_core.host.descriptors import PRIVATE_FILE
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identify, state

LOOK_AGAIN_SECONDS = 0.02  # while waiting for a lock; the system can wait for one, but not with a time limit
HINT_BYTES = 4096


class Holder(NamedTuple):
    """The holder of a lock, as far as the file says."""

    identity: ProcessIdentity
    purpose: str
    since: str

    def __str__(self) -> str:
        return f"pid {self.identity.pid}{', ' if self.purpose else ''}{self.purpose}, since {self.since}"


class LockedError(TemporaryError):
    """Another process holds the lock."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        self.path = path
        self.holder = holder
        by = f"held by {holder}" if holder else "held by another process"
        super().__init__(f"{path.name} is {by}.", remedy="Wait until it's done, or stop that process.")


class FileLock:
    """An advisory lock on a file, exclusive or shared.

    Started programs don't inherit it: the descriptor closes on exec. A program that replaces itself by `exec` can
    `keep` it, and `resume` it after. One object is for one thread; two objects exclude each other like two processes.
    """

    def __init__(self, path: str | Path, purpose: str = "") -> None:
        self.path = Path(path)
        self.purpose = purpose
        self._descriptor: int | None = None
        self._exclusive = False

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

    def _try(self, *, exclusive: bool) -> bool:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.path, flags, PRIVATE_FILE)
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
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def _write_hint(self, descriptor: int) -> None:
        since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        hint = {"pid": os.getpid(), "start": 0, "boot_id": "", "purpose": self.purpose, "since": since}
        with contextlib.suppress(OSError):  # a lock is good without its hint, also on a full disk
            if identity := identify(os.getpid()):
                hint |= {"start": identity.start, "boot_id": identity.boot_id}
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, json.dumps(hint).encode())

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
        """The last exclusive holder that is still alive; None if the file doesn't say."""
        try:
            with self.path.open("rb") as file:
                hint = json.loads(file.read(HINT_BYTES))
            identity = ProcessIdentity(int(hint["pid"]), int(hint["start"]), str(hint["boot_id"]))
            holder = Holder(identity, str(hint["purpose"]), str(hint["since"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None  # nobody wrote, or is just writing
        return None if state(identity).ended else holder

    def __enter__(self) -> Self:
        return self if self.held else self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


if sys.platform == "win32":
    import msvcrt

    _READERS = 1024
    _FIRST_BYTE = 1 << 30  # far behind the hint, since a locked byte can't be read

    def _lock(descriptor: int, *, exclusive: bool) -> bool:
        """A reader locks one byte and a writer all of them, because there is no shared kind."""
        for reader in range(1 if exclusive else _READERS):
            os.lseek(descriptor, _FIRST_BYTE + reader, os.SEEK_SET)
            with contextlib.suppress(OSError):
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, _READERS if exclusive else 1)
                return True
        return False

    def _unlock(_: int) -> None:
        """Do nothing: closing the file releases the lock."""

else:
    import fcntl

    def _lock(descriptor: int, *, exclusive: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a program that is just being started may still have the file open
