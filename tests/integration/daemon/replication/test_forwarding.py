"""What is new in the ledger comes to the shared database, in order, once, on all three engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from supervisor_core.daemon.replication import replicator as forward_module
from supervisor_core.daemon.replication.table_copies import DivergedHistory
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import jobs, workers
from tests.support.programs.forked import forked
from tests.support.storage.forwarded_rows import (
    NOW,
    assert_equal,
    beat,
    do_job,
    file_job,
    forward,
    go_on,
    note_audit,
    opened,
    shared,
)
from tests.support.storage.forwarded_rows import forwarding as a_forwarding

FORKED = forked()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path / "var") as made:
        yield made


# What comes


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


def test_of_many_rows_each_batch_is_a_piece_and_the_next_goes_on_from_there(
    ledger: Ledger, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_module, "BATCH_ROWS", 3)
    for number in range(10):
        do_job(ledger, f"t{number}")
    with a_forwarding(ledger, database_url) as made:
        made.connect()
        batch = made.batch()
        assert (batch.rows, batch.full) == (6, True)
        assert made.waiting() == 14
    assert forward(ledger, database_url) == 14
    assert_equal(ledger, database_url)


def test_a_batch_of_long_rows_is_cut_by_their_length(
    ledger: Ledger, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_module, "BATCH_CHARACTERS", 100)
    for number in range(3):
        note_audit(ledger, number)
    with a_forwarding(ledger, database_url) as made:
        made.connect()
        assert [made.batch().rows for _ in range(4)] == [1, 1, 1, 0]
    assert_equal(ledger, database_url)


def test_jobs_that_one_statement_changed_are_not_parted_by_a_batch(
    ledger: Ledger, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_module, "BATCH_ROWS", 2)
    for number in range(5):
        file_job(ledger, f"t{number}")
    ledger.write(lambda connection: connection.execute(update(jobs).values(error="all of them")))
    assert forward(ledger, database_url) == 5
    assert_equal(ledger, database_url)


def test_text_that_a_database_would_refuse_stops_nothing(ledger: Ledger, database_url: str) -> None:
    file_job(ledger, "t1")
    file_job(ledger, "t2")
    mine = jobs.c.task_id == "t1"
    odd = {"error": "a\0b", "issuer_name": "x" * 300}
    ledger.write(lambda connection: connection.execute(update(jobs).where(mine).values(odd)))
    assert forward(ledger, database_url) == 2
    with shared(database_url) as engine, engine.connect() as there:
        found = there.execute(select(jobs.c.error, jobs.c.issuer_name).where(mine)).one()
        assert tuple(found) == ("a\\x00b", "x" * 255)


def test_a_number_that_a_database_would_refuse_stops_nothing(ledger: Ledger, database_url: str) -> None:
    beat(ledger, "OrionMX", 1)
    odd = {"pid": 2**40, "poll_seconds": float("inf"), "status": "x" * 100}
    ledger.write(lambda connection: connection.execute(update(workers).values(odd)))
    assert forward(ledger, database_url) == 1
    with shared(database_url) as engine, engine.connect() as there:
        found = there.execute(select(workers.c.pid, workers.c.poll_seconds, workers.c.status)).one()
        assert tuple(found) == (None, None, "x" * 64)
    assert forward(ledger, database_url) == 0


def test_of_a_worker_that_two_hosts_tell_of_the_newest_beat_stays(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    def there() -> Any:
        with shared(database_url) as engine, engine.connect() as connection:
            return connection.execute(select(workers.c.status).where(workers.c.worker_id == "OrionMX")).scalar()

    with opened(tmp_path / "other", "OtherHost") as other:
        beat(ledger, "OrionMX", 10, "new")
        beat(other, "OrionMX", 5, "old")
        forward(ledger, database_url)
        forward(other, database_url)
        assert there() == "new"
        beat(other, "OrionMX", 20, "moved")
        forward(other, database_url)
        forward(ledger, database_url)
        assert there() == "moved"


def test_a_beat_from_the_future_gives_way_to_those_of_the_right_time(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    def there() -> Any:
        with shared(database_url) as engine, engine.connect() as connection:
            return connection.execute(select(workers.c.status).where(workers.c.worker_id == "OrionMX")).scalar()

    next_year = (datetime.now(UTC) - NOW).total_seconds() + 365 * 86_400
    beat(ledger, "OrionMX", next_year, "clock was wrong")
    assert forward(ledger, database_url) == 1
    beat(ledger, "OrionMX", 10, "clock is right")
    assert forward(ledger, database_url) == 1
    assert there() == "clock is right"
    with opened(tmp_path / "other", "OtherHost") as other:
        beat(other, "OrionMX", next_year, "clock was wrong")
        assert forward(other, database_url) == 0, "and it takes the place of none of them"
    assert there() == "clock is right"


def test_a_task_that_two_hosts_had_shows_what_was_told_last_and_holds_up_nobody(
    ledger: Ledger, database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path / "other", "OtherHost") as other:
        do_job(ledger, "t1")
        do_job(other, "t1")
        forward(ledger, database_url)
        assert forward(other, database_url) == 2
        assert "was in the shared database under TestHost" in caplog.text
        assert forward(ledger, database_url) == 0, "they do not take it from each other for ever"
        assert_equal(other, database_url)


# Whose rows


def fill(folder: Path, supervisor_id: str, url: str, start: Barrier, count: int) -> None:
    with opened(folder, supervisor_id) as ledger:
        start.wait(60)
        for number in range(count):
            do_job(ledger, f"{supervisor_id}-{number}")
            beat(ledger, f"{supervisor_id}-worker", number)
            if number % 5 == 0:
                try:
                    forward(ledger, url)
                except Exception as error:  # noqa: BLE001 (the other was faster: the next time goes on from there)
                    print(error)


def test_hosts_that_begin_at_once_with_an_empty_database_all_bring_their_rows(
    database_url: str, tmp_path: Path
) -> None:
    hosts = [f"Host{number}" for number in range(3)]
    start = FORKED.Barrier(len(hosts))
    processes = [FORKED.Process(target=fill, args=(tmp_path / name, name, database_url, start, 20)) for name in hosts]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
        assert process.exitcode == 0
    for name in hosts:
        with opened(tmp_path / name, name) as ledger:
            forward(ledger, database_url)
            assert_equal(ledger, database_url)


def bring(folder: Path, url: str, start: Barrier) -> None:
    with opened(folder) as ledger:
        start.wait(60)
        for _ in range(20):
            try:
                forward(ledger, url)
            except Exception as error:  # noqa: BLE001
                print(error)


def test_two_programs_that_forward_the_same_ledger_bring_each_row_once(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    start = FORKED.Barrier(3)
    processes = [FORKED.Process(target=bring, args=(tmp_path / "var", database_url, start)) for _ in range(2)]
    for process in processes:
        process.start()
    start.wait(60)
    for number in range(30):
        do_job(ledger, f"t{number}")
    for process in processes:
        process.join(100)
        assert process.exitcode == 0
    forward(ledger, database_url)
    assert_equal(ledger, database_url)


def test_a_second_host_of_the_same_name_is_told_so_and_mixes_nothing_in(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    do_job(ledger, "t1")
    forward(ledger, database_url)
    with opened(tmp_path / "clone") as clone:
        do_job(clone, "t2")
        with pytest.raises(
            DivergedHistory, match=r"Row 1 of the audit trail of TestHost differs.*supervisor\.id of its"
        ):
            forward(clone, database_url)
    assert_equal(ledger, database_url)


def test_a_host_that_got_another_name_goes_on_and_brings_both_trails(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    do_job(ledger, "t1")
    forward(ledger, database_url)
    with opened(tmp_path / "var", "NewName") as renamed:
        do_job(renamed, "t2")
        forward(renamed, database_url)
        assert_equal(renamed, database_url)
        with a_forwarding(renamed, database_url) as made:
            assert made.waiting() == 0
    assert_equal(ledger, database_url)


def test_a_trail_under_an_earlier_name_that_is_taken_is_said_and_left(
    ledger: Ledger, database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    do_job(ledger, "t1")
    forward(ledger, database_url)
    with opened(tmp_path / "clone") as clone:
        do_job(clone, "t2")
    with opened(tmp_path / "clone", "NewName") as renamed:
        do_job(renamed, "t3")
        assert forward(renamed, database_url) == 3
        assert "It's left unchanged; this host is now called NewName" in caplog.text
        with a_forwarding(renamed, database_url) as made:
            assert made.waiting() == 0
