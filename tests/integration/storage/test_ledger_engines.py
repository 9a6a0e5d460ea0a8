"""The ledger's tables, `step` and the audit chain mean the same on SQLite, MariaDB and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, Table, event, insert, select, text, update
from sqlalchemy.schema import CreateIndex, CreateTable

from supervisor_core.storage import outbox as outbox_queries
from supervisor_core.storage import schema, steps
from supervisor_core.storage.audit import guard as audit_guard
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import AuditEntry, ChainHead
from supervisor_core.storage.audit.pages import page
from supervisor_core.storage.audit.search import RowPosition
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.tables import audit_log, jobs, metadata, outbox
from tests.support.storage.tampering import unguard

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
HOST = "OrionHost"


@pytest.fixture
def empty(database_url: str) -> Iterator[Engine]:
    """An engine on an empty database."""
    made = shared_engine(database_url)
    yield made
    made.dispose()


@pytest.fixture
def engine(empty: Engine) -> Engine:
    """An engine on a database with our tables."""
    schema.ensure(empty)
    return empty


def a_job(task_id: str = "t1", state: str = "queued") -> dict[str, object]:
    return {
        "task_id": task_id,
        "worker_id": "OrionMX",
        "supervisor_id": HOST,
        "handler": "pause",
        "params_json": "{}",
        "label": "hotfix",
        "issuer_id": "cli:anna",
        "issuer_name": "anna",
        "door": "cli",
        "approvals_json": "[]",
        "state": state,
        "tier": 3,
        "filed_at": NOW,
        "created_at": NOW,
    }


def interrupted(engine: Engine) -> None:
    """A creation that MariaDB committed only the first table of. The migrations finish it."""
    with engine.begin() as connection:
        metadata.sorted_tables[0].create(connection)


@pytest.mark.parametrize("before", [lambda _: None, interrupted], ids=["created", "migrated"])
def test_a_new_database_gets_exactly_the_tables_that_the_code_uses(
    empty: Engine, before: Callable[[Engine], None]
) -> None:
    before(empty)
    schema.ensure(empty)
    with empty.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert schema.current_revision(connection) == schema.HEAD
        assert triggers(connection) != []


def test_the_migrations_are_a_copy_of_the_tables_and_the_triggers(engine: Engine) -> None:
    """Names of constraints and options of tables included, which Alembic doesn't compare."""
    steps = ("0001_first_release", "0017_fleet", "0019_foreign_alerts")
    frozen = [import_module(f"supervisor_core.storage.migrations.versions.{step}").tables for step in steps]
    copies = sorted(ddl(engine, table) for each in frozen for table in each.sorted_tables)
    assert copies == sorted(ddl(engine, table) for table in metadata.sorted_tables)
    with engine.begin() as connection:
        made = triggers(connection)
        audit_guard.drop(connection)
        assert triggers(connection) == []
        audit_guard.install(connection)
        assert triggers(connection) == made != []


def ddl(engine: Engine, table: Table) -> tuple[str, list[str]]:
    indexes = [str(CreateIndex(index).compile(dialect=engine.dialect)) for index in table.indexes]
    return str(CreateTable(table).compile(dialect=engine.dialect)), sorted(indexes)


def triggers(connection: Connection) -> list[str]:
    query = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    }.get(
        connection.dialect.name,
        "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
    )
    return sorted(connection.execute(text(query)).scalars())


def test_upgrading_twice_changes_nothing(engine: Engine) -> None:
    schema.ensure(engine)
    with engine.connect() as connection:
        assert schema.current_revision(connection) == schema.HEAD


def test_a_database_of_a_newer_program_is_refused_by_name(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(schema.SchemaError, match=r"version 9999.*newer"):
        schema.ensure(engine)


def test_a_database_from_before_the_first_release_is_refused_with_a_remedy(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0016'"))
    with pytest.raises(schema.SchemaError, match=r"version 0016, which was never released.*Start over"):
        schema.ensure(engine)


def test_times_come_back_as_aware_utc_to_the_microsecond(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(insert(jobs), a_job())
    with engine.connect() as connection:
        moment = connection.execute(select(jobs.c.filed_at)).scalar_one()
    assert moment == NOW
    assert moment.utcoffset() == timedelta(0)


def test_a_naive_time_does_not_get_in(engine: Engine) -> None:
    with engine.begin() as connection, pytest.raises(Exception, match="no time zone"):
        connection.execute(insert(jobs), {**a_job(), "filed_at": datetime(2026, 2, 5)})  # noqa: DTZ001


def test_ids_that_differ_only_in_case_are_different_ids(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(insert(jobs), [a_job("T1"), a_job("t1")])
        found = connection.execute(select(jobs.c.task_id).where(jobs.c.task_id == "T1")).scalars().all()
    assert found == ["T1"]


def test_a_step_moves_the_row_and_writes_what_follows(engine: Engine) -> None:
    step = steps.Step(
        jobs,
        {"task_id": "t1"},
        ("queued",),
        "claimed",
        {"claimed_at": NOW},
        AuditEntry("cli:anna", "PAUSE", "OrionMX", label="anna - hotfix", task_id="t1"),
        (steps.Message("result_file", "t1", {"task_id": "t1"}),),
    )
    with engine.begin() as connection:
        connection.execute(insert(jobs), a_job())
        assert steps.take(connection, HOST, step, NOW)
        assert not steps.take(connection, HOST, step, NOW), "it is no longer queued: the second one has lost the race"
    with engine.connect() as connection:
        assert connection.execute(select(jobs.c.state, jobs.c.claimed_at)).one() == ("claimed", NOW)
        assert connection.execute(select(audit_log.c.audit_id, audit_log.c.label)).all() == [(1, "anna - hotfix")]
        assert connection.execute(select(outbox.c.state, outbox.c.due_at)).all() == [("pending", NOW)]


def claiming(number: int) -> steps.Step:
    entry = AuditEntry("cli:anna", "PAUSE", f"W{number}")
    messages = (steps.Message("result_file", f"t{number}", {"n": number}), steps.Message("card", "all", None))
    return steps.Step(jobs, {"task_id": f"t{number}"}, ("queued",), "claimed", {"claimed_at": NOW}, entry, messages)


def test_several_steps_are_taken_with_few_statements_as_one_by_one(engine: Engine) -> None:
    statements: list[str] = []
    with engine.begin() as connection:
        connection.execute(insert(jobs), [a_job(f"t{number}") for number in range(50)])
        steps.record(connection, HOST, None, (steps.Message("card", "all", {"channel": "C1"}),), NOW)
        steps.record(connection, HOST, None, (steps.Message("result_file", "t7", {"n": 0}),), NOW)
        event.listen(engine, "before_cursor_execute", lambda *about: statements.append(about[2]))
        steps.take_all(connection, HOST, [claiming(number) for number in range(50)], NOW)
        assert len(statements) < 10, statements
        assert set(connection.execute(select(jobs.c.state)).scalars()) == {"claimed"}
        changed = connection.execute(select(jobs.c.changed).order_by(jobs.c.job_id)).scalars().all()
        assert len(set(changed)) == 50, "each change has a number of its own"
        head = audit.newest_row(connection, HOST)
        assert head is not None
        assert audit.verify(connection, [head]) == (50, [])
        targets = connection.execute(select(audit_log.c.target_id).order_by(audit_log.c.audit_id)).scalars().all()
        assert targets == [f"W{number}" for number in range(50)]
        due = {each.payload["n"]: each.version for each in outbox_queries.due_messages(connection, "result_file", NOW)}
        assert due == {number: 2 if number == 7 else 1 for number in range(50)}
        (card,) = outbox_queries.due_messages(connection, "card", NOW)
        assert (card.payload, card.version) == ({"channel": "C1"}, 2), "one update for all of them"


def test_a_group_with_a_lost_race_is_refused_as_a_whole(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(insert(jobs), [a_job("t1"), a_job("t2", "claimed")])
    with pytest.raises(steps.NotAllTaken), engine.begin() as connection:
        steps.take_all(connection, HOST, [claiming(1), claiming(2)], NOW)
    with engine.connect() as connection:
        found = connection.execute(select(jobs.c.task_id).where(jobs.c.state == "queued")).scalars().all()
        assert (found, connection.execute(select(audit_log.c.audit_id)).all()) == (["t1"], [])


def test_a_message_ordered_anew_is_one_row_and_the_older_one_is_not_taken_for_sent(engine: Engine) -> None:
    with engine.begin() as connection:
        for word in ("older", "newer"):
            steps.record(connection, HOST, None, (steps.Message("card", "t1", {"word": word}),), NOW)
            if word == "older":
                (older,) = outbox_queries.due_messages(connection, "card", NOW)
        (newer,) = outbox_queries.due_messages(connection, "card", NOW)
        assert (newer.payload, newer.outbox_id, newer.version) == ({"word": "newer"}, older.outbox_id, 2)
        assert not steps.take(connection, HOST, outbox_queries.mark_sent(older, NOW), NOW)
        assert steps.take(connection, HOST, outbox_queries.mark_sent(newer, NOW), NOW)
        assert outbox_queries.due_messages(connection, "card", NOW) == []


def test_a_message_is_told_anew_where_it_was_put_and_not_begun_by_that(engine: Engine) -> None:
    again = steps.Message("card", "t1", None)
    with engine.begin() as connection:
        steps.record(connection, HOST, None, (again,), NOW)
        assert outbox_queries.due_messages(connection, "card", NOW) == [], "nobody ordered it yet"
        steps.record(connection, HOST, None, (steps.Message("card", "t1", {"channel": "C1"}),), NOW)
        (first,) = outbox_queries.due_messages(connection, "card", NOW)
        outbox_queries.store_address(connection, first, {"channel": "C1", "ts": "1.2"})
        assert steps.take(connection, HOST, outbox_queries.mark_sent(first, NOW), NOW)
        steps.record(connection, HOST, None, (again,), NOW)
        (second,) = outbox_queries.due_messages(connection, "card", NOW)
    assert (second.payload, second.address, second.version) == ({"channel": "C1"}, {"channel": "C1", "ts": "1.2"}, 2)


def write_chain(engine: Engine, count: int = 5) -> ChainHead:
    head = None
    with engine.begin() as connection:
        for number in range(count):
            entry = AuditEntry(
                "cli:anna",
                "PAUSE",
                f"W{number % 2}",
                label=f"anna - Übung {number}"[:100],
                details={"n": number, "emoji": "\N{BOMB}", "nul": "\0", "half": "\ud800"},
            )
            head = audit.append(connection, HOST, entry, NOW + timedelta(seconds=number))
    assert head is not None
    return head


def test_a_chain_that_nobody_touched_verifies(engine: Engine) -> None:
    head = write_chain(engine)
    with engine.connect() as connection:
        assert audit.verify(connection, [head]) == (5, [])


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "column", ["actor", "action", "outcome", "target_id", "label", "created_at", "details_json", "task_id"]
)
def test_an_altered_field_is_found_in_its_row(engine: Engine, column: str) -> None:
    head = write_chain(engine)
    with engine.begin() as connection:
        unguard(connection)
        value = NOW + timedelta(days=1) if column == "created_at" else "x"
        connection.execute(update(audit_log).where(audit_log.c.audit_id == 3).values({column: value}))
        (fault,) = audit.verify(connection, [head])[1]
    assert fault.audit_id == 3
    assert "altered" in fault.what


UNREADABLE = {
    "sqlite": ("yesterday",),
    "postgresql": ("infinity", "0044-03-15 00:00:00 BC"),
    "mysql": ("0000-00-00 00:00:00",),
}
"""Moments that Python has no value for, which each engine takes."""


def test_a_moment_that_can_not_be_read_damages_its_row_alone(engine: Engine) -> None:
    head = write_chain(engine)
    dialect = engine.dialect.name
    for moment in UNREADABLE["mysql" if dialect == "mariadb" else dialect]:
        with engine.begin() as connection:
            unguard(connection)
            if dialect in ("mysql", "mariadb"):
                connection.execute(text("SET SESSION sql_mode = ''"))
            connection.execute(text(f"UPDATE audit_log_t SET created_at = '{moment}' WHERE audit_id = 3"))
            rows = audit.search(connection, audit.AuditFilter())
            (fault,) = audit.verify(connection, [head])[1]
        assert fault.audit_id == 3
        assert [(row["audit_id"], row["damaged"]) for row in rows if "damaged" in row] == [
            (3, "its created_at can't be read")
        ]


def test_a_row_rewritten_with_its_hash_is_found_by_the_row_after_it(engine: Engine) -> None:
    from supervisor_core.storage.audit.chain import row_hash

    head = write_chain(engine)
    with engine.begin() as connection:
        unguard(connection)
        row = dict(connection.execute(select(audit_log).where(audit_log.c.audit_id == 3)).mappings().one())
        row["actor"] = "cli:mallory"
        row["hash"] = row_hash(row)
        connection.execute(update(audit_log).where(audit_log.c.audit_id == 3).values(row))
        (fault,) = audit.verify(connection, [head])[1]
    assert fault.audit_id == 3


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("removed", "named"), [((1,), 1), ((3,), 3), ((4, 5), 4), ((5,), 5), ((1, 2, 3, 4, 5), 1)])
def test_a_removed_row_is_named_the_newest_included(engine: Engine, removed: tuple[int, ...], named: int) -> None:
    head = write_chain(engine)
    with engine.begin() as connection:
        unguard(connection)
        connection.execute(audit_log.delete().where(audit_log.c.audit_id.in_(removed)))
        (fault,) = audit.verify(connection, [head])[1]
    assert (fault.audit_id, "missing" in fault.what) == (named, True)


def test_the_trail_is_asked_by_worker_person_action_and_time(engine: Engine) -> None:
    write_chain(engine)
    with engine.begin() as connection:
        entry = AuditEntry("slack:T0TEAM/U0OPER", "ROLLBACK_CODE", "W1", label="operator - hotfix")
        audit.append(connection, HOST, entry, NOW + timedelta(hours=1))

    def ids(**wanted: object) -> list[int]:
        with engine.connect() as connection:
            return [row["audit_id"] for row in audit.search(connection, audit.AuditFilter(**wanted))]  # type: ignore[arg-type]

    assert ids() == [6, 5, 4, 3, 2, 1]
    assert ids(limit=2) == [6, 5]
    assert ids(worker="W1") == [6, 4, 2]
    assert ids(action="ROLLBACK_CODE") == [6]
    assert ids(action="ROLLBACK_CODE", command="rollback") == [6]
    assert ids(issuer="U0OPER") == ids(issuer="operator") == ids(issuer="slack:T0TEAM/U0OPER") == [6]
    assert ids(issuer="anna", since=NOW + timedelta(seconds=3)) == [5, 4]
    assert ids(issuer="%") == ids(issuer="nobody") == []
    assert ids(issuer="Operator", worker="W1", action="ROLLBACK_CODE") == [6]
    assert ids(issuer="anna", targets=("W1", "W0"), since=NOW) == [
        row for row in ids(issuer="anna") if row in ids(targets=("W1", "W0"))
    ]
    with engine.connect() as connection:
        first = page(connection, audit.AuditFilter(), 2)
        assert [entry.audit_id for entry in first.entries] == [6, 5]
        second = page(connection, audit.AuditFilter(), 2, RowPosition(HOST, 5))
        assert [entry.audit_id for entry in second.entries] == [4, 3]
        back = page(connection, audit.AuditFilter(), 2, RowPosition(HOST, 4), newer=True)
        assert (back.entries, back.newer, back.older) == (first.entries, False, True)
