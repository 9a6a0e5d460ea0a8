"""Flips as rows: each change of a condition is written once, in order, whoever sees it; the same on three engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from supervisor_core.alerts import flips
from supervisor_core.alerts.flips import ConditionChange, condition_spans, uptime
from supervisor_core.storage import schema
from supervisor_core.storage.engine import shared_engine
from supervisor_core.workers.conditions import Condition, Target

HOST = "OrionHost"
NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
NORTH, SOUTH = Target("worker", "North"), Target("worker", "South")
SECOND = timedelta(seconds=1)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    made = shared_engine(database_url)
    schema.ensure(made)
    yield made
    made.dispose()


def change(engine: Engine, target: Target, condition: Condition, at: datetime, *, known: bool = True) -> bool:
    with engine.begin() as connection:
        before = flips.current_condition(connection, HOST, target) if known else None
        (made,) = flips.record_flips(
            connection, HOST, [ConditionChange(target, before, condition, "because", at)], at + SECOND
        )
    return made is not None


def test_what_somebody_else_has_written_before_is_not_written_again(engine: Engine) -> None:
    assert change(engine, NORTH, Condition.WELL, NOW)
    with engine.begin() as connection:
        before = flips.current_condition(connection, HOST, NORTH)
        down = ConditionChange(NORTH, before, Condition.DOWN, "It crashed. Last output:\nno disk", NOW + SECOND)
        again = ConditionChange(NORTH, before, Condition.STALE, "too old", NOW + SECOND)
        other = ConditionChange(SOUTH, None, Condition.WELL, "running", NOW)
        made = flips.record_flips(connection, HOST, [down, again, other], NOW + 2 * SECOND)
    assert [flip and flip.flip_id for flip in made] == [2, None, 3]
    assert not change(engine, NORTH, Condition.WELL, NOW, known=False), "somebody has looked at it before"
    with engine.connect() as connection:
        standing = flips.current_conditions(connection, HOST)
    assert (standing[NORTH].condition, standing[NORTH].flip_id) == (Condition.DOWN, 2)
    assert standing[NORTH].reason == "It crashed. Last output: no disk", "in one line, without an escaped line break"
    assert (standing[SOUTH].since, standing[SOUTH].reason) == (NOW, "running")


def test_flips_never_go_back_in_time_and_never_come_from_the_future(engine: Engine) -> None:
    change(engine, NORTH, Condition.WELL, NOW)
    change(engine, NORTH, Condition.DOWN, NOW - SECOND)
    with engine.begin() as connection:
        known = flips.current_condition(connection, HOST, NORTH)
        ahead = ConditionChange(NORTH, known, Condition.WELL, "running", NOW + timedelta(days=1))
        (made,) = flips.record_flips(connection, HOST, [ahead], NOW + SECOND)
    assert made is not None
    with engine.connect() as connection:
        found = flips.flips_of_target(connection, NORTH, NOW, NOW + timedelta(days=2))
    assert [flip.at for flip in found] == [NOW, NOW, NOW + SECOND]


def test_a_span_of_time_begins_with_what_was_so_before_it_and_adds_up(engine: Engine) -> None:
    change(engine, NORTH, Condition.WELL, NOW)
    change(engine, NORTH, Condition.DOWN, NOW + timedelta(minutes=10))
    change(engine, NORTH, Condition.DEGRADED, NOW + timedelta(minutes=20))
    change(engine, NORTH, Condition.PAUSED, NOW + timedelta(minutes=30))
    since, until = NOW + timedelta(minutes=5), NOW + timedelta(minutes=40)
    with engine.connect() as connection:
        found = flips.flips_of_target(connection, NORTH, since, until)
    assert [flip.new for flip in found] == ["well", "down", "degraded", "paused"]
    total = uptime(found, since, until)
    assert (total.well, total.down, total.unwell, total.uncounted) == tuple(
        timedelta(minutes=each) for each in (5, 10, 10, 10)
    )
    assert total.share == pytest.approx(0.6)


def test_of_too_many_flips_the_newest_are_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flips, "MOST", 2)
    for number, condition in enumerate((Condition.WELL, Condition.DOWN, Condition.WELL, Condition.STALE)):
        change(engine, NORTH, condition, NOW + number * SECOND)
    with engine.connect() as connection:
        found = flips.flips_of_target(connection, NORTH, NOW, NOW + timedelta(days=2))
    assert [flip.new for flip in found] == ["well", "stale"]


def test_a_worker_that_has_not_changed_for_a_week_was_as_it_is_all_day(engine: Engine) -> None:
    day = timedelta(days=1)
    change(engine, NORTH, Condition.WELL, NOW - 7 * day)
    with engine.connect() as connection:
        (led,) = flips.flips_of_workers(connection, HOST, NOW - day, NOW)[NORTH.id]
        (span,) = condition_spans([led], NOW - day, NOW)
    assert (span.condition, span.length) == (Condition.WELL, day)


def test_the_time_before_the_first_look_is_unknown_however_old_the_heartbeat_was(engine: Engine) -> None:
    with engine.begin() as connection:
        first = ConditionChange(NORTH, None, Condition.STALE, "old", NOW - timedelta(hours=20))
        flips.record_flips(connection, HOST, [first], NOW)
        day = timedelta(days=1)
        (worked,) = flips.uptimes_of_workers(connection, HOST, [NORTH.id], NOW + timedelta(hours=1), [day])[NORTH.id]
    assert worked.down + worked.unwell == timedelta(hours=1)
    assert worked.uncounted == timedelta(hours=23)
