"""What is new in the ledger comes to the shared database, in order, once, on all three engines."""

from __future__ import annotations

import json
import logging
import multiprocessing
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, text, update

from supervisor_core.ledger import forward as forward_module
from supervisor_core.ledger import forward_marks, schema
from supervisor_core.ledger.forward import OtherHistory
from supervisor_core.ledger.migrations import making
from supervisor_core.ledger.store import Ledger
from supervisor_core.ledger.tables import audit_log, forwarding, jobs, workers
from tests.support.forwarded import (
    HOST,
    NOW,
    assert_equal,
    beat,
    bring_all,
    do_job,
    file_job,
    forward,
    go_on,
    note_audit,
    opened,
    shared,
)
from tests.support.forwarded import forwarding as a_forwarding
from tests.support.homes import a_home
from tests.support.waiting import wait_until

SPAWN = multiprocessing.get_context("spawn")


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
        assert "was in the shared database as one of TestHost" in caplog.text
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
    start = SPAWN.Barrier(len(hosts))
    processes = [SPAWN.Process(target=fill, args=(tmp_path / name, name, database_url, start, 20)) for name in hosts]
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
    start = SPAWN.Barrier(3)
    processes = [SPAWN.Process(target=bring, args=(tmp_path / "var", database_url, start)) for _ in range(2)]
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
        with pytest.raises(OtherHistory, match=r"another row 1 in the audit trail of TestHost.*supervisor\.id of its"):
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
        assert "It is left as it is; this host is called NewName now" in caplog.text
        with a_forwarding(renamed, database_url) as made:
            assert made.waiting() == 0


# The database's own life


def test_a_database_made_anew_gets_everything_again(ledger: Ledger, database_url: str) -> None:
    for number in range(3):
        do_job(ledger, f"t{number}")
    with a_forwarding(ledger, database_url) as made:
        bring_all(made)
        with shared(database_url) as engine, engine.begin() as there:
            for table in (audit_log, jobs, workers, forwarding):
                there.execute(delete(table))
        assert bring_all(made) == 6
        assert made.waiting() == 0
    assert_equal(ledger, database_url)


def test_a_database_put_back_from_a_copy_gets_what_came_after_it(ledger: Ledger, database_url: str) -> None:
    do_job(ledger, "t1")
    with a_forwarding(ledger, database_url) as made:
        bring_all(made)
        with shared(database_url) as engine, engine.connect() as there:
            copy = dict(there.execute(select(forwarding)).mappings().one())
        do_job(ledger, "t2")
        bring_all(made)
        with shared(database_url) as engine, engine.begin() as there:
            there.execute(delete(audit_log).where(audit_log.c.audit_id > 1))
            there.execute(delete(jobs).where(jobs.c.task_id == "t2"))
            there.execute(update(forwarding).values(copy))
        assert bring_all(made) == 2
    assert_equal(ledger, database_url)


def test_a_database_of_a_newer_program_is_refused_and_taken_up_when_it_can_be(
    ledger: Ledger, database_url: str
) -> None:
    do_job(ledger, "t1")
    forward(ledger, database_url)
    with shared(database_url) as engine:
        with engine.begin() as there:
            there.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        do_job(ledger, "t2")
        with pytest.raises(schema.SchemaError, match=r"version 9999.*newer"):
            forward(ledger, database_url)
        with engine.begin() as there:
            assert there.execute(select(func.count()).select_from(audit_log)).scalar() == 1
            there.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": schema.HEAD})
    assert forward(ledger, database_url) == 2
    assert_equal(ledger, database_url)


@pytest.mark.parametrize("reached", [1, 4, 9])
def test_an_upgrade_that_was_cut_off_is_done_again(
    ledger: Ledger, database_url: str, reached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MariaDB keeps what a migration has made so far, whatever becomes of its transaction."""
    left = reached
    from alembic import op

    class CutOff:
        """Alembic's operations, of which the last one is not reached."""

        def __getattr__(self, name: str) -> Any:
            nonlocal left
            if name in ("create_table", "create_index", "add_column"):
                left -= 1
                if left < 0:
                    raise InterruptedError
            return getattr(op, name)

    monkeypatch.setattr(making, "op", CutOff())
    do_job(ledger, "t1")
    with pytest.raises(InterruptedError):
        forward(ledger, database_url)
    monkeypatch.setattr(making, "op", op)
    assert forward(ledger, database_url) == 2
    assert_equal(ledger, database_url)


def test_jobs_of_an_older_ledger_are_numbered_by_its_upgrade_and_come(tmp_path: Path, database_url: str) -> None:
    folder = tmp_path / "var"
    with opened(folder) as ledger:
        for number in range(3):
            file_job(ledger, f"t{number}")

        def go_back(connection: Any) -> None:
            connection.execute(text("DROP INDEX ix_jobs_t_changed"))
            connection.execute(text("ALTER TABLE jobs_t DROP COLUMN changed"))
            connection.execute(text("DROP TABLE forwarding_t"))
            connection.execute(text("UPDATE alembic_version SET version_num = '0003'"))

        ledger.write(go_back)
    with opened(folder) as ledger:
        assert ledger.read(lambda c: c.execute(select(jobs.c.changed)).scalars().all()) == [1, 2, 3]
        file_job(ledger, "t3")
        assert forward(ledger, database_url) == 4
        assert_equal(ledger, database_url)


def test_jobs_that_a_program_from_before_the_upgrade_ends_are_numbered_at_the_next_opening_and_come(
    tmp_path: Path, database_url: str
) -> None:
    folder = tmp_path / "var"

    def as_by_that_program(ledger: Ledger, task_id: str) -> None:
        values = update(jobs).where(jobs.c.task_id == task_id).values(changed=0)
        ledger.write(lambda connection: connection.execute(values))

    with opened(folder) as ledger:
        do_job(ledger, "t1")
        forward(ledger, database_url)
        for task_id in ("t2", "t3"):
            do_job(ledger, task_id)
            as_by_that_program(ledger, task_id)
        file_job(ledger, "t4")
        as_by_that_program(ledger, "t4")
    with opened(folder) as ledger:
        numbers = select(jobs.c.changed).order_by(jobs.c.job_id)
        first, *ended, queued = ledger.read(lambda connection: connection.execute(numbers).scalars().all())
        assert first < ended[0] < ended[1]
        assert queued == 0, "that program may still end it, and would not number it"
        assert go_on(ledger, "t4") == "claimed"
        forward(ledger, database_url)
        assert_equal(ledger, database_url)


def test_every_change_of_a_job_has_a_higher_number_than_all_before(ledger: Ledger) -> None:
    seen = [0]
    for number in range(3):
        file_job(ledger, f"t{number}")
        for _ in range(3):
            mine = select(jobs.c.changed).where(jobs.c.task_id == f"t{number}")
            seen.append(ledger.read(lambda connection, mine=mine: connection.execute(mine).scalar_one()))  # type: ignore[misc]
            go_on(ledger, f"t{number}")
    assert seen == sorted(set(seen))


def test_how_much_waits_is_known_also_to_a_program_that_never_saw_the_database(
    ledger: Ledger, database_url: str
) -> None:
    do_job(ledger, "t1")
    forward(ledger, database_url)
    do_job(ledger, "t2")
    note_audit(ledger, 1)
    with a_forwarding(ledger, "sqlite:////nowhere/at/all.db") as made:
        assert made.waiting() == 3


def test_chains_are_found_one_by_one(ledger: Ledger) -> None:
    row = {"audit_id": 1, "outcome": "x", "actor": "x", "action": "x", "target_type": "x", "target_id": "x"}
    more = {"created_at": NOW, "details_json": "{}", "previous_hash": "", "hash": ""}
    rows = [{**row, **more, "supervisor_id": name} for name in ("b", "a", "Z")]
    ledger.write(lambda connection: connection.execute(insert(audit_log), rows))
    assert ledger.read(lambda connection: list(forward_marks.chains(connection))) == ["Z", "a", "b"]


# The daemon and the programs


def test_the_daemon_forwards_what_is_done_and_says_that_it_is_well(database_url: str, tmp_path: Path) -> None:
    with a_home(tmp_path / "home", database={"url": database_url}) as home:
        home.start_daemon()
        assert home.json("send", "pause hotfix", "--wait")["success"]
        (service,) = [each for each in home.status()["services"] if each["name"] == "forwarder"]
        assert (service["state"], service["health"]) == ("running", "healthy")
        with opened(home.state_dir) as ledger, a_forwarding(ledger, database_url) as made:
            wait_until(lambda: made.waiting() == 0, 20, "all rows are there")
            assert_equal(ledger, database_url)
        shown = home.json("audit", "--shared")
        assert shown == home.json("audit")
        assert [row["action"] for row in shown] == ["PAUSE"]
        assert home.supervisor("stop").returncode == 0


def test_without_a_shared_database_the_forwarder_is_disabled_with_the_reason(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", workers={}) as home:
        home.start_daemon()
        (service,) = [each for each in home.status()["services"] if each["name"] == "forwarder"]
        assert (service["state"], service["reason"]) == (
            "disabled",
            "no shared database is configured (database.url)",
        )
        asked = home.supervisor("audit", "verify", "--shared")
        assert asked.returncode == 2
        assert "--shared asks the shared database, but no shared database is configured" in asked.stderr


def test_a_database_that_is_the_ledger_itself_is_not_forwarded_to(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", workers={}, database={"url": "sqlite:///var/ledger.db"}) as home:
        home.start_daemon()
        (service,) = [each for each in home.status()["services"] if each["name"] == "forwarder"]
        assert (service["state"], service["reason"]) == ("disabled", "database.url is the ledger itself")


def test_verify_looks_at_the_shared_database_as_well(database_url: str, tmp_path: Path) -> None:
    with a_home(tmp_path / "home", workers={}, database={"url": database_url}) as home:
        with opened(home.state_dir) as ledger, opened(tmp_path / "other", "OtherHost") as other:
            for number in range(3):
                note_audit(ledger, number)
                note_audit(other, number)
            forward(ledger, database_url)
            forward(other, database_url)
            note_audit(ledger, 4)
        said = home.supervisor("audit", "verify", "--shared")
        assert said.returncode == 0, said.stderr
        assert said.stdout.splitlines() == [
            "The trail is whole: 4 rows, none altered, none missing.",
            "In the shared database, the trail of 2 hosts is whole: 6 rows, none altered, none missing.",
            "1 row of this host is not there yet.",
        ]
        with shared(database_url) as engine, engine.begin() as there:
            mine = (audit_log.c.supervisor_id == HOST) & (audit_log.c.audit_id == 2)
            there.execute(update(audit_log).where(mine).values(actor="cli:mallory"))
        found = home.supervisor("audit", "verify", "--shared", "--json")
        assert found.returncode == 1
        document = json.loads(found.stdout)
        assert (document["ok"], document["faults"]) == (False, [])
        (fault,) = document["shared"]["faults"]
        assert (fault["supervisor_id"], fault["audit_id"]) == (HOST, 2)
        assert home.supervisor("audit", "verify").returncode == 0, "the ledger itself is whole"


def test_a_chain_written_anew_in_the_shared_database_is_held_against_the_ledger(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    from supervisor_core.ledger.forward_database import SharedDatabase
    from supervisor_core.ledger.forward_verify import verify_shared

    note_audit(ledger, 1)
    with opened(tmp_path / "forged") as forged:
        note_audit(forged, 2)
        forward(forged, database_url)
    with SharedDatabase(database_url, 5) as database:
        (fault,) = verify_shared(database, ledger).faults
    assert (fault.audit_id, "not the row that was written" in fault.what) == (1, True)


def test_a_password_is_in_no_word_that_is_said(
    ledger: Ledger, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    if database_url.startswith("sqlite"):
        url = "sqlite:////nowhere/hunter2/shared.db"
    else:
        scheme, _, rest = database_url.partition("://")
        url = f"{scheme}://hunter2:hunter2@127.0.0.1:1/{rest.split('/')[1].split('?')[0]}"
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Exception, match=r"The shared database .* can't be used") as caught:
        forward(ledger, url)
    assert "hunter2" not in str(caught.value) + caplog.text
