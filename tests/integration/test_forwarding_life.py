"""The lives of both databases of forwarding: made anew, put back, upgraded, from before an upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, text, update

from supervisor_core.ledger import forward_marks, schema
from supervisor_core.ledger.migrations import making
from supervisor_core.ledger.store import Ledger
from supervisor_core.ledger.tables import audit_log, forwarding, jobs, workers
from tests.support.forwarded import (
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
from tests.support.forwarded import forwarding as a_forwarding
from tests.support.tampering import unguard


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
            connection.execute(text("DROP TRIGGER jobs_t_changed"))
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
