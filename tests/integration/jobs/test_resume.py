"""Resume: no second one beside one that runs, a failed start in words, and what may not start stays paused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common import crashpoints
from supervisor_core.processes.launch import LaunchSpec
from supervisor_core.workers.pauses import Pause
from tests.support.daemon.single_passes import carry_out
from tests.support.homes import Home, a_home
from tests.support.intake.handler_hosts import FakeHost

PAUSE = Pause("cli:bob", label="bob - wait")


def test_where_nobody_can_tell_whether_it_runs_the_pause_stays_and_nothing_is_claimed(tmp_path: Path) -> None:
    place = FakeHost(tmp_path)
    assert place.carry_out("resume").success
    place.host.pauses.set("OrionMX", PAUSE)
    place.processes.hide("OrionMX")
    outcome = place.carry_out("resume")
    assert not outcome.success
    assert str(outcome.error).startswith("OrionMX wasn't resumed, because it may be running")
    assert "does not run" not in str(outcome.error)
    assert "The system doesn't say." in str(outcome.error), "why"
    assert place.host.pauses.read("OrionMX") == PAUSE
    assert len(place.processes.started) == 1


def test_a_start_that_fails_says_that_nothing_runs_only_where_nothing_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = FakeHost(tmp_path)
    place.processes.break_start("OrionMX", "no such program")
    assert "couldn't be started: it's down" in str(place.carry_out("resume").error)
    place.processes.break_start("OrionMX", "")
    spec = LaunchSpec("OrionMX", place.command, tmp_path, {}, tmp_path / "log")
    starts = {"worker.start:before": lambda: place.processes.start(spec)}
    monkeypatch.setattr(crashpoints, "reach", lambda point: starts.get(point, lambda: None)())
    error = str(place.carry_out("resume").error)
    assert "some of its processes may still be running" in error, "another was a moment earlier"
    assert "does not run now" not in error


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def test_resume_watcher_that_dies_at_once_is_a_failure_with_the_end_of_its_stderr(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo before; echo no such table: pages_t >&2; exit 3"]
    with a_home(tmp_path / "home", {"OrionMX": {"command": command, "start_grace_seconds": 5}}) as home:
        carry_out(home, "pause")
        result = carry_out(home, "resume", code=1)
        assert not result["success"]
        assert "exited (code 3)" in result["error"]
        assert "no such table: pages_t" in result["error"]
        assert "is no longer paused, but couldn't be started" in result["error"]
        assert result["details"]["was_paused"]
        (row,) = home.audit(result["task_id"])
        assert (row["action"], row["outcome"]) == ("RESUME", "failure")
