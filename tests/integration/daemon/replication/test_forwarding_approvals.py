"""Approvals and their votes come to the shared database as they are, each once, on all three engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, select

from supervisor_core.daemon.replication import table_copies as forward_changes
from supervisor_core.daemon.replication.table_copies import CopyScope
from supervisor_core.intake.approvals.rules import Choice
from supervisor_core.storage.replication_progress import Marks
from supervisor_core.storage.tables import approvals, forwarding, votes
from tests.support.intake.approvals import BOB, CARL, NOW, Desk, a_desk
from tests.support.storage.forwarded_rows import bring_all, shared
from tests.support.storage.forwarded_rows import forwarding as a_forwarding


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path, votes=2) as made:
        yield made


def everything(connection: Connection) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for table, keys in ((approvals, ["approval_id"]), (votes, ["approval_id", "place"])):
        query = select(table).order_by(*(table.c[key] for key in keys))
        found += [dict(row) for row in connection.execute(query).mappings()]
    return found


def assert_there(desk: Desk, url: str) -> None:
    with shared(url) as engine, engine.connect() as there:
        assert everything(there) == desk.ledger.read(everything)


def test_each_change_of_an_approval_is_brought_and_nothing_twice(desk: Desk, database_url: str) -> None:
    asked, now = desk.ask(at=datetime.now(UTC)), datetime.now(UTC)
    with a_forwarding(desk.ledger, database_url) as made:
        bring_all(made)
        assert_there(desk, database_url)
        for voter in (BOB, CARL):
            desk.approvals.vote(asked.approval_id, voter, Choice.APPROVE, "fine", now=now)
            bring_all(made)
            assert_there(desk, database_url)
        desk.approvals.carry_on(now)
        desk.end_jobs()
        desk.approvals.settle(now)
        bring_all(made)
        assert_there(desk, database_url)
        assert bring_all(made) == 0


def test_a_database_made_anew_gets_all_of_them_again_however_many(
    desk: Desk, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_changes, "MOST_APPROVALS", 2)
    for number in range(5):
        desk.ask(task_id=f"task_{number}")
        desk.approvals.vote(f"task_{number}", BOB, Choice.DENY, now=NOW)
    with a_forwarding(desk.ledger, database_url) as made:
        bring_all(made)
        assert_there(desk, database_url)
        with shared(database_url) as engine, engine.begin() as there:
            for table in (votes, approvals, forwarding):
                there.execute(delete(table))
        bring_all(made)
    assert_there(desk, database_url)


def test_what_ended_long_ago_is_not_compared_any_more(desk: Desk, database_url: str) -> None:
    desk.ask()
    desk.approvals.vote("task_1", BOB, Choice.DENY, now=NOW)
    with a_forwarding(desk.ledger, database_url) as made:
        bring_all(made)
    later = NOW + forward_changes.APPROVALS_COMPARED_FOR + timedelta(seconds=1)
    with shared(database_url) as engine:

        def compared(brought_at: datetime, *, all_of_them: bool = False) -> int:
            def look(local: Connection) -> int:
                marks = Marks(forwarded_at=brought_at)
                with engine.connect() as there:
                    scope = CopyScope(local, there, "TestHost", marks, 500, 4_000_000, all_of_them, set())
                    rows = forward_changes.approvals_that_differ(scope, approvals)
                assert not scope.unfinished
                return len(rows)

            return desk.ledger.read(look)

        assert (compared(later, all_of_them=True), compared(NOW), compared(later)) == (0, 0, 0)
        with engine.begin() as there:
            there.execute(delete(approvals))
        assert (compared(later, all_of_them=True), compared(NOW), compared(later)) == (1, 1, 0)
