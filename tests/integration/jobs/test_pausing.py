"""Pause: a success only where nothing of the worker is left, those included that somebody started by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common import crashpoints
from supervisor_core.workers.pauses import is_watcher_paused
from tests.support.daemon.single_passes import ME, carry_out, state
from tests.support.homes import Home, a_home
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
    assert f"The copy that was started by hand was stopped too (pid {other})" in str(outcome.details["message"])
    assert (place.runs(ours), place.runs(other)) == (False, False)


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
    assert len(born) == 2
    assert (outcome.success, outcome.details["may_run"], place.runs(born[-1])) == (False, [born[-1]], True)
    assert f"is paused, but may still be running. Another copy was started: pid {born[-1]}" in str(outcome.error)
    assert is_watcher_paused(place.nas / "00_STATE", "OrionMX")


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
