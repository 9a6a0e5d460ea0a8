"""A supervisor's life and its teams on SQLite, MariaDB and PostgreSQL, with real threads and writers that race."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import IntegrityError

from supervisor_core.daemon.services.agent import SupersededError, SupervisorAgent
from supervisor_core.storage import schema, supervisors
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import EngineTransactions, Ledger
from supervisor_core.storage.supervisors import SupervisorStatus
from supervisor_core.storage.tables import audit_log, team_members
from supervisor_core.workers.teams import MemberRole, TeamManager, add_member
from tests.support.daemon.agents import Heard, put_supervisor, row_of

T = TypeVar("T")
HOST = "TestHost"
S = SupervisorStatus
SOON_SECONDS = 0.05
"""Between two heartbeats, where a test waits for one."""


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    made = shared_engine(database_url)
    schema.ensure(made)
    yield made
    made.dispose()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (what it waits for is a row)
            await asyncio.sleep(0.01)


# The agent


def test_a_whole_life_is_in_the_database_before_it_is_announced(engine: Engine) -> None:
    heard = Heard(EngineTransactions(engine))

    async def story() -> None:
        agent = SupervisorAgent(HOST, engine, heard, heartbeat_seconds=SOON_SECONDS)
        await agent.start()
        await agent.pause("anna - storm")
        await agent.resume()
        await agent.fail("no drive")
        await agent.start()
        await agent.stop()
        await agent.stop()
        assert agent.status is S.TERMINATED

    asyncio.run(story())
    assert heard.kinds == ["started", "paused", "resumed", "started", "stopped"]
    assert heard.row_then == [S.ACTIVE, S.PAUSED, S.ACTIVE, S.ACTIVE, S.TERMINATED]
    row = row_of(EngineTransactions(engine), HOST)
    assert (row.status, row.paused, row.heartbeat_seconds) == (S.TERMINATED, False, SOON_SECONDS)
    assert row.started_at <= row.changed_at <= datetime.now(UTC)
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(audit_log)).scalar_one() == 0


def test_heartbeats_come_by_themselves_and_end_with_the_life(engine: Engine) -> None:
    database = EngineTransactions(engine)

    async def story() -> datetime | None:
        agent = SupervisorAgent(HOST, engine, heartbeat_seconds=SOON_SECONDS)
        await agent.start()
        first = row_of(database, HOST).last_heartbeat_at
        assert first is not None
        await until(lambda: (row_of(database, HOST).last_heartbeat_at or first) > first)
        await agent.stop()
        assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()
        return row_of(database, HOST).last_heartbeat_at

    last = asyncio.run(story())
    row = row_of(database, HOST)
    assert (row.status, row.last_heartbeat_at) == (S.TERMINATED, last)
    late = database.write(lambda connection: supervisors.beat(connection, row, datetime.now(UTC)))
    assert not late, "a beat that was under way when the life ended is not written"


def test_a_pause_survives_and_the_life_before_it_has_no_say_any_more(engine: Engine) -> None:
    async def story() -> None:
        older = SupervisorAgent(HOST, engine, heartbeat_seconds=0)
        await older.start()
        await older.pause("anna - storm")
        younger = SupervisorAgent(HOST, engine, heartbeat_seconds=0)
        await younger.start()
        assert younger.status is S.PAUSED
        with pytest.raises(SupersededError):
            await older.resume()
        row = row_of(EngineTransactions(engine), HOST)
        assert (row.status, row.paused, row.reason) == (S.PAUSED, True, "anna - storm")

    asyncio.run(story())


def test_of_two_that_move_the_same_row_at_once_one_wins(engine: Engine) -> None:
    database = EngineTransactions(engine)
    put_supervisor(database, HOST)
    row, now = row_of(database, HOST), datetime.now(UTC)

    def walk(to: SupervisorStatus) -> bool:
        path = [supervisors.move(row, S.ACTIVE, to, now, reason=str(to))]
        return supervisors.take_moves(database, row, path, now)[0]

    won = at_once(lambda: walk(S.PAUSED), lambda: walk(S.FAILED))
    assert sorted(won) == [False, True]
    assert row_of(database, HOST).reason == row_of(database, HOST).status


def test_it_lives_in_a_hosts_own_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / LEDGER_FILE, HOST) as ledger:

        async def story() -> None:
            agent = SupervisorAgent(HOST, ledger)
            await agent.start()
            assert TeamManager(ledger, HOST).get_team_status()["status"] == "ACTIVE"
            await agent.stop()

        asyncio.run(story())
        assert row_of(ledger, HOST).status is S.TERMINATED


# Teams


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Each in a thread of its own, begun together."""
    gate = threading.Barrier(len(calls))

    def one(call: Callable[[], T]) -> T:
        gate.wait(20)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def test_teams_do_all_that_they_should(engine: Engine) -> None:
    manager = TeamManager(engine, HOST)
    team = manager.create_team("Übung", "d", "o", {"a": [1]}, ["W1", "w1"])
    assert manager.get_teams() == [team]
    assert manager.remove_agent_from_team(team.team_id, "W1")
    assert not manager.remove_agent_from_team(team.team_id, "W1")
    manager.add_agent_to_team(team.team_id, "W1", "TRAINEE")
    assert {member.agent_id: str(member.role) for member in manager.get_team_members(team.team_id)} == {
        "w1": "MEMBER",
        "W1": "TRAINEE",
    }
    (shown,) = manager.get_team_status()["teams"]
    assert (shown["member_count"], shown["active_members"]) == (2, 2)


def test_the_database_itself_holds_an_agent_to_one_team(engine: Engine) -> None:
    manager = TeamManager(engine, HOST)
    archive, air = manager.create_team("archive", agent_ids=["W1"]), manager.create_team("air")

    def add(connection: Connection) -> object:
        return add_member(connection, HOST, air.team_id, "W1", MemberRole.MEMBER, datetime.now(UTC))

    with pytest.raises(IntegrityError):
        EngineTransactions(engine).write(add)
    manager.remove_agent_from_team(archive.team_id, "W1")
    EngineTransactions(engine).write(add)


def test_of_many_who_place_one_agent_at_once_one_does_and_the_others_are_told(engine: Engine) -> None:
    manager = TeamManager(engine, HOST)

    def place(agent_id: str, team_id: str) -> str:
        try:
            return TeamManager(engine, HOST).add_agent_to_team(team_id, agent_id).team_id
        except ValueError as error:
            return str(error)

    for number in range(5):
        ids = [manager.create_team(f"team {number}.{each}").team_id for each in range(4)]
        told = at_once(*(partial(place, f"W{number}", team_id) for team_id in ids))
        assert len(set(told) & set(ids)) == 1, told
        assert all("already" in words for words in set(told) - set(ids)), told
    with engine.connect() as connection:
        active = select(team_members.c.agent_id).where(team_members.c.active_agent_id.is_not(None))
        assert sorted(connection.execute(active).scalars()) == [f"W{number}" for number in range(5)]


def test_of_two_who_make_the_same_team_at_once_one_does(engine: Engine) -> None:
    def make() -> str:
        try:
            return TeamManager(engine, HOST).create_team("archive").name
        except ValueError as error:
            return str(error)

    assert sorted(words.partition(".")[0] for words in at_once(make, make)) == [
        "Team archive already exists",
        "archive",
    ]
