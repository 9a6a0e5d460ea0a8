"""Approvals under fire: many people and programs at once, and one execution or none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.intake.approvals import rows
from supervisor_core.intake.approvals.rules import (
    Approval,
    ApprovalState,
    Choice,
    IllegalApprovalMove,
    Move,
    Terms,
    Vote,
)
from supervisor_core.intake.approvals.service import VoteRefused, count_vote
from supervisor_core.storage import schema
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.steps import take
from supervisor_core.storage.store import EngineTransactions, Ledger
from supervisor_core.workers.context import DaemonContext
from tests.support.intake.approvals import ANNA, BOB, CARD, MINUTE, NOW, Desk, a_desk, local_approvals

S = ApprovalState
PEOPLE = [Issuer(f"slack:T0/U{number}", f"person {number}") for number in range(10)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path) as made:
        yield made


def at_once(what: list[Callable[[], object]]) -> list[object]:
    """Do all of these in threads that begin together; what each came to."""
    barrier = threading.Barrier(len(what))

    def one(work: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return work()
        except VoteRefused as refused:
            return refused

    with ThreadPoolExecutor(len(what)) as pool:
        return list(pool.map(one, what))


@pytest.mark.parametrize("needed", [1, 3])
def test_a_hundred_clicks_by_ten_people_at_once_are_one_execution(tmp_path: Path, needed: int) -> None:
    with a_desk(tmp_path, votes=needed) as desk:
        approvals, asked = desk.approvals, desk.ask()

        def click(who: Issuer) -> None:
            approvals.vote(asked.approval_id, who, Choice.APPROVE, now=NOW)
            approvals.carry_on(NOW)

        said = at_once([partial(click, who) for who in PEOPLE * 10])
        approvals.carry_on(NOW)
        found, votes = approvals.find(asked.approval_id)
        assert found.state is S.EXECUTING
        assert len(votes) == len({vote.voter.id for vote in votes}) == needed
        assert len(desk.jobs()) == 1
        assert desk.actions() == ["APPROVAL_REQUESTED", "APPROVED"]
        assert all(each is None or "already" in str(each) for each in said)


def test_approve_deny_cancel_and_expiry_at_once_come_to_one_end(tmp_path: Path) -> None:
    for number in range(10):
        (folder := tmp_path / str(number)).mkdir()
        with a_desk(folder) as desk:
            asked = desk.ask()
            approvals, almost = desk.approvals, NOW + 15 * MINUTE - MINUTE / 100
            vote = approvals.vote
            at_once(
                [
                    lambda: vote(asked.approval_id, PEOPLE[1], Choice.APPROVE, now=almost),  # noqa: B023
                    lambda: vote(asked.approval_id, PEOPLE[2], Choice.DENY, now=almost),  # noqa: B023
                    lambda: approvals.cancel(asked.approval_id, ANNA, now=almost),  # noqa: B023
                    lambda: approvals.expire_due(NOW + 15 * MINUTE),  # noqa: B023
                    lambda: approvals.carry_on(almost),  # noqa: B023
                ]
            )
            ended = approvals.find(asked.approval_id)[0].state
            carried = ended is S.EXECUTING
            assert len(desk.jobs()) == carried
            decided = [action for action in desk.actions()[1:] if action != "REFUSED"]
            assert decided in (
                ["APPROVED"],
                ["APPROVED", "CANCELLED"],
                ["DENIED"],
                ["CANCELLED"],
                ["EXPIRED"],
            ), (ended, decided)


def test_several_programs_carry_the_same_one_out_once(desk: Desk, tmp_path: Path) -> None:
    """A daemon and some shells: each has the same ledger open for itself."""
    asked = desk.ask("restart all")
    desk.approvals.vote(asked.approval_id, BOB, Choice.APPROVE, now=NOW)
    ledgers = [Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost") for _ in range(4)]
    try:
        programs = [local_approvals(DaemonContext(desk.parts.host, ledger), desk.rights) for ledger in ledgers]
        at_once([partial(program.execute, asked.approval_id, NOW) for program in programs])
    finally:
        for ledger in ledgers:
            ledger.close()
    assert [job.worker_id for job in desk.jobs()] == ["North", "South"]
    assert desk.approvals.find(asked.approval_id)[0].state is S.EXECUTING


# The tables themselves, on all three engines.


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    made = shared_engine(database_url)
    schema.ensure(made)
    yield made
    made.dispose()


def an_approval(needed: int = 1) -> Approval:
    return Approval(
        approval_id="abc12345",
        supervisor_id="TestHost",
        command=Command("rollback", "North", ("North",), {"commits_back": 3}, "hotfix", ANNA, "task_1"),
        door="slack",
        card=CARD,
        previews=({"command": "rollback", "workers": [{"id": "North", "paused": False}], "state": "s"},),
        fingerprint="f" * 64,
        terms=Terms(ANNA.id, needed),
        state=S.PENDING,
        requested_at=NOW,
        expires_at=NOW + 15 * MINUTE,
        due_at=NOW + 15 * MINUTE,
    )


def test_votes_on_each_engine_are_counted_once_each_and_decide_once(engine: Engine) -> None:
    database, asked = EngineTransactions(engine), an_approval(needed=2)
    database.write(lambda connection: rows.file(connection, asked))

    def say(who: Issuer) -> str:
        vote = Vote(who, Choice.APPROVE, NOW, "fine", "slack")

        def count(connection: Connection) -> str:
            return count_vote(connection, asked.approval_id, vote)

        return database.write(count)

    said = at_once([partial(say, who) for who in PEOPLE[:4] * 2])
    assert sorted(map(bool, said)) == [False] * 2 + [True] * 6
    found = database.read(lambda connection: rows.find(connection, asked.approval_id))
    votes = database.read(lambda connection: rows.votes_of(connection, asked.approval_id))
    assert found is not None
    assert (found.state, len(votes), [vote.reason for vote in votes]) == (S.APPROVED, 2, ["fine", "fine"])


def test_a_move_on_each_engine_is_made_from_where_it_may_be_and_once(engine: Engine) -> None:
    database, asked = EngineTransactions(engine), an_approval()
    database.write(lambda connection: rows.file(connection, asked))

    def made(move: Move) -> bool:
        step = rows.move(asked, move, "supervisor", "late", NOW)
        return database.write(lambda connection: take(connection, asked.supervisor_id, step, NOW))

    with pytest.raises(IllegalApprovalMove, match="is pending can't execute"):
        made(Move.EXECUTE)
    assert [made(Move.EXPIRE), made(Move.EXPIRE), made(Move.DENY)] == [True, False, False]
    found = database.read(lambda connection: rows.find(connection, "task_1"))
    assert found is not None
    assert (found.state, found.reason, found.finished_at, found.due_at) == (S.EXPIRED, "late", NOW, None)
