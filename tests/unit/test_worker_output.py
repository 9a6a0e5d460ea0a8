"""What workers print is begun anew when it is too large, while they go on writing into it."""

from __future__ import annotations

import os
from pathlib import Path

from supervisor_core.adapters.worker_output import rotate

LIMIT = 1000


def test_below_the_limit_nothing_is_touched(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    assert not rotate(log, LIMIT, 2, 0o640)
    log.write_bytes(b"x" * LIMIT)
    assert not rotate(log, LIMIT, 2, 0o640)
    assert [path.name for path in tmp_path.iterdir()] == ["w.log"]


def test_a_worker_goes_on_writing_into_the_file_that_was_begun_anew(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, b"old\n" * 300)
        assert rotate(log, LIMIT, 2, 0o640)
        os.write(descriptor, b"new\n")
    finally:
        os.close(descriptor)
    assert log.read_bytes() == b"new\n"
    assert set((tmp_path / "w.log.1").read_text().split()) == {"old"}


def test_so_many_old_ones_are_kept_and_no_more(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    for life in range(5):
        log.write_text(f"{life}\n" * 600)
        assert rotate(log, LIMIT, 2, 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w.log", "w.log.1", "w.log.2"]
    assert (tmp_path / "w.log.1").read_text()[0] == "4"
    assert (tmp_path / "w.log.2").read_text()[0] == "3"


def test_without_backups_it_is_only_cut(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    log.write_bytes(b"x" * 2000)
    assert rotate(log, LIMIT, 0, 0o640)
    assert [path.name for path in tmp_path.iterdir()] == ["w.log"]
    assert log.stat().st_size == 0


def test_of_one_that_grew_far_beyond_it_the_newest_whole_lines_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    log.write_text("".join(f"line {number:05}\n" for number in range(10_000)))
    assert rotate(log, LIMIT, 1, 0o640)
    kept = (tmp_path / "w.log.1").read_text().splitlines()
    assert kept[-1] == "line 09999"
    assert kept[0].startswith("line 0")
    assert (tmp_path / "w.log.1").stat().st_size <= LIMIT


def test_a_link_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x" * 2000)
    log = tmp_path / "w.log"
    log.symlink_to(elsewhere)
    assert not rotate(log, LIMIT, 2, 0o640)
    assert elsewhere.stat().st_size == 2000
