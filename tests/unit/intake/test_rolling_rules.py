"""Rolling changes: the batches of a command, and the decision about the next one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.commands.command import Issuer
from supervisor_core.intake.rolling.rules import (
    BatchVerdict,
    BatchWorker,
    RollingChange,
    RollingTerms,
    by_checkout,
    decide,
    plan_batches,
    rolling_terms,
)
from supervisor_core.jobs.model import RollingState

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WORKERS = tuple(f"w{number}" for number in range(1, 51))

CHANGE = RollingChange(
    task_id="t1",
    supervisor_id="hub",
    target="all",
    state=RollingState.RUNNING,
    batches=3,
    released=2,
    released_at=NOW,
    terms=RollingTerms(healthy=2 * MINUTE, max_failures=1),
    decided_at=NOW,
    decided_by=Issuer("cli:anna", "anna"),
)
WELL = BatchWorker("w1", ended_at=NOW, fine=True, since=NOW - MINUTE, condition="healthy")
DOWN = BatchWorker("w2", ended_at=NOW, since=NOW + MINUTE, condition="down (exited with code 1)")
AT_WORK = BatchWorker("w4")


@pytest.mark.parametrize(
    ("params", "terms"),
    [
        ({"batch": "10%"}, RollingTerms("10%", MINUTE, 0)),
        ({"healthy": 0}, RollingTerms("1", timedelta(0), 0)),
        ({"max_failures": 2}, RollingTerms("1", MINUTE, 2)),
        ({"batch": "5", "healthy": 120, "max_failures": 1}, RollingTerms("5", 2 * MINUTE, 1)),
    ],
)
def test_any_of_the_options_makes_it_rolling_and_the_others_have_defaults(
    params: dict[str, Any], terms: RollingTerms
) -> None:
    assert rolling_terms(params) == terms


def test_the_first_batch_is_one_worker_and_the_others_have_the_size() -> None:
    sizes = [len(batch) for batch in plan_batches(WORKERS, RollingTerms("10%"))]
    assert sizes == [1, *[5] * 9, 4]
    assert plan_batches(("a", "b", "c"), RollingTerms("2")) == (("a",), ("b", "c"))
    assert plan_batches(("a",), RollingTerms("100%")) == (("a",),)


def test_workers_of_one_checkout_are_in_one_batch() -> None:
    previews: list[dict[str, Any]] = [
        {"checkout": "/srv/a", "workers": [{"id": "w1"}, {"id": "w4"}]},
        {"checkout": None, "workers": [{"id": "w2"}]},
    ]
    batches = plan_batches(("w1", "w2", "w3", "w4", "w5"), RollingTerms("2"), by_checkout(previews))
    assert batches == (("w1", "w4"), ("w2", "w3"), ("w5",))


@given(
    places=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    batch=st.one_of(st.integers(1, 40).map(str), st.integers(1, 100).map(lambda share: f"{share}%")),
)
def test_each_worker_is_in_one_batch_and_no_place_is_in_two(places: list[int], batch: str) -> None:
    of = {f"w{number}": place for number, place in enumerate(places)}
    terms = RollingTerms(batch)
    batches = plan_batches(tuple(of), terms, of.__getitem__)
    assert sorted(worker for each in batches for worker in each) == sorted(of)
    held = [{of[worker] for worker in each} for each in batches]
    assert sum(len(each) for each in held) == len(set(places))
    assert len(held[0]) == 1
    assert all(len(each) <= terms.size(len(places)) or len(held[number]) == 1 for number, each in enumerate(batches))


def test_it_waits_for_jobs_and_for_the_time_in_which_the_batch_must_stay_healthy() -> None:
    waits = decide(CHANGE, [WELL, AT_WORK], NOW + MINUTE)
    assert (waits.verdict, waits.due_at) == (BatchVerdict.WAIT, NOW + 2 * MINUTE)
    assert decide(CHANGE, [AT_WORK], NOW + MINUTE).due_at is None


def test_an_interruption_starts_the_time_again() -> None:
    back = replace(WELL, since=NOW + MINUTE)
    assert decide(CHANGE, [back], NOW + 2 * MINUTE).due_at == NOW + 3 * MINUTE
    assert decide(CHANGE, [back], NOW + 3 * MINUTE).verdict is BatchVerdict.RELEASE


def test_a_worker_that_is_not_healthy_in_time_is_a_failure() -> None:
    assert decide(CHANGE, [WELL, DOWN], NOW + 3 * MINUTE).due_at == NOW + 4 * MINUTE
    gone_on = decide(CHANGE, [WELL, DOWN], NOW + 4 * MINUTE)
    assert gone_on.verdict is BatchVerdict.RELEASE, "one failure is allowed"
    assert dict(gone_on.failures) == {"w2": "not healthy after 4 min: down (exited with code 1)"}
    at_once = replace(CHANGE, terms=RollingTerms(healthy=timedelta(0)))
    assert decide(at_once, [DOWN], NOW).due_at == NOW + MINUTE, "it has a minute in any case"
