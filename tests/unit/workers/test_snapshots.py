"""Snapshots: what is in the picture stays as it was, all the way down, and a difference is a new version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.status import ActualState, DesiredState, Reconciliation, Snapshot, WorkerSnapshot

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
CHANGES = 10_000

moments = st.none() | st.datetimes(timezones=st.just(UTC))
workers = st.builds(
    WorkerSnapshot,
    st.builds(DesiredState, st.text(max_size=3), st.booleans(), st.booleans(), st.booleans()),
    st.builds(
        ActualState,
        st.sampled_from(WorkerState),
        st.none() | st.integers(1, 9),
        moments,
        st.sampled_from(Health),
        st.text(max_size=3),
        moments,
        st.lists(st.text(max_size=3), max_size=2).map(tuple),
    ),
    st.builds(Reconciliation, st.integers(0, 3), moments, st.integers(0, 3)),
)
pictures = st.dictionaries(st.sampled_from("ABC"), workers)


def running(pid: int = 4711) -> WorkerSnapshot:
    """A worker that runs, with every part filled."""
    return WorkerSnapshot(
        DesiredState("abc", enabled=True, quarantined=False, paused=True),
        ActualState(WorkerState.RUNNING, pid, NOW, Health.HEALTHY, "running", NOW, ("task_1", "task_2")),
        Reconciliation(3, NOW, 7),
    )


def parts(value: object) -> Iterator[object]:
    """A value and all that can be reached from it."""
    yield value
    inside: list[object] = []
    if is_dataclass(value):
        inside = [getattr(value, each.name) for each in fields(value)]
    elif isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, tuple):
        inside = list(value)
    for each in inside:
        yield from parts(each)


def test_everything_that_can_be_reached_is_immutable() -> None:
    kinds = (str, int, type(None), datetime, tuple, MappingProxyType)
    for part in parts(Snapshot(1, NOW, {"A": running()})):
        if is_dataclass(part):
            assert not hasattr(part, "__dict__"), "slots: nothing can be added"
            for each in fields(part):
                with pytest.raises(FrozenInstanceError):
                    setattr(part, each.name, None)
        else:
            assert type(part) in (*kinds, WorkerState, Health, bool), part
    with pytest.raises(TypeError):
        Snapshot(1, NOW, {"A": running()}).workers["B"] = running()  # type: ignore[index]


def shown(snapshot: Snapshot) -> str:
    return json.dumps({name: worker.as_json() for name, worker in snapshot.workers.items()})


@given(st.lists(pictures, max_size=6))
def test_earlier_snapshots_stay_as_they_were_and_versions_rise_only_with_a_difference(
    steps: list[dict[str, WorkerSnapshot]],
) -> None:
    taken = [Snapshot(0, NOW)]
    said = [shown(taken[0])]
    for number, step in enumerate(steps):
        last = taken[-1]
        following = last.changed(step, NOW + timedelta(seconds=number + 1))
        if step == dict(last.workers):
            assert following is last
        else:
            assert following.version == last.version + 1
            assert following.workers == step
        taken.append(following)
        said.append(shown(following))
        step.clear()
    assert [shown(each) for each in taken] == said
