"""A worker's past on the disk: what was whole is read again, what was damaged is left out, and an end counts once."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.processes.records import RUNNING, WorkerRecord
from supervisor_core.workers.restarts.history import RestartHistory
from supervisor_core.workers.restarts.policy import (
    Next,
    RestartDecision,
    RestartReason,
    WorkerRun,
)
from tests.support.sampling import examples

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
WAIT = RestartDecision(
    Next.WAIT,
    RestartReason.BACKING_OFF,
    "exited (code 3) after 2 s; restarting in 8 s",
    NOW + timedelta(seconds=8),
    8.0,
)
REST = RestartDecision(Next.REST, RestartReason.ENDED_WELL, "not started again")


def record(generation: str, started: datetime | None = NOW) -> WorkerRecord:
    return WorkerRecord("North", generation, RUNNING, started_at=started.isoformat() if started else "")


def path_of(folder: Path) -> Path:
    return folder / "workers" / "North.lives"


def past(folder: Path) -> RestartHistory:
    return RestartHistory(folder, "North")


def lived(folder: Path) -> RestartHistory:
    """One life that was asked for, ended with exit code 3 and is followed by a pause."""
    made = past(folder)
    made.began(record("g1"), NOW, asked=True)
    made.ended(record("g1"), 3, NOW + timedelta(seconds=5))
    made.decided(WAIT)
    return made


def test_who_comes_later_reads_what_was_kept(tmp_path: Path) -> None:
    made, again = lived(tmp_path), past(tmp_path)
    assert (again.lives, again.decision) == (made.lives, WAIT)
    (life,) = again.lives
    assert (life.started_at, life.ended_at, life.exit_code) == (NOW, NOW + timedelta(seconds=5), 3)
    assert life.start_asked
    assert path_of(tmp_path).stat().st_mode & 0o777 == 0o600


def test_an_end_counts_once_whoever_notices_it(tmp_path: Path) -> None:
    made = lived(tmp_path)
    for each in (made, past(tmp_path)):
        assert each.ended(record("g1"), None, NOW + timedelta(hours=1)) is None
        assert len(each.lives) == 1
        assert each.decision == WAIT, "and is decided once"


def test_an_end_is_on_the_disk_with_what_was_decided_about_it_and_till_then_found_by_the_next(tmp_path: Path) -> None:
    made = past(tmp_path)
    made.began(record("g1"), NOW, asked=True)
    life = made.ended(record("g1"), 1, NOW)
    assert past(tmp_path).lives == []
    assert past(tmp_path).ended(record("g1"), None, NOW) is not None, "it is counted by whoever finds it"
    made.decided(WAIT)
    again = past(tmp_path)
    assert (again.lives, again.decision) == ([life], WAIT)
    assert again.ended(record("g1"), 1, NOW) is None, "it counts once"


@settings(max_examples=examples(40))
@given(cut=st.integers(0, 2000))
def test_a_torn_file_is_as_none_at_all(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("torn")
    lived(folder)
    whole = path_of(folder).read_bytes()
    path_of(folder).write_bytes(whole[: cut % len(whole)])
    again = past(folder)
    if whole[cut % len(whole) :].strip():
        assert (again.lives, again.decision) == ([], None)
    again.failed_to_start(NOW, asked=False)
    assert past(folder).lives == again.lives


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(60))
@given(st.data())
def test_what_a_hand_has_damaged_is_left_out_and_the_rest_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    lived(folder)
    document = json.loads(path_of(folder).read_text())
    good = document["lives"][0]
    key = data.draw(st.sampled_from(sorted(good)))
    document["lives"] = [data.draw(json_values), {**good, key: data.draw(json_values)}, good]
    part = data.draw(st.sampled_from([*sorted(document["decision"]), "generation", "asked", "ended"]))
    where = document["decision"] if part in document["decision"] else document
    where[part] = data.draw(json_values)
    path_of(folder).write_text(json.dumps(document))
    again = past(folder)
    assert 1 <= len(again.lives) <= 2
    assert again.lives[-1].exit_code == 3
    assert all(life.seconds >= 0 for life in again.lives)
    again.ended(record("another"), 1, NOW)
    again.decided(REST)
    assert past(folder).lives == again.lives
    assert past(folder).decision == REST


@pytest.mark.parametrize(
    ("seconds", "code", "asked", "counts"),
    [(5, 3, False, 5), (5, -9, False, 0), (5, 0, False, 5), (90, 3, False, 0), (5, 3, True, 0)],
    ids=[
        "it failed soon",
        "it was killed",
        "it ended well, but soon",
        "it ran for long",
        "a person started the next one",
    ],
)
def test_a_restart_must_outlive_a_short_run_that_ended_by_itself(
    tmp_path: Path, seconds: float, code: int, counts: float, *, asked: bool
) -> None:
    made = past(tmp_path)
    made.began(record("g1"), NOW, asked=False)
    ended = NOW + timedelta(seconds=seconds)
    made.ended(record("g1"), code, ended, -seconds)
    made.began(record("g2", ended), ended, asked=asked)
    assert made.failed_after_seconds == pytest.approx(counts, abs=1)


def test_a_run_that_lacked_memory_is_no_run_that_somebody_ended() -> None:
    killed = WorkerRun(NOW, NOW + timedelta(seconds=5), -9)
    assert not killed.blames_itself
    assert replace(killed, memory_kills=1).blames_itself
    assert not replace(killed, memory_kills=1, end_asked=True).blames_itself
