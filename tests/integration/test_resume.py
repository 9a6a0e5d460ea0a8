"""Resume: what may not be started, or may run already, is refused before its pause is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.adapters.pauses import Pause, is_watcher_paused
from supervisor_core.adapters.processes_launch import LaunchSpec
from supervisor_core.domain import crashpoints
from tests.support.hosts import FakeHost

PAUSE = Pause("cli:bob", label="bob - wait")


@pytest.mark.parametrize("setting", [{"enabled": False}, {"quarantined": True}], ids=["not enabled", "quarantined"])
def test_one_that_is_not_to_run_is_not_started_and_stays_paused(tmp_path: Path, setting: dict[str, bool]) -> None:
    place = FakeHost(tmp_path, **setting)
    place.host.pauses.set("OrionMX", PAUSE)
    outcome = place.carry_out("resume")
    assert (outcome.success, outcome.details["was_paused"]) == (False, True)
    assert str(outcome.error).startswith("Nothing was done.")
    assert f"workers.OrionMX.{next(iter(setting))}" in str(outcome.error), "what to change is named"
    assert place.processes.started == []
    assert is_watcher_paused(place.nas / "00_STATE", "OrionMX")
    assert place.host.pauses.read("OrionMX") == PAUSE


@pytest.mark.parametrize("setting", [{"enabled": False}, {"quarantined": True}], ids=["not enabled", "quarantined"])
def test_one_that_somebody_has_running_all_the_same_may_work_again(tmp_path: Path, setting: dict[str, bool]) -> None:
    place = FakeHost(tmp_path, **setting)
    place.host.pauses.set("OrionMX", PAUSE)
    pid = place.start_by_hand()
    outcome = place.carry_out("resume")
    assert (outcome.success, outcome.details["already_running"], outcome.details["pid"]) == (True, True, pid)
    assert place.host.pauses.read("OrionMX") is None
    assert place.processes.started == []


def test_where_nobody_can_tell_whether_it_runs_the_pause_stays_and_nothing_is_claimed(tmp_path: Path) -> None:
    place = FakeHost(tmp_path)
    assert place.carry_out("resume").success
    place.host.pauses.set("OrionMX", PAUSE)
    place.processes.hide("OrionMX")
    outcome = place.carry_out("resume")
    assert not outcome.success
    assert str(outcome.error).startswith("Nothing was done. OrionMX may be running")
    assert "does not run" not in str(outcome.error)
    assert "The system does not tell." in str(outcome.error), "why"
    assert place.host.pauses.read("OrionMX") == PAUSE
    assert len(place.processes.started) == 1


def test_a_start_that_fails_says_that_nothing_runs_only_where_nothing_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = FakeHost(tmp_path)
    place.processes.break_start("OrionMX", "no such program")
    assert "could not be started: it does not run now" in str(place.carry_out("resume").error)
    place.processes.break_start("OrionMX", "")
    spec = LaunchSpec("OrionMX", place.command, tmp_path, {}, tmp_path / "log")
    starts = {"worker.start:before": lambda: place.processes.start(spec)}
    monkeypatch.setattr(crashpoints, "reach", lambda point: starts.get(point, lambda: None)())
    error = str(place.carry_out("resume").error)
    assert "something of it may still be there" in error, "another was a moment earlier"
    assert "does not run now" not in error
