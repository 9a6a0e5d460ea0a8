"""The database itself refuses to change or remove a row of the audit trail, on each of the three engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine, delete, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from supervisor_core.storage import schema
from supervisor_core.storage.audit import guard as audit_guard
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.tables import audit_anchors, audit_log

HOST = "TestHost"
NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
COPY = "SELECT supervisor_id, audit_id, 'failure', actor, action, target_type, target_id, label, created_at, "
COPY += "details_json, task_id, previous_hash, hash FROM audit_log_t WHERE audit_id = 2"


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A database with four rows of a trail."""
    made = shared_engine(database_url)
    schema.ensure(made)
    with made.begin() as connection:
        for _ in range(4):
            audit.append(connection, HOST, AuditEntry("cli:anna", "PAUSE", "West"), NOW)
    yield made
    made.dispose()


def test_no_statement_changes_or_removes_a_row(engine: Engine) -> None:
    replace = {"sqlite": f"INSERT OR REPLACE INTO audit_log_t {COPY}", "postgresql": "TRUNCATE audit_log_t"}
    for statement in (
        update(audit_log).values(actor="cli:mallory"),
        update(audit_log).values(hash="0" * 64).where(audit_log.c.audit_id == 2),
        delete(audit_log),
        delete(audit_log).where(audit_log.c.audit_id == 2),
        text(replace.get(engine.dialect.name, f"REPLACE INTO audit_log_t {COPY}")),
    ):
        with pytest.raises(DBAPIError, match=audit_guard.REFUSAL), engine.begin() as connection:
            connection.execute(statement)
    with engine.connect() as connection:
        head = audit.newest_row(connection, HOST)
        assert head is not None
        assert audit.verify(connection, [head]) == (4, [])


def test_rows_up_to_the_anchor_of_their_own_chain_may_be_removed_and_not_changed(engine: Engine) -> None:
    anchor = {"supervisor_id": HOST, "audit_id": 2, "hash": "0" * 64, "archived_at": NOW}
    with engine.begin() as connection:
        audit.append(connection, "OtherHost", AuditEntry("cli:anna", "PAUSE", "West"), NOW)
        connection.execute(insert(audit_anchors), anchor)
    for statement in (
        update(audit_log).values(actor="cli:mallory").where(audit_log.c.audit_id == 1),
        delete(audit_log).where(audit_log.c.supervisor_id == "OtherHost"),
        delete(audit_log).where(audit_log.c.audit_id <= 3),
    ):
        with pytest.raises(DBAPIError, match=audit_guard.REFUSAL), engine.begin() as connection:
            connection.execute(statement)
    with engine.begin() as connection:
        connection.execute(delete(audit_log).where(audit_log.c.supervisor_id == HOST, audit_log.c.audit_id <= 2))
        left = connection.execute(select(audit_log.c.audit_id).where(audit_log.c.supervisor_id == HOST)).scalars().all()
    assert sorted(left) == [3, 4]


def test_an_upgrade_that_was_cut_off_makes_the_triggers_again(engine: Engine) -> None:
    with engine.begin() as connection:
        audit_guard.drop(connection)
        connection.execute(text("DELETE FROM alembic_version"))
    schema.ensure(engine)
    with pytest.raises(DBAPIError, match=audit_guard.REFUSAL), engine.begin() as connection:
        connection.execute(delete(audit_log))
