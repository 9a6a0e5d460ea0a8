"""That the supervisor itself ends a worker is on record before the first signal, and holds no longer than it takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common import crashpoints
from supervisor_core.host.process_facts.signals import KILL, send
from supervisor_core.processes import manager as processes
from supervisor_core.processes.launch import LaunchSpec
from supervisor_core.processes.manager import HostProcesses, order
from supervisor_core.processes.records import STOP, TRIAL, read_record, write_record

ID = "North"


class Cut(BaseException):
    """The program ends here."""


@pytest.fixture
def door(tmp_path: Path) -> Iterator[HostProcesses]:
    made = HostProcesses(tmp_path)
    yield made
    assert made.stop(ID, timeout=0.1).stopped


def start(door: HostProcesses, folder: Path, **more: object) -> None:
    spec = LaunchSpec(ID, (sys.executable, "-ISc", "import signal; signal.pause()"), folder, {}, folder / "log")
    door.start(LaunchSpec(**{**{name: getattr(spec, name) for name in spec.__dataclass_fields__}, **more}))


def end(door: HostProcesses) -> None:
    identity = door.find(ID).identity
    assert identity is not None
    send(identity, KILL)
    assert door.wait_exit(identity, 10)


def cut_off_stop(door: HostProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(point: str) -> None:
        if point == "worker.stop:ordered":
            raise Cut

    with monkeypatch.context() as armed:
        armed.setattr(crashpoints, "reach", reach)
        with pytest.raises(Cut):
            door.stop(ID, why="restart of North, task_1")


def test_a_stop_that_was_cut_off_is_known_to_whoever_comes_later(
    door: HostProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(door, tmp_path)
    assert not door.find(ID).ordered
    cut_off_stop(door, monkeypatch)
    later = HostProcesses(tmp_path).find(ID)
    assert (later.stopping, later.ordered) == (True, True)
    assert later.record is not None
    assert later.record.order is not None
    assert later.record.order.why == "restart of North, task_1"
    end(door)
    gone = HostProcesses(tmp_path).find(ID)
    assert (gone.identity, gone.stopping, gone.ordered) == (None, False, True)


def test_a_worker_that_outlives_its_ordered_stop_ends_by_its_own_doing(
    door: HostProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(door, tmp_path)
    monkeypatch.setattr(processes, "ORDER_MARGIN_SECONDS", -3600.0)
    cut_off_stop(door, monkeypatch)
    assert not door.find(ID).ordered
    end(door)
    assert not door.find(ID).ordered, "which is on record"


def test_a_worker_that_ended_before_its_stop_was_ordered_did_so_by_itself(
    door: HostProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(door, tmp_path)
    end(door)
    reached: list[str] = []
    monkeypatch.setattr(crashpoints, "reach", reached.append)
    assert door.stop(ID, why="too late").stopped
    assert "worker.stop:ordered" not in reached


def test_a_launch_on_trial_is_on_its_own_once_that_is_settled(door: HostProcesses, tmp_path: Path) -> None:
    start(door, tmp_path, order=order(TRIAL, "update of North, task_1", 5))
    assert (door.find(ID).ordered, door.find(ID).stopping) == (True, False)
    door.end_trial(ID)
    assert not door.find(ID).ordered


def test_settling_a_trial_takes_back_no_ordered_stop(door: HostProcesses, tmp_path: Path) -> None:
    start(door, tmp_path)
    record = read_record(tmp_path, ID)
    assert record is not None
    write_record(tmp_path, record._replace(order=order(STOP, "a pause", 5)))
    door.end_trial(ID)
    assert door.find(ID).stopping


def test_a_stop_is_carried_out_where_its_order_cant_be_written(
    door: HostProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(door, tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("supervisor_core.processes.records.write_record", refuse)
        assert door.stop(ID).stopped
