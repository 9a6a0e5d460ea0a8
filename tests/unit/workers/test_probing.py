"""Probes counted: failures in a row, and when the first question is due. Nothing is asked here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.workers.probes import SPREAD, ProbeAnswer, Tally, first_wait

GOOD, BAD = ProbeAnswer(True, "responded 200 OK"), ProbeAnswer(False, "responded 500")


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 5))
def test_it_fails_after_so_many_failures_in_a_row_and_one_good_answer_ends_that(
    answers: list[bool], needed: int
) -> None:
    tally = Tally("http://h/…", needed)
    for ok in answers:
        tally.count(GOOD if ok else BAD)
    row = next((number for number, ok in enumerate(reversed(answers)) if ok), len(answers))
    assert tally.failures == row
    assert bool(tally.failing()) is (row >= needed)


@given(st.text(max_size=10), st.integers(0, 5), st.floats(0.01, 1000), st.floats(-1000, 10_000))
def test_the_first_question_comes_one_interval_after_the_start_or_soon(
    worker_id: str, number: int, interval: float, age: float
) -> None:
    wait = first_wait(worker_id, number, interval, age)
    due = max(0.0, interval - max(0.0, age))
    assert due <= wait <= due + SPREAD * interval
