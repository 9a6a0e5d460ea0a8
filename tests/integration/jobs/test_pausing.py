"""Pause: a success only where nothing of the worker is left, those included that somebody started by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common import crashpoints
from supervisor_core.workers.pauses import is_watcher_paused
from supervisor_core.workers.worker import MOST_COPIES
from tests.support.daemon.single_passes import ME, carry_out, state, working
from tests.support.homes import Home, a_home, demo_command
from tests.support.intake.handler_hosts import FakeHost


@pytest.fixture
def place(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


def running(place: FakeHost) -> int:
    """The worker, started by us and seen to beat; its PID."""
    assert place.carry_out("resume").success
    assert place.pid is not None
    place.beat(place.pid)
    return place.pid


def test_a_copy_that_was_started_by_hand_beside_ours_is_stopped_as_well(place: FakeHost) -> None:
    ours, other = running(place), place.start_by_hand()
    outcome = place.carry_out("pause")
    assert (outcome.success, outcome.details["others"], outcome.details["ending"]) == (True, [other], "graceful")
    assert f"Copies that were started by hand were stopped too (pid {other})" in str(outcome.details["message"])
    assert (place.runs(ours), place.runs(other)) == (False, False)


def test_it_is_found_by_its_beat_from_before_the_stop_where_ours_had_the_last_word(
    place: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = running(place), place.start_by_hand()
    said = {"worker.stop:before": ours}
    monkeypatch.setattr(crashpoints, "reach", lambda point: place.beat(said[point]) if point in said else None)
    outcome = place.carry_out("pause")
    assert (outcome.success, outcome.details["others"], place.runs(other)) == (True, [other], False)


def test_who_starts_one_after_the_other_is_named_in_a_failure_and_not_chased_for_ever(
    place: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(place)
    born: list[int] = []

    def another(point: str) -> None:
        if point == "worker.stop:after":
            born.append(place.start_by_hand())

    monkeypatch.setattr(crashpoints, "reach", another)
    outcome = place.carry_out("pause")
    assert len(born) == MOST_COPIES
    assert (outcome.success, outcome.details["may_run"], place.runs(born[-1])) == (False, [born[-1]], True)
    assert f"is paused, but may still be running. pid {born[-1]} (program) looks like OrionMX" in str(outcome.error)
    assert is_watcher_paused(place.nas / "00_STATE", "OrionMX")


def test_one_started_by_hand_that_no_heartbeat_names_is_stopped_by_its_looks(place: FakeHost) -> None:
    pid = place.start_by_hand()
    place.lose_drive()
    outcome = place.carry_out("pause")
    assert (outcome.success, place.runs(pid), outcome.details["looked_for_others"]) == (True, False, False)


def test_a_process_that_only_the_heartbeat_names_is_not_stopped_and_is_no_success(place: FakeHost) -> None:
    ours, other = running(place), place.processes.start_by_hand("some", "wrapper").pid
    place.beat(other)
    for _ in range(2):
        outcome = place.carry_out("pause")
        assert (outcome.success, outcome.details["may_run"]) == (False, [other])
        assert (place.runs(ours), place.runs(other)) == (False, True)
        assert f"names pid {other} (program), which can't be adopted: its command line" in str(outcome.error)
    assert place.host.pauses.read("OrionMX") is not None, "the pause holds"


def test_without_the_drive_what_could_not_be_seen_is_said(place: FakeHost) -> None:
    pid = running(place)
    place.lose_drive()
    outcome = place.carry_out("pause")
    assert (outcome.success, place.runs(pid), outcome.details["looked_for_others"]) == (True, False, False)
    assert "started by hand: The drive isn't mounted" in str(outcome.details["message"])
    assert str(outcome.details["drive"]).startswith("The pause is in effect")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def test_pause_watcher_already_paused(home: Home) -> None:
    first = carry_out(home, "pause", "first")
    flag = (state(home) / "supervisor_pause_OrionMX.flag").read_text()
    again = carry_out(home, "pause", "again")
    assert (again["success"], again["details"]["already_paused"]) == (True, True)
    said = json.loads(flag)
    assert f"already paused by {ME} at " in again["details"]["message"]
    details = again["details"]
    assert (details["by"], details["at"], details["task_id"]) == (f"file:{ME}", said["at"], first["task_id"])
    assert (state(home) / "supervisor_pause_OrionMX.flag").read_text() == flag


def test_the_note_of_a_pause_is_in_status_with_and_without_a_daemon(home: Home) -> None:
    home.start_daemon()
    assert home.json("send", "pause hotfix -- wait for the new disk, see #42", "--wait")["success"]
    for _ in range(2):
        reason = home.json("status")["workers"][0]["reason"]
        assert reason.endswith("hotfix; wait for the new disk, see #42"), reason
        home.supervisor("daemon", "stop")


@pytest.mark.parametrize("words", ["ignore-term", "fork", "daemonize"])
def test_pause_ends_a_worker_that_ignores_term_and_one_that_forks(tmp_path: Path, words: str) -> None:
    worker = {"command": demo_command("--misbehave", words), "start_grace_seconds": 0.2, "stop_timeout_seconds": 1}
    with a_home(tmp_path / "home", {"OrionMX": worker}) as home:
        working(home)
        result = carry_out(home, "pause")
        assert result["success"], result
        assert result["details"]["killed"], "somebody did not end when asked"
        assert home.everybody() == []
