"""Who must be looked at when: the newest moment of each counts, each is told once, and nothing piles up."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from supervisor_core.daemon.reconciliation.observer import ObservationSchedule

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_each_is_due_at_its_newest_moment_and_is_told_once() -> None:
    agenda = ObservationSchedule()
    assert agenda.wait(NOW) == math.inf
    agenda.note("North", NOW + 5 * SECOND)
    agenda.note("South", NOW + 3 * SECOND)
    agenda.note("North", NOW + 9 * SECOND)
    assert (agenda.wait(NOW), agenda.due(NOW)) == (3.0, [])
    assert agenda.due(NOW + 5 * SECOND) == ["South"]
    assert agenda.wait(NOW + 5 * SECOND) == 4.0
    assert agenda.due(NOW + 9 * SECOND) == ["North"]
    assert agenda.due(NOW + 9 * SECOND) == []


def test_who_was_removed_or_can_not_change_by_itself_is_not_due() -> None:
    agenda = ObservationSchedule()
    agenda.note("North", NOW)
    agenda.note("South", NOW)
    agenda.forget("North")
    agenda.note("South", None)
    assert agenda.due(NOW + SECOND) == []
    assert agenda.wait(NOW) == math.inf


def test_a_moment_that_is_overdue_is_not_waited_for() -> None:
    agenda = ObservationSchedule()
    agenda.note("North", NOW)
    assert 0 < agenda.wait(NOW + SECOND) <= 0.001


def test_heartbeats_for_years_leave_nothing_behind() -> None:
    agenda = ObservationSchedule()
    for number in range(10_000):
        agenda.note(f"W{number % 3}", NOW + number * SECOND)
    assert len(agenda._heap) < 200  # noqa: SLF001 -- what would grow without end
    assert sorted(agenda.due(NOW + timedelta(days=1))) == ["W0", "W1", "W2"]
