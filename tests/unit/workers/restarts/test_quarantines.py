"""Quarantines: kept until a person ends them, and what can't be read counts as one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from supervisor_core.workers.restarts import history as starts
from supervisor_core.workers.restarts.history import LONGEST, Quarantine, Quarantines

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)


def file_of(folder: Path) -> Path:
    return folder / "desired" / "North.quarantine"


def test_one_that_was_begun_is_read_by_whoever_comes_later_until_it_is_ended(tmp_path: Path) -> None:
    assert Quarantines(tmp_path).read("North") is None
    Quarantines(tmp_path).begin("North", "it can't live", NOW)
    assert Quarantines(tmp_path).read("North") == Quarantine("2026-02-05T14:30:15.234567Z", "it can't live")
    assert Quarantines(tmp_path).read("South") is None
    assert Quarantines(tmp_path).end("North")
    assert Quarantines(tmp_path).read("North") is None
    assert not Quarantines(tmp_path).end("North"), "there was none any more"


def test_its_end_begins_the_count_of_starts_anew(tmp_path: Path) -> None:
    starts.write_starts(tmp_path, "North", [NOW])
    starts.write_starts(tmp_path, "South", [NOW])
    Quarantines(tmp_path).end("North")
    assert (starts.read_starts(tmp_path, "North"), starts.read_starts(tmp_path, "South")) == ([], [NOW])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"at": "x"', b"3"])
def test_what_can_not_be_read_counts_as_one_and_names_its_file(tmp_path: Path, content: bytes) -> None:
    Quarantines(tmp_path).begin("North", "it can't live", NOW)
    file_of(tmp_path).write_bytes(content)
    found = Quarantines(tmp_path).read("North")
    assert found is not None
    assert str(file_of(tmp_path)) in found.words
    assert Quarantines(tmp_path).end("North"), "a person can end it all the same"
    assert Quarantines(tmp_path).read("North") is None


@pytest.mark.parametrize("document", ["{}", '{"at": 3, "words": []}', '{"words": ""}'])
def test_one_without_words_is_one_all_the_same(tmp_path: Path, document: str) -> None:
    Quarantines(tmp_path).begin("North", "it can't live", NOW)
    file_of(tmp_path).write_text(document)
    assert Quarantines(tmp_path).read("North") == Quarantine("", "quarantined")


def test_a_folder_in_its_place_counts_as_one(tmp_path: Path) -> None:
    file_of(tmp_path).mkdir(parents=True)
    assert Quarantines(tmp_path).read("North") is not None


def test_its_words_are_one_short_line_and_its_file_is_private(tmp_path: Path) -> None:
    Quarantines(tmp_path).begin("North", "two\nlines " + "x" * 2 * LONGEST, NOW)
    found = Quarantines(tmp_path).read("North")
    assert found is not None
    assert "\n" not in found.words
    assert len(found.words) <= LONGEST
    assert file_of(tmp_path).stat().st_mode & 0o777 == 0o600
    assert file_of(tmp_path).parent.stat().st_mode & 0o777 == 0o700
