"""Results that a program may use as a boolean: each is true where what was asked for is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.host.programs import run_command
from supervisor_core.processes.fake import FakeProcesses
from supervisor_core.workers.worker import check_watcher_process, start_watcher, stop_watcher_gracefully
from tests.support.intake.handler_hosts import FakeHost


@pytest.fixture
def place(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


def runs(place: FakeHost) -> bool:
    return bool(check_watcher_process(place.processes, place.host.config.worker("OrionMX")))


def start(place: FakeHost) -> bool:
    host = place.host
    return bool(start_watcher(place.processes, host.drive, host.config, host.config.worker("OrionMX")))


def test_a_look_at_a_worker_is_true_while_it_runs(place: FakeHost) -> None:
    assert not runs(place)
    assert start(place)
    assert runs(place)
    place.processes.hide("OrionMX")
    assert not runs(place), "nobody can tell"


def test_a_worker_that_left_helpers_behind_does_not_run(place: FakeHost) -> None:
    start(place)
    place.processes.help_with("OrionMX")
    place.processes.die("OrionMX")
    assert not runs(place)


def test_a_stop_is_true_where_nothing_of_the_worker_is_left(place: FakeHost) -> None:
    start(place)
    worker, fake = place.host.config.worker("OrionMX"), place.processes
    assert isinstance(fake, FakeProcesses)
    fake.unkillable("OrionMX")
    assert not stop_watcher_gracefully(fake, worker)
    fake.unkillable("OrionMX", is_so=False)
    assert stop_watcher_gracefully(fake, worker)
    assert stop_watcher_gracefully(fake, worker), "nothing ran"


def test_a_program_is_true_where_it_ended_well() -> None:
    assert run_command(["true"])
    assert not run_command(["false"])
