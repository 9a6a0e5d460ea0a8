"""Who owns a state folder: a daemon, or passes side by side. The holder is named; who only looks holds up nobody."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from supervisor_core.daemon.ownership import (
    DAEMON_LOCK,
    AlreadyRunningError,
    BusyError,
    daemon_holder,
    daemon_ownership,
    pass_ownership,
)
from supervisor_core.host.locks import FileLock
from tests.support.programs.warm import forked
from tests.support.waiting import wait_until

FORKED = forked()


def own(folder: Path, worker_id: str, told: Connection) -> None:
    ownership: AbstractContextManager[object] = (
        pass_ownership(folder, worker_id) if worker_id else daemon_ownership(folder)
    )
    with ownership:
        told.send("held")
        told.poll(60)


@contextmanager
def elsewhere(folder: Path, worker_id: str = "") -> Iterator[tuple[int, Callable[[], None]]]:
    """A daemon (or a pass for this worker) in another process: its PID, and what makes it go in a moment."""
    ours, theirs = FORKED.Pipe()
    process = FORKED.Process(target=own, args=(folder, worker_id, theirs))
    process.start()
    theirs.close()
    try:
        assert ours.poll(30)
        assert process.pid is not None
        yield process.pid, ours.close
    finally:
        ours.close()
        process.join(20)


def test_beside_a_daemon_there_is_no_other_and_no_pass_and_it_is_named(tmp_path: Path) -> None:
    with elsewhere(tmp_path) as (pid, _):
        assert daemon_holder(tmp_path) == pid
        with pytest.raises(AlreadyRunningError, match=rf"already running \(pid {pid}\)"), daemon_ownership(tmp_path):
            pass
        with (
            pytest.raises(BusyError, match=rf"daemon supervises OrionMX \(pid {pid}.*did nothing"),
            pass_ownership(tmp_path, "OrionMX"),
        ):
            pass
    assert daemon_holder(tmp_path) is None
    with daemon_ownership(tmp_path):
        assert daemon_holder(tmp_path) == os.getpid()


def test_a_daemon_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    with elsewhere(tmp_path) as (pid, _):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: daemon_holder(tmp_path) is None, 10, "it is gone")
        with daemon_ownership(tmp_path, 0):
            pass


def test_passes_for_different_workers_run_side_by_side_and_one_worker_has_one(tmp_path: Path) -> None:
    with elsewhere(tmp_path, "OrionMX") as (pid, _):
        with pass_ownership(tmp_path, "West"):
            pass
        with (
            pytest.raises(BusyError, match=rf"Another pass for OrionMX is running \(pid {pid}, a pass for OrionMX"),
            pass_ownership(tmp_path, "OrionMX"),
        ):
            pass
        assert daemon_holder(tmp_path) is None
    with pass_ownership(tmp_path, "OrionMX"):
        pass


def test_a_daemon_waits_for_a_pass_and_gives_up_in_words(tmp_path: Path) -> None:
    with elsewhere(tmp_path, "OrionMX") as (_, release):
        with pytest.raises(BusyError, match=r"still running after 0\.1 s\."), daemon_ownership(tmp_path, 0.1):
            pass
        assert daemon_holder(tmp_path) is None, "who gave up holds nothing"
        entered = threading.Event()

        def start() -> None:
            with daemon_ownership(tmp_path, 20):
                entered.set()

        starting = threading.Thread(target=start)
        starting.start()
        wait_until(lambda: daemon_holder(tmp_path), 10, "it has come so far")
        with pytest.raises(BusyError, match="daemon supervises West"), pass_ownership(tmp_path, "West"):
            pass  # a new pass sees it coming, so that it is not kept waiting for ever
        assert not entered.is_set()
        release()
        starting.join(20)
        assert entered.is_set()


def test_who_only_looks_does_not_keep_a_daemon_from_starting(tmp_path: Path) -> None:
    """`status` takes the lock, shared, for a moment; here the moment lasts until the daemon has met it."""
    looking = FileLock(tmp_path / DAEMON_LOCK).acquire(exclusive=False)
    gone = threading.Timer(0.1, looking.release)
    gone.start()
    try:
        with daemon_ownership(tmp_path, 0):
            pass
    finally:
        gone.join()


def test_the_locks_of_passes_are_private(tmp_path: Path) -> None:
    with pass_ownership(tmp_path, "OrionMX"):
        assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "locks" / "worker_OrionMX.lock").stat().st_mode & 0o777 == 0o600
