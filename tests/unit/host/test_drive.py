"""The drive and its threads: what hangs is left alone, what waits behind it fails at once, and it may come back."""

from __future__ import annotations

import contextvars
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from supervisor_core.common import threads as pools
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.host import drive_files
from supervisor_core.host.drive import Drive, DriveUnavailable
from tests.support.waiting import wait_until

SOON = 0.05


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    return Drive(tmp_path, timeout_seconds=5)


def hang(drive: Drive, release: threading.Event) -> None:
    with pytest.raises(DriveUnavailable, match=r"didn't respond within 0\.05 s"):
        drive.call(release.wait, timeout=SOON)


def test_a_call_gives_what_the_work_gives_or_raises(drive: Drive) -> None:
    assert drive.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        drive.call(divmod, 7, 0)
    with pytest.raises(FileNotFoundError):
        drive.call(os.stat, "/nowhere/at/all")
    assert not drive.hangs


def test_a_timeout_of_the_file_system_itself_is_its_own_error(drive: Drive) -> None:
    def timed_out() -> None:
        raise TimeoutError(110, "Connection timed out")

    with pytest.raises(OSError, match="Connection timed out"):
        drive.call(timed_out)
    assert not drive.hangs


def test_while_one_call_hangs_others_fail_at_once_and_are_not_begun(drive: Drive) -> None:
    release, begun = threading.Event(), threading.Event()
    hang(drive, release)
    assert drive.hangs
    before = time.monotonic()
    with pytest.raises(DriveUnavailable, match="hangs") as caught:
        drive.call(begun.set)
    assert time.monotonic() - before < 1
    assert caught.value.retryable
    assert not begun.is_set()
    release.set()


def test_calls_that_wait_for_a_thread_fail_with_the_first_that_times_out(tmp_path: Path) -> None:
    """A frozen drive fills all threads, and those behind must not wait for their own deadlines as well."""
    drive, release, ran = Drive(tmp_path, timeout_seconds=60, threads=2), threading.Event(), threading.Event()
    failed: list[DriveUnavailable] = []

    def use(work: Callable[[], object]) -> None:
        try:
            drive.call(work)
        except DriveUnavailable as error:
            failed.append(error)

    def freeze() -> bool:
        entered.set()
        return release.wait()

    frozen = threading.Thread(target=use, args=(release.wait,))
    waiting = [threading.Thread(target=use, args=(ran.set,)) for _ in range(5)]
    entered = threading.Event()
    with ThreadPoolExecutor(1) as first:
        timing_out = first.submit(drive.call, freeze, timeout=0.5)
        assert entered.wait(5)
        for thread in (frozen, *waiting):
            thread.start()
        assert isinstance(timing_out.exception(10), DriveUnavailable)
    for thread in waiting:
        thread.join(5)
        assert not thread.is_alive()
    assert len(failed) == len(waiting)
    release.set()
    frozen.join(5)
    wait_until(lambda: not drive.hangs, 5, "the calls came back")
    assert drive.call(lambda: 7) == 7
    assert not ran.is_set(), "what was given up is not done later"


def test_once_it_comes_back_calls_go_through_again(drive: Drive) -> None:
    release = threading.Event()
    hang(drive, release)
    release.set()
    wait_until(lambda: not drive.hangs, 5, "the call came back")
    assert drive.call(lambda: 7) == 7


def test_a_call_that_could_not_begin_is_taken_back(tmp_path: Path) -> None:
    drive = Drive(tmp_path, timeout_seconds=5, threads=1)
    release, entered, begun = threading.Event(), threading.Event(), threading.Event()

    def slow() -> bool:
        entered.set()
        return release.wait()

    first = threading.Thread(target=drive.call, args=(slow,))
    first.start()
    assert entered.wait(5)
    with pytest.raises(DriveUnavailable):
        drive.call(begun.set, timeout=SOON)
    assert not drive.hangs, "nothing of it was begun, and the first one is not late yet"
    release.set()
    first.join()
    assert drive.call(lambda: 7) == 7
    assert not begun.is_set(), "what was given up is not done later"


def test_a_drive_that_is_not_there_is_an_error_and_is_never_made(tmp_path: Path) -> None:
    root = tmp_path / "mount"
    drive = Drive(root)
    for use in (drive.check, lambda: drive.make_folder(root / "logs" / "workers")):
        with pytest.raises(DriveUnavailable, match="isn't a folder"):
            use()
    assert not root.exists()
    root.touch()
    with pytest.raises(DriveUnavailable):
        drive.check()
    root.unlink()
    root.mkdir()
    drive.make_folder(root / "logs" / "workers")
    drive.make_folder(root / "logs" / "workers")
    assert (root / "logs" / "workers").is_dir()
    (root / "logs" / "workers").rmdir()
    (root / "logs").rmdir()
    root.rmdir()
    with pytest.raises(DriveUnavailable):
        drive.check()


def test_idle_threads_end_and_calls_still_find_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls come while threads are about to end, so that the count of free threads is put to the test."""
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.002)
    threads = DaemonThreads("idle-pool-under-test", 4)

    def alive() -> int:
        return sum(thread.name == "idle-pool-under-test" for thread in threading.enumerate())

    def many() -> None:
        for number in range(300):
            threads.submit(int).result(5)
            time.sleep(0.002 * (number % 3 == 0))

    callers = [threading.Thread(target=many) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    wait_until(lambda: not alive(), 5, "all of them end")
    release = threading.Event()
    hanging = [threads.submit(release.wait) for _ in range(3)]
    assert threads.submit(lambda: 7).result(5) == 7
    release.set()
    assert all(future.result(5) for future in hanging)
    wait_until(lambda: not alive(), 5, "these, too")


def test_a_call_sees_the_context_of_its_caller_and_a_cancelled_one_is_not_run() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")
    threads = DaemonThreads("pool-under-test", 1)
    variable.set("mine")
    assert threads.submit(variable.get).result(5) == "mine"
    release, ran = threading.Event(), threading.Event()
    first, second = threads.submit(release.wait), threads.submit(ran.set)
    assert second.cancel()
    release.set()
    assert first.result(5)
    assert threads.submit(lambda: 7).result(5) == 7
    assert not ran.is_set()


def test_a_hanging_call_does_not_keep_the_program_from_ending() -> None:
    code = (
        "import threading; from pathlib import Path; from supervisor_core.host.drive import *\n"
        "try: Drive(Path('.')).call(threading.Event().wait, timeout=0.01)\n"
        "except DriveUnavailable: print('given up')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, b"given up\n"), done.stderr


def test_a_slow_drive_gets_the_files_that_it_has_time_for(tmp_path: Path) -> None:
    """Else each call would begin all of them again, and its own deadline would come before the first was finished."""
    files = [(f"{number}.json", b"{}") for number in range(20)]
    errors = drive_files.write_all(tmp_path, tmp_path, files, 0o640, seconds=0.0)
    assert 0 < len(errors) < len(files)
    assert {path.name for path in tmp_path.iterdir()} == {name for name, _ in files[: len(errors)]}
