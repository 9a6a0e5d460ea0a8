"""The structured log is read backwards, across its files, and as it grows; its lines are searched and shown."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.cli.logs import LEVELS, LogLayout, LogSearch
from supervisor_core.host.logging import events as event_files
from supervisor_core.host.logging import log as logs
from supervisor_core.host.logging.events import BLOCK_BYTES, EventFiles


def raw(message: str, **fields: Any) -> bytes:
    """A line as the supervisor writes it."""
    usual = {
        "timestamp": "2026-02-05T14:30:15.234Z",
        "level": "INFO",
        "event": "log",
        "message": message,
        "logger": "supervisor_core.under_test",
        "worker_id": None,
        "task_id": None,
        "label": None,
    }
    return json.dumps({**usual, **fields}).encode()


def at(minute: int, message: str, **fields: Any) -> bytes:
    return raw(message, timestamp=f"2026-02-05T14:{minute:02d}:00.000Z", **fields)


def put(folder: Path, end: str, *lines: bytes) -> None:
    """Append to `events.jsonl` (`end` empty) or to one that was rotated away."""
    with (folder / f"events.jsonl{end}").open("ab") as file:
        file.writelines(line + b"\n" for line in lines)


def rotate(folder: Path, keep: int = 5) -> None:
    """As the writer does it: the oldest first, each to the next number."""
    (folder / f"events.jsonl.{keep}").unlink(missing_ok=True)
    for number in range(keep - 1, 0, -1):
        old = folder / f"events.jsonl.{number}"
        if old.exists():
            old.rename(folder / f"events.jsonl.{number + 1}")
    if (folder / "events.jsonl").exists():
        (folder / "events.jsonl").rename(folder / "events.jsonl.1")


def all_of(folder: Path, *, unfinished: bool = True) -> list[bytes]:
    return list(EventFiles(str(folder)).newest_first(unfinished=unfinished))


def messages(search: LogSearch, lines: list[bytes], most: int = 50) -> list[str]:
    return [line.message for line in search.newest(reversed(lines), most)]


def test_the_newest_line_comes_first_and_the_files_in_their_order(tmp_path: Path) -> None:
    put(tmp_path, ".10", b"1")
    put(tmp_path, ".2", b"2", b"3")
    put(tmp_path, ".1", b"4")
    put(tmp_path, "", b"5", b"6")
    assert all_of(tmp_path) == [b"6", b"5", b"4", b"3", b"2", b"1"]


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=12),
    block=st.integers(1, 9),
)
def test_wherever_a_block_ends_the_lines_are_whole(lines: list[bytes], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_files, "BLOCK_BYTES", block)
        content = b"".join(line + b"\n" for line in lines)
        found = list(event_files._backwards(io.BytesIO(content), len(content)))  # noqa: SLF001 (the heart of it)
        assert [line for line in found if line] == [line for line in reversed(lines) if line]


class Counted(io.FileIO):
    """A file that knows how much of all of them was read."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> Any:
        data = super().read(size)
        Counted.read_bytes += len(data or b"")
        return data


def test_the_newest_of_large_files_are_found_without_reading_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for end in ("", ".1", ".2"):
        (tmp_path / f"events.jsonl{end}").write_bytes((raw("x" * 100) + b"\n") * 20_000)
    monkeypatch.setattr(event_files, "open", Counted, raising=False)
    Counted.read_bytes = 0
    assert len(LogSearch().newest(EventFiles(str(tmp_path)).newest_first(unfinished=True), 50)) == 50
    assert 0 < Counted.read_bytes < 3 * BLOCK_BYTES  # its last line end, its head, and its last lines


def test_what_is_rotated_while_it_is_read_comes_once_and_nothing_is_missed(tmp_path: Path) -> None:
    put(tmp_path, ".1", b"1", b"2")
    put(tmp_path, "", b"3", b"4")
    files = EventFiles(str(tmp_path))
    lines = files.newest_first(unfinished=False)
    found = [next(lines)]
    rotate(tmp_path)
    put(tmp_path, "", b"5")
    found += lines
    assert found == [b"4", b"3", b"2", b"1"]
    assert files.new_lines() == [b"5"]


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"1\nbeg")
    files = EventFiles(str(tmp_path))
    assert list(files.newest_first(unfinished=False)) == [b"1"]
    assert files.new_lines() == []
    put(tmp_path, "", b"un")
    assert files.new_lines() == [b"begun"]


@pytest.mark.parametrize("rotations", [1, 2, 4])
def test_it_follows_across_rotations_whatever_happened_between_two_looks(tmp_path: Path, rotations: int) -> None:
    put(tmp_path, "", b"old")
    files = EventFiles(str(tmp_path))
    list(files.newest_first(unfinished=False))
    expected = []
    for number in range(rotations):
        put(tmp_path, "", b"before %d" % number)
        rotate(tmp_path)
        put(tmp_path, "", b"after %d" % number)
        expected += [b"before %d" % number, b"after %d" % number]
    assert (files.new_lines(), files.new_lines()) == (expected, [])


def test_between_the_two_halves_of_a_rotation_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    put(tmp_path, "", b"1")
    rotate(tmp_path)  # the new file is not there yet
    files = EventFiles(str(tmp_path))
    assert list(files.newest_first(unfinished=False)) == [b"1"]
    assert files.new_lines() == []
    put(tmp_path, "", b"2")
    assert files.new_lines() == [b"2"]
    put(tmp_path, "", b"3")
    rotate(tmp_path)
    assert files.new_lines() == [b"3"]


def test_a_file_that_is_rotated_between_two_openings_does_not_come_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "", b"1")
    files = EventFiles(str(tmp_path))
    list(files.newest_first(unfinished=False))
    rotate(tmp_path)
    put(tmp_path, "", b"2")

    def rotated_behind(path: str, mode: str) -> Any:
        file = Path(path).open(mode)  # noqa: SIM115 (whoever asked for it closes it)
        if path.endswith(".jsonl"):
            rotate(tmp_path)
        return file

    with monkeypatch.context() as patch:
        patch.setattr(event_files, "open", rotated_behind, raising=False)
        assert files.new_lines() == [b"2"]
    put(tmp_path, "", b"3")
    assert files.new_lines() == [b"3"]


def test_where_the_file_was_removed_the_older_ones_do_not_come_again(tmp_path: Path) -> None:
    put(tmp_path, ".1", b"1")
    os.utime(tmp_path / "events.jsonl.1", (0, 0))
    put(tmp_path, "", b"2")
    files = EventFiles(str(tmp_path))
    assert list(files.newest_first(unfinished=False)) == [b"2", b"1"]
    (tmp_path / "events.jsonl").unlink()
    assert files.new_lines() == []


def test_a_file_that_was_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    put(tmp_path, "", b"a long line")
    files = EventFiles(str(tmp_path))
    list(files.newest_first(unfinished=False))
    (tmp_path / "events.jsonl").write_bytes(b"new\n")
    assert files.new_lines() == [b"new"]


def test_what_the_log_writes_is_read_back_whole_across_its_rotations(tmp_path: Path) -> None:
    """The real writer, rotating every few lines, and a reader that looks now and then."""
    handlers = logs.set_up(tmp_path, "supervisor.log", "INFO", 2_000, 5, to_stderr=False)
    files = EventFiles(str(tmp_path))
    search = LogSearch()
    found = search.newest(files.newest_first(unfinished=False), 50)
    log = logging.getLogger("supervisor_core.under_test")
    try:
        for number in range(200):
            log.info("line %d", number)
            if number % 7 == 0:
                found += search.matching(files.new_lines())
        found += search.matching(files.new_lines())
    finally:
        logs.tear_down(handlers)
    assert [line.message for line in found] == [f"line {number}" for number in range(200)]
    assert (tmp_path / "events.jsonl.5").exists()


def test_the_newest_that_fit_come_oldest_first() -> None:
    assert messages(LogSearch(), [raw(f"{number}") for number in range(9)], 3) == ["6", "7", "8"]
    assert messages(LogSearch(), [raw("one")], 0) == []


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_means_this_and_worse(level: str) -> None:
    lines = [raw(each, level=each) for each in LEVELS]
    assert messages(LogSearch(level=level), lines) == list(LEVELS[LEVELS.index(level) :])


def test_a_moment_means_from_then_on() -> None:
    lines = [at(minute, str(minute)) for minute in (10, 20, 30)]
    assert messages(LogSearch(since="2026-02-05T14:20:00.000Z"), lines) == ["20", "30"]


def test_a_worker_means_its_lines_and_those_of_its_tasks() -> None:
    lines = [
        raw("before", task_id="t1"),
        raw("mine", worker_id="OrionMX", task_id="t1"),
        raw("after", task_id="t1", level="ERROR"),
        raw("another's", worker_id="West", task_id="t1"),
        raw("another task", task_id="t2"),
        raw("of nobody"),
        raw("also mine", worker_id="OrionMX"),
    ]
    assert messages(LogSearch("OrionMX"), lines) == ["before", "mine", "after", "also mine"]
    assert messages(LogSearch("OrionMX", level="ERROR"), lines) == ["after"]
    assert [line.message for line in LogSearch("OrionMX").matching(lines)] == ["mine", "after", "also mine"]


BROKEN = {
    "cut": raw("cut")[:40],
    "zeros after a power cut": b"\0" * 100,
    "no UTF-8": b'{"timestamp": "\xff"}',
    "no object": b"[1, 2]",
    "no time": b'{"level": "INFO", "message": "x"}',
    "a number for a time": b'{"timestamp": 1, "level": "INFO", "message": "x"}',
    "a list for a worker": b'{"timestamp": "1", "level": "INFO", "message": "x", "worker_id": []}',
    "as deep as the sea": b"[" * 100_000,
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_left_out_and_counted(line: bytes) -> None:
    search = LogSearch()
    assert messages(search, [raw("one"), line, raw("two")]) == ["one", "two"]
    assert search.damaged == 1


@pytest.mark.parametrize("half", [raw("cut")[:40], b"\0" * 512])
def test_the_line_right_behind_a_half_one_is_not_lost_with_it(half: bytes) -> None:
    search = LogSearch()
    whole = raw('its message has {"timestamp" in it')
    (found,) = search.newest([half + whole], 50)
    assert (found.text, search.damaged) == (whole.decode(), 1)


def shown(*lines: bytes, colored: bool = False) -> list[str]:
    return LogLayout(colored=colored).lines(LogSearch().matching(lines))


def test_a_line_for_people_has_time_level_worker_task_and_message() -> None:
    """The snapshot of its form: columns as wide as what they hold."""
    assert shown(
        raw("supervisor TestHost is up, pid 4711"),
        raw("pause of OrionMX failed: it is stuck", level="ERROR", worker_id="OrionMX", task_id="night_001"),
    ) == [
        "2026-02-05 14:30:15.234Z  INFO     -        -          supervisor TestHost is up, pid 4711",
        "2026-02-05 14:30:15.234Z  ERROR    OrionMX  night_001  pause of OrionMX failed: it is stuck",
    ]


@pytest.mark.parametrize("field", ["message", "worker_id", "task_id", "level", "timestamp"])
def test_control_characters_are_shown_and_not_obeyed(field: str) -> None:
    (line,) = shown(raw(**{"message": "m", field: "a\n\x1b[2J\r\x07\u202e\ud800b"}), colored=True)
    assert r"a\n\x1b[2J\r\x07\u202e\ud800b" in line
    assert line.isprintable()


@pytest.mark.parametrize(
    ("level", "colored"), [("INFO", False), ("WARNING", True), ("ERROR", True), ("CRITICAL", True)]
)
def test_what_is_worse_than_information_has_a_colour(level: str, colored: bool) -> None:
    (line,) = shown(raw("m", level=level), colored=True)
    assert ("\x1b[" in line, line.count("\x1b[0m")) == (colored, int(colored))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    handlers = logs.set_up(tmp_path, "supervisor.log", "INFO", 10**6, 2, to_stderr=False)
    yield tmp_path
    logs.tear_down(handlers)


def test_what_is_logged_about_a_job_names_its_worker_in_the_structured_twin_alone(home: Path) -> None:
    log = logging.getLogger("supervisor_core.under_test")
    with logs.worker_context("OrionMX"):
        log.info("of the pass")
        with logs.command_context("t1", "hotfix", "West"):
            log.info("of the job")
            log.info("of another", extra={"worker_id": "North"})
        with logs.command_context("t2", None):
            log.info("of a job in it")
    log.info("of nobody")
    events = [json.loads(line) for line in (home / "events.jsonl").read_text().splitlines()]
    assert [event["worker_id"] for event in events] == ["OrionMX", "West", "North", "OrionMX", None]
    assert [event["task_id"] for event in events] == [None, "t1", "t1", "t2", None]
    text = (home / "supervisor.log").read_text()
    assert not any(name in text for name in ("OrionMX", "West", "North"))
