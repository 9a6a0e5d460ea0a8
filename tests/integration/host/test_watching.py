"""Hearing of new files at once, where the kernel tells; and again after the folder was removed and made anew."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.host.folder_watch import FolderWatch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")


@pytest.fixture
def watch() -> Iterator[FolderWatch]:
    made = FolderWatch()
    yield made
    made.close()


def hears(watch: FolderWatch, seconds: float = 5.0) -> bool:
    descriptor = watch.fileno()
    assert descriptor is not None
    return bool(select.select([descriptor], [], [], seconds)[0])


def test_a_renamed_or_a_written_file_is_heard_and_then_it_is_quiet(watch: FolderWatch, tmp_path: Path) -> None:
    assert watch.watch(tmp_path)
    assert not hears(watch, 0)
    (tmp_path / "x.tmp").touch()
    watch.drain()
    (tmp_path / "x.tmp").rename(tmp_path / "x.flag")
    assert hears(watch)
    watch.drain()
    assert not hears(watch, 0)
    (tmp_path / "y.flag").write_text("whole")
    assert hears(watch)
    watch.drain()
    watch.drain()
    assert watch.watch(tmp_path)


def test_a_folder_removed_and_made_anew_is_watched_again(watch: FolderWatch, tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    assert watch.watch(folder)
    for _ in range(3):
        folder.rmdir()
        assert hears(watch)
        watch.drain()
        assert not watch.watch(folder), "there is none"
        folder.mkdir()
        assert watch.watch(folder)
        (folder / "x.flag").touch()
        assert hears(watch)
        watch.drain()
        (folder / "x.flag").unlink()


def test_a_folder_moved_away_is_reported_and_the_one_in_its_place_is_watched(
    watch: FolderWatch, tmp_path: Path
) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    assert watch.watch(folder)
    folder.rename(tmp_path / "inbox.old")
    assert hears(watch)
    watch.drain()
    assert not watch.watch(folder), "there is none"
    folder.mkdir()
    assert watch.watch(folder)
    watch.drain()
    (tmp_path / "inbox.old" / "x.flag").touch()
    assert not hears(watch, 0), "the old one no longer counts"
    (folder / "x.flag").touch()
    assert hears(watch)


def test_a_folder_whose_parent_was_replaced_is_watched_by_its_path(watch: FolderWatch, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "inbox"
    folder.mkdir(parents=True)
    assert watch.watch(folder)
    (tmp_path / "state").rename(tmp_path / "old")
    folder.mkdir(parents=True)
    assert watch.watch(folder), "no event said so"
    watch.drain()
    (folder / "x.flag").touch()
    assert hears(watch)


def test_a_folder_that_is_not_there_can_not_be_watched_yet(watch: FolderWatch, tmp_path: Path) -> None:
    assert not watch.watch(tmp_path / "inbox")
    (tmp_path / "inbox").mkdir()
    assert watch.watch(tmp_path / "inbox")


def test_thousands_of_events_are_drained_in_the_end(watch: FolderWatch, tmp_path: Path) -> None:
    assert watch.watch(tmp_path)
    for number in range(3000):
        os.close(os.open(tmp_path / f"{'n' * 200}{number}.flag", os.O_CREAT | os.O_WRONLY))
    rounds = 0
    while hears(watch, 0):
        watch.drain()
        rounds += 1
        assert rounds < 1000
    assert rounds > 1
    (tmp_path / "one.flag").touch()
    assert hears(watch)


def test_once_closed_it_tells_nothing_and_closing_twice_is_fine(tmp_path: Path) -> None:
    watch = FolderWatch()
    watch.close()
    watch.close()
    assert watch.fileno() is None
    assert not watch.watch(tmp_path)


def test_a_watch_for_the_next_write_reports_it_once_until_it_is_asked_again(tmp_path: Path) -> None:
    watch, path = FolderWatch(next_write=True), tmp_path / "North.log"
    try:
        for line in ("first\n", "second\n"):
            assert watch.watch(tmp_path)
            watch.drain()
            assert not hears(watch, 0.05)
            with path.open("a") as file:
                file.write(line)
            assert hears(watch)
            watch.drain()
            path.write_text(line)
            assert not hears(watch, 0.05), "constant writing costs nothing"
    finally:
        watch.close()
