"""Captured output stays small while the worker writes on, and is delivered in order."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.processes.output import capture as worker_output
from supervisor_core.processes.output.capture import WorkerOutput
from supervisor_core.processes.output.files import cut_beginning, opened_output, read_output_end
from tests.support.processes.worker_outputs import a_folder_that_loses_nothing

LIMIT = 64 * 1024
LINE = "line {:08d} of what it prints\n"
LINE_BYTES = len(LINE.format(0))


class Writing:
    """A worker's descriptor, which it holds as long as it lives."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = itertools.count()

    def lines(self, count: int) -> None:
        os.write(self.descriptor, "".join(LINE.format(next(self._numbers)) for _ in range(count)).encode())

    def bytes(self, size: int) -> None:
        self.lines(size // LINE_BYTES + 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "North.log"


@pytest.fixture
def worker(path: Path) -> Iterator[Writing]:
    writing = Writing(path)
    yield writing
    os.close(writing.descriptor)


@pytest.fixture(params=["beginnings can be cut off", "files can only be emptied"])
def file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds, on whatever kind this is."""
    if request.param == "files can only be emptied":
        monkeypatch.setattr(worker_output, "cut_beginning", lambda *_: False)


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir() if not each.name.endswith(".json"))


def everything(path: Path) -> bytes:
    older = sorted(path.parent.glob(f"{path.name}.*"), key=lambda each: int(each.suffix[1:]), reverse=True)
    return b"".join(each.read_bytes() for each in (*older, path))


def numbers(data: bytes) -> list[int]:
    """The numbers of all whole lines."""
    whole = data[data.index(b"\n") + 1 : data.rindex(b"\n") + 1]
    return [int(line.split()[1]) for line in whole.decode().splitlines()]


def without_gap(found: list[int]) -> bool:
    return found == list(range(found[0], found[-1] + 1))


def deliver(output: WorkerOutput, most: int = 10_000) -> bytes:
    """All that waits, as a drive would get it."""
    got = b""
    while (piece := output.next_piece(most)) is not None:
        got += piece.payload
        output.delivered(piece)
    output.keep_progress()
    return got


def test_below_the_limit_nothing_is_touched(path: Path, worker: Writing) -> None:
    worker.bytes(LIMIT // 2)
    assert WorkerOutput(path).bound(LIMIT, 2)
    assert names(path) == ["North.log"]
    assert path.stat().st_size >= LIMIT // 2


@pytest.mark.usefixtures("file_system")
def test_a_full_file_becomes_the_newest_older_one_and_the_worker_goes_on_writing(path: Path, worker: Writing) -> None:
    output = WorkerOutput(path)
    for _ in range(40):
        worker.bytes(LIMIT // 5)
        assert output.bound(LIMIT, 2)
        assert path.stat().st_size <= LIMIT
    assert names(path) == ["North.log", "North.log.1", "North.log.2"]
    found = numbers(everything(path))
    assert without_gap(found)
    assert len(found) * LINE_BYTES >= 2 * LIMIT
    assert everything(path).endswith(LINE.format(found[-1]).encode())


@pytest.mark.usefixtures("file_system")
def test_of_one_that_grew_far_beyond_it_the_newest_part_is_kept(path: Path, worker: Writing) -> None:
    worker.bytes(30 * LIMIT)
    output = WorkerOutput(path)
    assert output.bound(LIMIT, 2)
    found = numbers(everything(path))
    assert without_gap(found)
    assert path.stat().st_size <= LIMIT
    assert 2 * LIMIT <= len(everything(path)) <= 3 * LIMIT + 4096
    assert b"bytes of output were lost here" in deliver(output)


def test_fewer_are_kept_where_fewer_are_configured_and_at_least_one(path: Path, worker: Writing) -> None:
    output = WorkerOutput(path)
    for backups, kept in ((3, 3), (1, 1), (0, 1)):
        for _ in range(5):
            worker.bytes(LIMIT)
            output.bound(LIMIT, backups)
        assert names(path) == ["North.log", *(f"North.log.{number + 1}" for number in range(kept))]


@pytest.mark.usefixtures("file_system")
def test_all_is_delivered_once_and_in_order_across_cuts_and_restarts(path: Path, worker: Writing) -> None:
    got = b""
    for _ in range(30):
        worker.bytes(LIMIT // 3)
        output = WorkerOutput(path)  # as after a restart
        output.bound(LIMIT, 3)
        worker.lines(2)
        got += deliver(output)
    assert numbers(b"\n" + got) == list(range(len(got) // LINE_BYTES))
    assert WorkerOutput(path).next_piece(10) is None


def test_what_is_gone_before_the_drive_had_it_is_said(path: Path, worker: Writing) -> None:
    output = WorkerOutput(path)
    worker.lines(3)
    assert deliver(output) == "".join(LINE.format(each) for each in range(3)).encode()
    written = 3 * LINE_BYTES
    for _ in range(10):
        worker.bytes(LIMIT)
        written += (LIMIT // LINE_BYTES + 1) * LINE_BYTES
        output.bound(LIMIT, 2)
    kept = len(everything(path))
    marker, rest = deliver(output).split(b"\n", 1)
    assert marker == f"[supervisor] {written - kept - 3 * LINE_BYTES} bytes of output were lost here.".encode()
    assert rest == everything(path)


def test_a_piece_ends_with_a_line_where_it_can(path: Path, worker: Writing) -> None:
    output = WorkerOutput(path)
    worker.lines(10)
    os.write(worker.descriptor, b"no end yet")
    piece = output.next_piece(LINE_BYTES * 3 + 5)
    assert piece is not None
    assert len(piece.data) == LINE_BYTES * 3
    assert deliver(output).endswith(b"no end yet")


@pytest.mark.parametrize("reached", [0, 1, 700, None])
@pytest.mark.parametrize("lost", [False, True])
def test_an_attempt_whose_end_nobody_saw_is_neither_repeated_nor_forgotten(
    path: Path, worker: Writing, reached: int | None, lost: bool
) -> None:
    output = WorkerOutput(path)
    worker.bytes(LIMIT)
    if lost:
        for _ in range(4):
            output.bound(LIMIT, 1)
            worker.bytes(LIMIT)
    drive = b"from before\n"
    piece = output.next_piece(3000)
    assert piece is not None
    assert bool(piece.lost) is lost
    output.attempt(piece, len(drive), 1)
    drive += piece.payload[:reached]
    again = WorkerOutput(path)  # after a kill -9
    again.settle(len(drive), 1, drive[-again.attempted :])
    drive += deliver(again)
    assert drive.endswith(b"\n" + everything(path))
    assert drive.count(everything(path)[: 2 * LINE_BYTES]) == 1


@pytest.mark.parametrize("reached", [0, 700, None])
@pytest.mark.parametrize("before", [900_000, 3000 // LINE_BYTES * LINE_BYTES])
def test_an_attempt_is_recognized_in_a_drive_file_that_was_begun_anew(
    path: Path, worker: Writing, before: int, reached: int | None
) -> None:
    """Also where the new file has just the size of the one before."""
    output = WorkerOutput(path)
    worker.bytes(5000)
    piece = output.next_piece(3000)
    assert piece is not None
    output.attempt(piece, before, 1)
    again, there = WorkerOutput(path), piece.payload[:reached]
    again.settle(len(there), 2, there)
    assert there + deliver(again) == path.read_bytes()


def test_a_drive_file_that_somebody_altered_repeats_one_piece_and_loses_nothing(path: Path, worker: Writing) -> None:
    output = WorkerOutput(path)
    worker.bytes(5000)
    piece = output.next_piece(3000)
    assert piece is not None
    output.attempt(piece, 10, 1)
    again = WorkerOutput(path)
    again.settle(10 + len(piece.payload), 1, b"x" * len(piece.payload))
    assert deliver(again) == path.read_bytes()


@pytest.mark.usefixtures("file_system")
@pytest.mark.parametrize("step", range(12))
def test_a_cut_that_a_crash_interrupts_anywhere_loses_and_repeats_nothing(
    path: Path, worker: Writing, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Each system call that changes something on the disk is the last one in turn."""
    output = WorkerOutput(path)
    worker.bytes(LIMIT)
    output.bound(LIMIT, 2)
    worker.bytes(LIMIT)
    output.bound(LIMIT, 2)
    got = deliver(output)
    worker.bytes(LIMIT)
    left = step

    class Crashed(BaseException):
        pass

    def counted(name: str, real: object) -> object:
        def call(*arguments: object, **named: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crashed(name)
            return real(*arguments, **named)  # type: ignore[operator]

        return call

    with monkeypatch.context() as patched:
        for owner, name in ((os, "ftruncate"), (os, "write"), (Path, "replace"), (Path, "unlink")):
            patched.setattr(owner, name, counted(name, getattr(owner, name)))
        patched.setattr(worker_output, "cut_beginning", counted("cut", cut_beginning))
        try:
            output.bound(LIMIT, 2)
        except Crashed:
            pass
        else:
            assert step > 8, "every step was reached"
    worker.lines(3)
    again = WorkerOutput(path)
    again.bound(LIMIT, 2)
    got += deliver(again)
    assert numbers(b"\n" + got) == list(range(len(got) // LINE_BYTES))
    assert path.stat().st_size <= LIMIT
    assert without_gap(numbers(everything(path)))
    assert not list(path.parent.glob(".*"))


def test_damaged_notes_mean_that_all_is_delivered_once_more(path: Path, worker: Writing) -> None:
    worker.lines(5)
    deliver(WorkerOutput(path))
    for damage in ("", "[]", "{", '{"sent": -1}', '{"base": "x"}', '{"attempt": {"bytes": 1}}'):
        path.with_suffix(".json").write_text(damage)
        assert deliver(WorkerOutput(path)) == path.read_bytes()


def test_a_file_that_somebody_emptied_by_hand_is_delivered_from_there(path: Path, worker: Writing) -> None:
    output = WorkerOutput(path)
    worker.lines(5)
    deliver(output)
    os.truncate(path, 0)
    worker.lines(1)
    assert deliver(output) == path.read_bytes()


def test_a_full_disk_loses_older_output_and_the_worker_goes_on(
    path: Path, worker: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = WorkerOutput(path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    worker.bytes(3 * LIMIT)
    with monkeypatch.context() as patched:
        patched.setattr(worker_output, "_transfer", full)
        patched.setattr(worker_output, "write_progress", full)
        output.bound(LIMIT, 2)
    assert path.stat().st_size <= LIMIT
    worker.lines(1)
    assert b"bytes of output were lost here" in deliver(output)


def test_the_end_is_read_across_older_files(path: Path, worker: Writing) -> None:
    output = WorkerOutput(path)
    for _ in range(6):
        worker.bytes(LIMIT // 2)
        output.bound(LIMIT, 3)
    whole = everything(path)
    for most in (10, LIMIT, 2 * LIMIT, 100 * LIMIT):
        end = read_output_end(path, most)
        assert end.data == whole[-most:]
        assert end.cut == (most < len(whole))
    with pytest.raises(FileNotFoundError):
        read_output_end(path.with_name("South.log"), 10)


@pytest.mark.parametrize("what", ["link", "hard link", "pipe", "folder"])
def test_only_a_regular_file_of_our_own_is_opened(tmp_path: Path, path: Path, what: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious\n" * LIMIT)
    make: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(victim),
        "hard link": lambda: os.link(victim, path),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }
    make[what]()
    with pytest.raises((UnreadableFileError, OSError)), opened_output(path, os.O_RDONLY):
        pass
    with pytest.raises((UnreadableFileError, OSError)):
        WorkerOutput(path).bound(LIMIT, 2)
    assert victim.stat().st_size == 9 * LIMIT


WRITER = f"""
import sys, time
rate, seconds = float(sys.argv[1]), float(sys.argv[2])
begun, number = time.monotonic(), 0
while (passed := time.monotonic() - begun) < seconds:
    lines = []
    while number * {LINE_BYTES} < passed * rate:
        lines.append({LINE!r}.format(number))
        number += 1
    sys.stdout.write("".join(lines))
    sys.stdout.flush()
    time.sleep(0.001)
"""


def test_a_worker_that_writes_all_the_while_loses_nothing() -> None:
    """A process of its own, at 20 MB/s, and cut as often as possible."""
    with a_folder_that_loses_nothing() as folder:
        path, peak = folder / "North.log", 0
        with path.open("ab") as log:
            writer = subprocess.Popen([sys.executable, "-c", WRITER, "2e7", "1"], stdout=log)
        output = WorkerOutput(path)
        while writer.poll() is None:
            peak = max(peak, output.size)
            output.bound(LIMIT, 4)
            time.sleep(0.0005)
        found = numbers(everything(path))
    assert writer.returncode == 0
    assert peak > LIMIT
    assert without_gap(found)
    assert len(found) * LINE_BYTES > 3 * LIMIT


def test_whoever_reads_while_it_is_cut_sees_whole_lines_in_order(path: Path, worker: Writing) -> None:
    output, done = WorkerOutput(path), threading.Event()

    def write() -> None:
        for _ in range(300):
            worker.bytes(LIMIT // 8)
            output.bound(LIMIT, 2)
            time.sleep(0.001)
        done.set()

    worker.lines(10)
    writing = threading.Thread(target=write)
    writing.start()
    seen = []
    while not done.is_set():
        seen.append(numbers(read_output_end(path, LIMIT).data))
    writing.join()
    assert all(map(without_gap, seen))
