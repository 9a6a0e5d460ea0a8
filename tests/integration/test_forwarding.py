"""What is new in the ledger comes to the shared database, in order, once, on all three engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.ledger.store import Ledger
from tests.support.forwarded import assert_equal, beat, do_job, file_job, forward, go_on, note_audit, opened


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path / "var") as made:
        yield made


def test_what_was_there_before_the_database_was_configured_comes_as_well(ledger: Ledger, database_url: str) -> None:
    for number in range(5):
        do_job(ledger, f"t{number}")
        note_audit(ledger, number)
    beat(ledger, "OrionMX", 1)
    assert forward(ledger, database_url) == 16
    assert_equal(ledger, database_url)


def test_a_job_goes_on_in_its_row(ledger: Ledger, database_url: str) -> None:
    file_job(ledger, "t1")
    assert forward(ledger, database_url) == 1
    for state in ("claimed", "started", "done"):
        assert go_on(ledger, "t1") == state
        assert forward(ledger, database_url) == (2 if state == "done" else 1), "the last one with its audit row"
        assert_equal(ledger, database_url)
    assert forward(ledger, database_url) == 0
