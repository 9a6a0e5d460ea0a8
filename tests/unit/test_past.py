"""What a worker has lived through is on the disk before anything follows from it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from supervisor_core.adapters.processes_records import RUNNING, WorkerRecord
from supervisor_core.domain.restarts import Decision, Next, Reason
from supervisor_core.runtime.past import Past

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
RECORD = WorkerRecord("OrionMX", "generation-1", RUNNING, started_at="2026-02-05T14:29:00.000Z")
DECISION = Decision(Next.START, next(iter(Reason)), "it is started again")


def test_an_end_is_on_the_disk_with_what_was_decided_about_it(tmp_path: Path) -> None:
    past = Past(tmp_path, "OrionMX")
    past.began(RECORD, asked=True)
    life = past.ended(RECORD, 1, NOW)
    past.decided(DECISION)
    again = Past(tmp_path, "OrionMX")
    assert (again.lives, again.decision) == ([life], DECISION)
    assert again.ended(RECORD, 1, NOW) is None, "it counts once"


def test_an_end_that_was_not_decided_about_before_a_crash_is_counted_by_the_next_who_finds_it(tmp_path: Path) -> None:
    past = Past(tmp_path, "OrionMX")
    past.began(RECORD, asked=True)
    past.ended(RECORD, 1, NOW)
    again = Past(tmp_path, "OrionMX")
    assert again.lives == []
    assert again.ended(RECORD, None, NOW) is not None


def test_a_start_that_made_no_process_is_on_the_disk_at_once(tmp_path: Path) -> None:
    life = Past(tmp_path, "OrionMX").failed_to_start(NOW, asked=False)
    assert Past(tmp_path, "OrionMX").lives == [life]
