"""The ledger's tables, `step` and the audit chain mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, Executable, delete, event, insert, select, text, update

from supervisor_core.storage import migrations, schema, steps
from supervisor_core.storage import outbox as outbox_queries
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry, ChainHead
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, search
from supervisor_core.storage.audit.trail import page
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.tables import audit_log, jobs, metadata, outbox

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


@pytest.mark.parametrize("migrated", [False, True], ids=["created", "migrated"])
def test_a_new_database_gets_exactly_the_tables_that_the_code_uses(empty: Engine, migrated: bool) -> None:
    if migrated:
        with empty.begin() as connection:
            config = Config()
            config.set_main_option("script_location", str(Path(migrations.__file__).parent))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    schema.ensure(empty)
    with empty.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert schema.current_revision(connection) == schema.HEAD


def test_upgrading_twice_changes_nothing(engine: Engine) -> None:
    schema.ensure(engine)
    with engine.connect() as connection:
        assert schema.current_revision(connection) == schema.HEAD


def test_a_database_of_a_newer_program_is_refused_by_name(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(schema.SchemaError, match=r"version 9999.*newer"):
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
        head = chain.newest_row(connection, HOST)
        assert head is not None
        assert chain.verify(connection).faults == []
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
            head = chain.append(connection, HOST, entry, NOW + timedelta(seconds=number))
    assert head is not None
    return head


def test_an_altered_field_or_a_removed_row_is_found_in_its_place(engine: Engine) -> None:
    head = write_chain(engine)
    with engine.begin() as connection:
        assert chain.verify(connection, head.hash) == (5, [], [head], True)
        assert not chain.verify(connection, "0" * 64).has_noted

    def fault_after(change: Executable) -> chain.Fault:
        with engine.connect() as connection, connection.begin() as transaction:
            connection.execute(change)
            (fault,) = chain.verify(connection).faults
            transaction.rollback()
        return fault

    third = audit_log.c.audit_id == 3
    for column in ("actor", "action", "outcome", "target_id", "label", "created_at", "details_json", "task_id"):
        value = NOW + timedelta(days=1) if column == "created_at" else "x"
        fault = fault_after(update(audit_log).where(third).values({column: value}))
        assert (fault.audit_id, "altered" in fault.what) == (3, True), column
    with engine.connect() as connection:
        row = dict(connection.execute(select(audit_log).where(third)).mappings().one())
    row["actor"] = "cli:mallory"
    row["hash"] = chain.row_hash(row)
    assert fault_after(update(audit_log).where(third).values(row)).audit_id == 3, "by the row after it"
    for removed in ((1,), (1, 2), (3,), (3, 4)):
        fault = fault_after(delete(audit_log).where(audit_log.c.audit_id.in_(removed)))
        assert (fault.audit_id, "missing" in fault.what) == (removed[0], True), removed


UNREADABLE = {"sqlite": ("yesterday",), "postgresql": ("infinity", "0044-03-15 00:00:00 BC")}
"""Moments that Python has no value for, which each engine takes."""


def test_a_moment_that_can_not_be_read_damages_its_row_alone(engine: Engine) -> None:
    write_chain(engine)
    for moment in UNREADABLE[engine.dialect.name]:
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE audit_log_t SET created_at = '{moment}' WHERE audit_id = 3"))
            rows = search(connection, AuditFilter())
            (fault,) = chain.verify(connection).faults
        assert fault.audit_id == 3
        assert [(row["audit_id"], row["damaged"]) for row in rows if "damaged" in row] == [
            (3, "its created_at can't be read")
        ]


def test_the_trail_is_asked_by_worker_person_action_and_time(engine: Engine) -> None:
    write_chain(engine)
    with engine.begin() as connection:
        entry = AuditEntry("slack:T0TEAM/U0OPER", "ROLLBACK_CODE", "W1", label="operator - hotfix")
        chain.append(connection, HOST, entry, NOW + timedelta(hours=1))

    def ids(**wanted: object) -> list[int]:
        with engine.connect() as connection:
            return [row["audit_id"] for row in search(connection, AuditFilter(**wanted))]  # type: ignore[arg-type]

    assert ids() == [6, 5, 4, 3, 2, 1]
    assert ids(limit=2) == [6, 5]
    assert ids(targets=("W1",)) == [6, 4, 2]
    assert ids(action="ROLLBACK_CODE") == [6]
    assert ids(action="ROLLBACK_CODE", command="rollback") == [6]
    assert ids(issuer="U0OPER") == ids(issuer="operator") == ids(issuer="slack:T0TEAM/U0OPER") == [6]
    assert ids(issuer="anna", since=NOW + timedelta(seconds=3)) == [5, 4]
    assert ids(issuer="%") == ids(issuer="nobody") == []
    assert ids(issuer="Operator", targets=("W1",), action="ROLLBACK_CODE") == [6]
    assert ids(issuer="anna", targets=("W1", "W0"), since=NOW) == [
        row for row in ids(issuer="anna") if row in ids(targets=("W1", "W0"))
    ]
    with engine.connect() as connection:
        first = page(connection, AuditFilter(), 2)
        assert [entry.audit_id for entry in first.entries] == [6, 5]
        second = page(connection, AuditFilter(), 2, RowPosition(HOST, 5))
        assert [entry.audit_id for entry in second.entries] == [4, 3]
        back = page(connection, AuditFilter(), 2, RowPosition(HOST, 4), newer=True)
        assert (back.entries, back.newer, back.older) == (first.entries, False, True)
