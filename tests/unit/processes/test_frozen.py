"""Since when a process is stopped: noted by the first who sees it, for exactly that process, until it goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.workers.observation import frozen_seconds

ONE, OTHER = ProcessIdentity(4711, 1, "boot"), ProcessIdentity(4711, 2, "boot")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "workers").mkdir()
    return tmp_path


def notes(home: Path) -> list[str]:
    return sorted(os.listdir(home / "workers"))


def earlier(home: Path, seconds: float) -> None:
    """Let the note be older."""
    path = home / "workers" / "OrionMX.frozen"
    note = json.loads(path.read_text())
    path.write_text(json.dumps({**note, "since": note["since"] - seconds}))


def test_the_first_look_notes_it_and_a_later_one_counts_from_there(home: Path) -> None:
    assert frozen_seconds(home, "OrionMX", ONE) == 0
    earlier(home, 60)
    assert 60 <= (frozen_seconds(home, "OrionMX", ONE) or 0) < 120
    assert (home / "workers" / "OrionMX.frozen").stat().st_mode & 0o777 == 0o600


def test_another_process_begins_anew(home: Path) -> None:
    frozen_seconds(home, "OrionMX", ONE)
    earlier(home, 60)
    assert frozen_seconds(home, "OrionMX", OTHER) == 0
    assert frozen_seconds(home, "OrionMX", ONE) == 0


def test_one_that_goes_on_is_forgotten(home: Path) -> None:
    frozen_seconds(home, "OrionMX", ONE)
    assert frozen_seconds(home, "OrionMX", None) is None
    assert notes(home) == []
    assert frozen_seconds(home, "OrionMX", None) is None


def test_each_worker_has_a_note_of_its_own(home: Path) -> None:
    frozen_seconds(home, "OrionMX", ONE)
    frozen_seconds(home, "West", OTHER)
    frozen_seconds(home, "West", None)
    assert notes(home) == ["OrionMX.frozen"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"process": [4711, 1, "boot"], "since": "x"}', '{"process": 7}'])
def test_a_note_that_says_nothing_is_no_trouble(home: Path, content: str) -> None:
    (home / "workers" / "OrionMX.frozen").write_text(content)
    assert frozen_seconds(home, "OrionMX", ONE) == 0
    earlier(home, 60)
    assert (frozen_seconds(home, "OrionMX", ONE) or 0) >= 60, "it was written anew"


def test_where_nothing_can_be_written_each_look_is_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        assert frozen_seconds(tmp_path / "nowhere", "OrionMX", ONE) == 0
    assert not (tmp_path / "nowhere").exists()
