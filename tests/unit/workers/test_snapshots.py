"""Snapshots: what is in the picture stays as it was, and a difference is a new version."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.status import DesiredState, Snapshot, WorkerSnapshot
from tests.support.daemon.worker_statuses import worker_status

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)

moments = st.none() | st.datetimes(timezones=st.just(UTC))
workers = st.builds(
    WorkerSnapshot,
    st.builds(DesiredState, st.text(max_size=3), st.booleans(), st.booleans(), st.booleans()),
    st.builds(worker_status, st.just("A"), st.just(NOW), st.sampled_from(WorkerState), pid=st.integers(1, 9)),
    st.integers(0, 3),
    moments,
    st.integers(0, 3),
)
pictures = st.dictionaries(st.sampled_from("ABC"), workers)


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
