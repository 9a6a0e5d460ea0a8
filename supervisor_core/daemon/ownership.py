"""The owner of a state folder: one daemon, or passes side by side. The operating system's lock is the truth.

`supervisor.lock` is the daemon's for as long as it lives. `passes.lock` is shared by passes; a daemon that starts takes
it alone, and so waits for passes under way while new ones see it coming. `runtime.json` is only metadata.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.times import to_text
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.files import read_json, write_json
from supervisor_core.host.locks import FileLock, LockedError

DAEMON_LOCK, PASSES_LOCK = "supervisor.lock", "passes.lock"
RUNTIME_FILE = "runtime.json"
PASS_WAIT_SECONDS = 60.0
"""Longest wait of a starting daemon for a pass: a stop of 30 s and some git or database work fit in."""

LOOK_SECONDS = 1.0
"""Longest wait of a starting daemon for readers; reading takes less than a millisecond."""

KEPT_LOCK = "SUPERVISOR_KEPT_LOCK"
"""The variable in which a daemon that restarts in place hands its lock over. Nobody else can own the folder meanwhile:
another daemon wouldn't be the parent of the workers."""


class AlreadyRunningError(SupervisorError):
    """A supervisor is already running."""


class BusyError(SupervisorError):
    """Another process is already doing this. Nothing was done."""


@contextmanager
def daemon_ownership(state_dir: Path, wait_seconds: float = PASS_WAIT_SECONDS, remedy: str = "") -> Iterator[FileLock]:
    """Be the one daemon of this state folder, and hold its lock."""
    with ExitStack() as locks:
        daemon = FileLock(state_dir / DAEMON_LOCK, "the supervisor")
        kept_fd = os.environ.pop(KEPT_LOCK, "")
        try:
            if not (kept_fd.isdecimal() and daemon.resume(int(kept_fd))):
                try:
                    daemon.acquire()
                except LockedError as error:
                    if error.holder is not None:
                        raise
                    daemon.acquire(timeout=LOOK_SECONDS)  # a reader (`status`, a pass) holds it only for a moment
            locks.enter_context(daemon)
        except LockedError as error:
            pid = f" (pid {error.holder.identity.pid})" if error.holder else ""
            message = f"supervisor already running{pid}"
            raise AlreadyRunningError(f"{message}." if remedy else message, remedy=remedy) from None
        try:
            locks.enter_context(FileLock(state_dir / PASSES_LOCK, "the supervisor").acquire(timeout=wait_seconds))
        except LockedError:
            raise BusyError(f"A pass is still running after {wait_seconds:g} s. Try again when it's done.") from None
        yield daemon


@contextmanager
def pass_ownership(state_dir: Path, worker_id: str) -> Iterator[None]:
    """Be the one pass for this worker, beside passes for others and beside no daemon."""
    with ExitStack() as locks:
        try:
            FileLock(state_dir / DAEMON_LOCK).acquire(exclusive=False).release()
            locks.enter_context(FileLock(state_dir / PASSES_LOCK).acquire(exclusive=False))
        except LockedError as error:
            holder = f" ({error.holder})" if error.holder else ""
            raise BusyError(f"The daemon supervises {worker_id}{holder}. This pass did nothing.") from None
        locks.enter_context(worker_ownership(state_dir, worker_id))
        yield


@contextmanager
def worker_ownership(state_dir: Path, worker_id: str) -> Iterator[None]:
    """In a pass: be the only one that does something for this worker."""
    locks = state_dir / "locks"
    locks.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    try:
        lock = FileLock(locks / f"worker_{worker_id}.lock", f"a pass for {worker_id}").acquire()
    except LockedError as error:
        holder = f" ({error.holder})" if error.holder else ""
        raise BusyError(f"Another pass for {worker_id} is running{holder}. This one did nothing.") from None
    with lock:
        yield


def daemon_lock_error(state_dir: Path) -> LockedError | None:
    """The error of who tries to take the daemon's lock, with its holder; None without a daemon."""
    try:
        FileLock(state_dir / DAEMON_LOCK).acquire(exclusive=False).release()
    except LockedError as error:
        return error
    return None


def daemon_holder(state_dir: Path) -> int | None:
    """The pid of the daemon that owns the folder; 0 if it is unknown, None without a daemon."""
    error = daemon_lock_error(state_dir)
    if error is None:
        return None
    return error.holder.identity.pid if error.holder else 0


def write(state_dir: Path, document: Mapping[str, Any]) -> None:
    """Write `runtime.json`; the daemon alone does."""
    write_json(state_dir / RUNTIME_FILE, dict(document))


def read(state_dir: Path) -> Mapping[str, Any]:
    """The last status in `runtime.json`; empty if there is none."""
    return read_json(state_dir / RUNTIME_FILE, tolerant=True) or {}


def record_stop(state_dir: Path, pid: int) -> None:
    """Record that the daemon with this pid was stopped, if it couldn't do so itself. Another one isn't touched."""
    try:
        with FileLock(state_dir / DAEMON_LOCK, "recording a stop").acquire(timeout=LOOK_SECONDS):
            document = read(state_dir)
            if document.get("running") and document.get("pid") == pid:
                write(state_dir, {**document, "running": False, "stopped_at": to_text(datetime.now(UTC))})
    except LockedError:
        pass  # a new daemon runs, and writes its own
