"""Locks that die with their process, and name who holds them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor_core.host.locks import FileLock, LockedError

Hold = Callable[[Path], "subprocess.Popen[str]"]

HOLD = """
import sys
from supervisor_core.host.locks import FileLock
with FileLock(sys.argv[1], "a pass for OrionMX"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "supervisor.lock"


@pytest.fixture
def holding() -> Iterator[Hold]:
    """Processes that hold a lock until they are told to let it go; ended whatever happens."""
    running: list[subprocess.Popen[str]] = []

    def hold(path: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in running:
        process.kill()
        process.communicate()


def test_two_objects_exclude_each_other_and_the_loser_hears_who_holds_it(path: Path) -> None:
    with FileLock(path, "a pass for OrionMX"), pytest.raises(LockedError) as caught:
        FileLock(path).acquire()
    assert f"held by pid {os.getpid()}, a pass for OrionMX, since 20" in str(caught.value)
    assert caught.value.retryable


def test_a_lock_given_back_can_be_taken_again_and_names_nobody(path: Path) -> None:
    lock = FileLock(path, "earlier")
    with lock:
        assert lock.holder() is not None
    assert lock.holder() is None
    with FileLock(path) as later:
        assert later.held


def test_readers_share_it_and_a_writer_waits_for_them(path: Path) -> None:
    first, second = FileLock(path).acquire(exclusive=False), FileLock(path).acquire(exclusive=False)
    with first, second, pytest.raises(LockedError):
        FileLock(path).acquire()
    with FileLock(path), pytest.raises(LockedError):
        FileLock(path).acquire(exclusive=False)


def test_it_excludes_another_process_which_is_named(path: Path, holding: Hold) -> None:
    process = holding(path)
    with pytest.raises(LockedError, match=rf"held by pid {process.pid}, a pass for OrionMX, since "):
        FileLock(path).acquire()


def test_it_dies_with_its_process_and_the_dead_is_named_no_more(path: Path, holding: Hold) -> None:
    process = holding(path)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    lock = FileLock(path)
    assert lock.holder() is None
    with lock:
        assert lock.held


def test_who_waits_gets_it_when_it_is_given_back(path: Path) -> None:
    first = FileLock(path).acquire()
    got = threading.Event()

    def wait() -> None:
        with FileLock(path).acquire(timeout=10):
            got.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    first.release()
    waiting.join()
    assert got.is_set()


@pytest.mark.parametrize("hint", [b"", b"{", b"[]", b'{"pid": 1}', b'{"pid": "x", "start": 1}', b"\xff"])
def test_a_hint_that_makes_no_sense_names_nobody_and_holds_nobody_up(path: Path, hint: bytes) -> None:
    path.write_bytes(hint)
    lock = FileLock(path)
    assert lock.holder() is None
    with lock:
        assert lock.holder() is not None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_full_disk_keeps_nobody_from_a_lock(path: Path) -> None:
    code = """
import resource, signal, sys
from supervisor_core.host.locks import FileLock, LockedError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
with FileLock(sys.argv[1]):
    try:
        FileLock(sys.argv[1]).acquire()
    except LockedError:
        sys.exit(0)
sys.exit(1)
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)


def test_a_lock_file_cleaned_away_does_not_let_two_in(path: Path) -> None:
    first = FileLock(path).acquire()
    path.unlink()
    second = FileLock(path).acquire()
    with pytest.raises(LockedError):
        FileLock(path).acquire()
    second.release()
    first.release()


def test_a_link_in_place_of_the_lock_file_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        FileLock(path).acquire()
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_a_started_program_does_not_inherit_it(path: Path) -> None:
    with FileLock(path):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
        )
    try:
        with FileLock(path):
            assert child.poll() is None
    finally:
        child.communicate()


def test_many_processes_at_once_are_never_two_inside(path: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    code = """
import os, sys
from supervisor_core.host.locks import FileLock
for _ in range(20):
    with FileLock(sys.argv[1]).acquire(timeout=30):
        os.close(os.open(sys.argv[2], os.O_CREAT | os.O_EXCL))
        os.unlink(sys.argv[2])
"""
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(inside)], stderr=subprocess.PIPE) for _ in range(4)
    ]
    said = [run.communicate(timeout=60)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0, 0], said
