"""The lives of both databases of forwarding: made anew, put back, upgraded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, delete, event, func, insert, select, text, update

from supervisor_core.storage import replication_progress, schema
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log, forwarding, jobs, metadata, workers
from tests.support.storage.forwarded_rows import (
    NOW,
    assert_equal,
    bring_all,
    do_job,
    file_job,
    forward,
    go_on,
    note_audit,
    opened,
    shared,
)
from tests.support.storage.forwarded_rows import forwarding as a_forwarding
from tests.support.storage.tampering import unguard


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path / "var") as made:
        yield made


def test_a_database_made_anew_gets_everything_again(ledger: Ledger, database_url: str) -> None:
    for number in range(3):
        do_job(ledger, f"t{number}")
    with a_forwarding(ledger, database_url) as made:
        bring_all(made)
        with shared(database_url) as engine, engine.begin() as there:
            unguard(there)
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
            unguard(there)
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("statements", [1, 4, 9, 40])
def test_an_interrupted_upgrade_is_finished_by_the_next_one(ledger: Ledger, database_url: str, statements: int) -> None:
    """MariaDB keeps each table and index that was created, whatever becomes of the transaction."""
    left = statements

    def interrupt(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal left
        if statement.lstrip().startswith(("CREATE TABLE", "CREATE INDEX")):
            left -= 1
            if left < 0:
                raise InterruptedError

    do_job(ledger, "t1")
    event.listen(Engine, "before_cursor_execute", interrupt)
    try:
        with pytest.raises(InterruptedError):
            forward(ledger, database_url)
    finally:
        event.remove(Engine, "before_cursor_execute", interrupt)
    assert forward(ledger, database_url) == 2
    assert_equal(ledger, database_url)
    with shared(database_url) as engine, engine.connect() as there:
        assert compare_metadata(MigrationContext.configure(there), metadata) == []


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
    assert ledger.read(lambda connection: list(replication_progress.chains(connection))) == ["Z", "a", "b"]
