"""A schedule that is due: which of its times is run, decided purely."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.common.time_zones import next_after
from supervisor_core.intake.schedules.rules import LATE, DueRun, due_run

NIGHTLY = partial(next_after, "0 3 * * *", "UTC")
OFTEN = partial(next_after, "*/5 * * * *", "UTC")


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-02-{text}").replace(tzinfo=UTC)


def test_what_was_missed_for_longer_is_skipped_and_known() -> None:
    assert due_run(at("05 03:00"), at("05 04:01"), NIGHTLY) == DueRun(None, at("05 03:00"), at("06 03:00"))
    assert due_run(at("01 03:00"), at("05 02:00"), NIGHTLY) == DueRun(None, at("01 03:00"), at("05 03:00"))


def test_of_many_times_that_passed_the_newest_is_run_once() -> None:
    assert due_run(at("05 03:00"), at("05 03:32"), OFTEN) == DueRun(at("05 03:30"), at("05 03:00"), at("05 03:35"))
    assert due_run(at("01 03:00"), at("05 03:32"), OFTEN) == DueRun(at("05 03:30"), at("01 03:00"), at("05 03:35"))


@given(
    late=st.timedeltas(timedelta(0), timedelta(days=40)),
    cron=st.sampled_from(["* * * * *", "*/5 * * * *", "0 */2 * * *", "0 3 * * *", "0 0 1 * *"]),
)
def test_whenever_somebody_looks_the_next_time_lies_ahead_and_the_run_is_not_long_ago(
    late: timedelta, cron: str
) -> None:
    after = partial(next_after, cron, "Europe/Berlin")
    due = after(datetime(2027, 3, 27, tzinfo=UTC))
    now = due + late
    found = due_run(due, now, after)
    assert found.next_at > now
    if found.run_at is not None:
        assert due <= found.run_at <= now <= found.run_at + LATE
        assert after(found.run_at) == found.next_at
    assert (found.run_at is None) <= (found.missed_at == due)
