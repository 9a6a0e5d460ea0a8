"""Which lines of a log matter: the end of its last traceback, what was called an error, and nothing from last week."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.host.logging.excerpts import (
    LONGEST,
    MAX_LINES,
    NO_MEMORY,
    NO_SPACE,
    important_lines,
    last_error,
    lines_between,
    lines_of_run,
    newest_match,
    newest_run,
    start_line,
)

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "watcher.py", line 12, in <module>',
    "    read(archive)",
    "    ~~~~^^^^^^^^^",
]


def test_of_a_traceback_its_last_line_is_kept() -> None:
    lines = ["reading", *TRACEBACK, "ValueError: no such archive", "goodbye"]
    assert important_lines(lines) == ("ValueError: no such archive",)
    assert last_error(lines) == "ValueError: no such archive"


def test_of_a_chain_of_tracebacks_the_last_one_counts() -> None:
    lines = [
        *TRACEBACK,
        "KeyError: 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        *TRACEBACK,
        "shop.errors.OrderError: gone",
    ]
    assert last_error(lines) == "shop.errors.OrderError: gone"


def test_a_traceback_that_a_logger_moved_in_is_read_as_well() -> None:
    lines = [f"    {line}" for line in [*TRACEBACK, "OSError: [Errno 28] No space left on device"]]
    assert last_error(lines) == "OSError: [Errno 28] No space left on device"


def test_a_traceback_that_is_cut_off_says_nothing() -> None:
    assert last_error(TRACEBACK) == ""
    assert last_error([*TRACEBACK, "2026-02-05 ok"]) == ""


def test_lines_that_differ_by_figures_alone_are_told_once_and_the_newest_of_them() -> None:
    lines = [f"2026-02-05T14:2{number}:00Z ERROR archive {number} is locked" for number in range(9)]
    assert important_lines([*lines, "CRITICAL the index is broken"]) == (lines[-1], "CRITICAL the index is broken")


def test_what_is_known_to_be_older_than_the_trouble_is_left_out() -> None:
    lines = ["2026-01-29T14:30:00Z ERROR last week", *TRACEBACK, "ValueError: last week, too"]
    since = NOW - timedelta(minutes=1)
    assert important_lines(lines, since) == ()
    assert last_error(lines, since) == ""
    fresh = [*lines, "2026-02-05 14:25:00,123 +0000 ERROR just before"]
    assert important_lines(fresh, since) == ("2026-02-05 14:25:00,123 +0000 ERROR just before",)
    assert important_lines(["2026-01-29 14:30:00 ERROR of which zone?"], since) != (), "without a zone nobody knows"


def test_many_errors_are_cut_to_the_newest_with_the_end_of_the_traceback_among_them() -> None:
    lines = [*TRACEBACK, "ValueError: first of all", *(f"ERROR {'x' * number}" for number in range(40))]
    kept = important_lines(lines)
    assert len(kept) == MAX_LINES
    assert kept[0] == "ValueError: first of all"
    assert kept[-1] == lines[-1]


def test_words_that_only_look_like_errors_are_none() -> None:
    assert important_lines(["0 errors", "INFO terror", "no ERRORS here"]) == ()
    assert newest_match(["nothing", "write: No space left on device"], NO_SPACE) == "write: No space left on device"
    assert newest_match(["std::bad_alloc thrown"], NO_MEMORY) == "std::bad_alloc thrown"
    assert newest_match(["a MemoryErrorHandler is there"], NO_MEMORY) == ""


@given(st.lists(st.text() | st.sampled_from([*TRACEBACK, "ERROR x", "9999-12-31T23:59:59-23:59 ERROR"]), max_size=40))
def test_anything_can_be_in_a_log(lines: list[str]) -> None:
    kept = important_lines(lines, NOW)
    assert len(kept) <= MAX_LINES
    assert all(len(line) <= LONGEST and "\n" not in line for line in kept)
    assert len(last_error(lines, NOW)) <= LONGEST


FIRST, SECOND, THIRD = (start_line("North", f"2026-02-05T14:3{minute}:00.250Z") for minute in range(3))
STARTS = [NOW.replace(minute=minute, microsecond=250_000) for minute in range(30, 33)]


def test_each_run_has_the_lines_behind_its_start_line() -> None:
    lines = ["older", FIRST, "first", SECOND, "second", THIRD, "third"]
    assert lines_of_run(lines, STARTS[0], STARTS[1]) == ["first"]
    assert lines_of_run(lines, STARTS[2]) == ["third"]
    assert lines_of_run(lines[:-1], STARTS[2]) == [], "it has written nothing, and no other run's lines count"
    assert newest_run(lines) == ["third"]


def test_a_run_whose_start_line_was_cut_off_is_known_by_the_one_behind_it() -> None:
    assert lines_of_run(["second", THIRD, "third"], STARTS[1], STARTS[2]) == ["second"]
    assert lines_of_run(["second", THIRD, "third"], STARTS[0], STARTS[1]) == [], "its lines are gone"
    assert lines_of_run(["third", "and more"], STARTS[2]) == ["third", "and more"]
    assert lines_of_run(["third"], STARTS[1], STARTS[2]) == []


def test_what_only_looks_like_a_start_line_is_output() -> None:
    fakes = ["--- 2026-99-99T99:99:99Z starting North ---", f"INFO {SECOND}"]
    assert lines_of_run([FIRST, *fakes, "first"], STARTS[0]) == [*fakes, "first"]


def test_of_a_log_without_start_lines_those_with_a_time_in_the_run_count() -> None:
    lines = ["?", "2026-02-05T14:29:00Z ERROR old", "its end", "2026-02-05T14:30:01Z new", "its end"]
    assert lines_between(lines, NOW) == lines[3:]
    assert lines_between(lines, NOW - timedelta(hours=1), NOW) == lines[1:3]
