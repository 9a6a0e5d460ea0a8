"""When the first probe is due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.workers.probes import SPREAD, first_wait


@given(st.text(max_size=10), st.integers(0, 5), st.floats(0.01, 1000), st.floats(-1000, 10_000))
def test_the_first_probe_comes_one_interval_after_the_start_or_soon(
    worker_id: str, number: int, interval: float, age: float
) -> None:
    wait = first_wait(worker_id, number, interval, age)
    due = max(0.0, interval - max(0.0, age))
    assert due <= wait <= due + SPREAD * interval
