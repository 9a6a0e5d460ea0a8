"""A supervisor's life: each move from each status, in the database first, and heartbeats that nothing ends but its end.

The loop's clock is virtual, as in the tests of services.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.daemon.services.agent import EVENTS, SupervisorAgent
from supervisor_core.storage import schema
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.store import EngineTransactions
from supervisor_core.storage.supervisors import (
    ALIVE,
    IllegalSupervisorMove,
    SupervisorMove,
    SupervisorStatus,
)
from supervisor_core.workers.heartbeats.service import RETRY_SECONDS
from tests.support.daemon.agents import NOW, Heard, Troubled, ask, at_once, brought_to, row_of
from tests.support.sampling import examples
from tests.unit.common.test_services import now, run

S, M = SupervisorStatus, SupervisorMove
ILLEGAL = "illegal"

# The whole machine, written out: where each move leads from each status. To the same one: a warning, no change.
EXPECTED: dict[tuple[SupervisorStatus, SupervisorMove], SupervisorStatus | str] = {
    (S.SPAWNING, M.START): S.ACTIVE,
    (S.SPAWNING, M.STOP): S.SPAWNING,
    (S.SPAWNING, M.PAUSE): ILLEGAL,
    (S.SPAWNING, M.RESUME): ILLEGAL,
    (S.SPAWNING, M.FAIL): S.FAILED,
    (S.ACTIVE, M.START): S.ACTIVE,
    (S.ACTIVE, M.STOP): S.TERMINATED,
    (S.ACTIVE, M.PAUSE): S.PAUSED,
    (S.ACTIVE, M.RESUME): S.ACTIVE,
    (S.ACTIVE, M.FAIL): S.FAILED,
    (S.PAUSED, M.START): ILLEGAL,
    (S.PAUSED, M.STOP): S.TERMINATED,
    (S.PAUSED, M.PAUSE): S.PAUSED,
    (S.PAUSED, M.RESUME): S.ACTIVE,
    (S.PAUSED, M.FAIL): ILLEGAL,
    (S.FAILED, M.START): S.ACTIVE,
    (S.FAILED, M.STOP): S.TERMINATED,
    (S.FAILED, M.PAUSE): ILLEGAL,
    (S.FAILED, M.RESUME): ILLEGAL,
    (S.FAILED, M.FAIL): ILLEGAL,
    (S.TERMINATED, M.START): ILLEGAL,
    (S.TERMINATED, M.STOP): S.TERMINATED,
    (S.TERMINATED, M.PAUSE): ILLEGAL,
    (S.TERMINATED, M.RESUME): ILLEGAL,
    (S.TERMINATED, M.FAIL): ILLEGAL,
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineTransactions]:
    engine = shared_engine(f"sqlite:///{tmp_path_factory.mktemp('lives') / 'shared.db'}")
    schema.ensure(engine)
    yield EngineTransactions(engine)
    engine.dispose()


class World:
    """A supervisor of its own in the database of all, with what went wrong there and what was announced."""

    def __init__(self, database: EngineTransactions) -> None:
        self.id = f"host-{uuid.uuid4().hex[:12]}"
        self.database = Troubled(database)
        self.heard = Heard(database)

    def agent(self, **more: Any) -> SupervisorAgent:
        facts: dict[str, Any] = {
            "event_bus": self.heard,
            "clock": self.clock,
            "elsewhere": at_once,
            "heartbeat_seconds": 0,
        }
        return SupervisorAgent(self.id, self.database, **{**facts, **more})

    @staticmethod
    def clock() -> datetime:
        return NOW + timedelta(seconds=now())

    @property
    def status(self) -> SupervisorStatus:
        return row_of(self.database, self.id).status


@pytest.fixture
def world(database: EngineTransactions) -> World:
    return World(database)


@settings(max_examples=examples(60))
@given(moves=st.lists(st.sampled_from(list(SupervisorMove)), max_size=12))
def test_whatever_is_asked_in_whatever_order_the_row_and_the_agent_agree(
    database: EngineTransactions, moves: list[SupervisorMove]
) -> None:
    world = World(database)

    async def story() -> None:
        agent, expected, paused = world.agent(), S.SPAWNING, False
        announced: list[SupervisorStatus] = []
        await agent.spawn()
        for move in moves:
            before, leads = expected, EXPECTED[expected, move]
            starts_anew = (before, move) == (S.TERMINATED, M.START)
            if starts_anew:
                leads = S.PAUSED if paused else S.ACTIVE  # a pause stays in force for the next life
            try:
                await ask(agent, move)
            except IllegalSupervisorMove:
                assert leads == ILLEGAL
            else:
                expected = SupervisorStatus(leads)
                paused = expected is S.PAUSED or (paused and move is not M.RESUME)
            assert agent.status is world.status is expected
            announced += [expected] if starts_anew and paused else []
            announced += [expected] if expected is not before and move in EVENTS else []
        assert world.heard.row_then == announced

    run(story())


@pytest.mark.parametrize("move", [M.START, M.STOP, M.PAUSE, M.FAIL])
def test_a_move_that_the_database_does_not_take_has_not_happened_and_may_be_asked_again(
    world: World, move: SupervisorMove
) -> None:
    status = S.SPAWNING if move is M.START else S.ACTIVE

    async def story() -> None:
        agent = world.agent()
        await brought_to(agent, status)
        world.heard.events.clear()
        world.database.away = OSError("the disk is full")
        with pytest.raises(OSError, match="the disk is full"):
            await ask(agent, move)
        assert agent.status is world.status is status
        assert world.heard.events == []
        world.database.away = None
        await ask(agent, move)
        assert agent.status is world.status is EXPECTED[status, move]

    run(story())


def test_a_move_is_done_to_the_end_although_nobody_waits_for_it_any_more(world: World) -> None:
    async def story() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(work: Callable[..., Any], *arguments: Any) -> Any:
            done = work(*arguments)
            begun.set()
            await go_on.wait()
            return done

        agent = world.agent(elsewhere=slowly)
        asking = asyncio.ensure_future(agent.fail("no drive"))
        await begun.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert str(agent.status) == "SPAWNING"
        go_on.set()
        await agent.stop()  # waits for its turn
        assert agent.status is world.status is S.TERMINATED
        assert row_of(world.database, world.id).reason == "no drive"

    run(story())


# One life after another


@pytest.mark.parametrize("left", list(S))
def test_a_new_life_begins_at_spawning_whatever_the_last_one_left(
    world: World, left: SupervisorStatus, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        await brought_to(world.agent(heartbeat_seconds=30), left)
        caplog.clear()
        agent = world.agent()
        await agent.spawn()
        row = row_of(world.database, world.id)
        assert agent.status is row.status is S.SPAWNING
        assert row.last_heartbeat_at is None, "a dead one's last beat never speaks for its successor"

    run(story())
    assert ("didn't stop normally last time" in caplog.text) == (left in ALIVE)


# Heartbeats


def beats_of(world: World) -> float | None:
    last = row_of(world.database, world.id).last_heartbeat_at
    return None if last is None else (last - NOW).total_seconds()


def tasks_left() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def test_errors_of_a_heartbeat_are_told_once_for_each_kind_and_end_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        agent = world.agent(heartbeat_seconds=30)
        await agent.start()
        await asyncio.sleep(1)
        world.database.away, world.database.writes = OSError("the disk is full"), 0
        await asyncio.sleep(29 + 3 * RETRY_SECONDS + 1)
        assert world.database.writes == 4, "at 30 s, and then every 5 s"
        assert "the disk is full" in agent.problem()
        world.database.away = RuntimeError("something else")
        await asyncio.sleep(2 * RETRY_SECONDS)
        world.database.away = None
        await asyncio.sleep(RETRY_SECONDS)
        assert beats_of(world) == now() - 1, "the first one that could be"
        assert agent.problem() == ""
        await agent.stop()

    run(story())
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2
    assert "OSError" in errors[0]
    assert "RuntimeError" in errors[1]
    assert caplog.text.count("is written again") == 1


def test_a_stop_does_not_wait_for_a_heartbeat_that_hangs(world: World) -> None:
    async def story() -> None:
        hangs = asyncio.Event()

        async def elsewhere(work: Callable[..., Any], *arguments: Any) -> Any:
            if asyncio.current_task() and "heartbeat" in asyncio.current_task().get_name():  # type: ignore[union-attr]
                hangs.set()
                await asyncio.get_running_loop().create_future()
            return work(*arguments)

        agent = world.agent(heartbeat_seconds=30, elsewhere=elsewhere)
        await agent.start()
        await hangs.wait()
        await agent.stop()
        assert agent.status is world.status is S.TERMINATED
        assert tasks_left() == set()

    run(story())


def test_a_process_that_was_thought_dead_says_that_its_row_is_anothers_and_leaves_it_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        older, younger = world.agent(heartbeat_seconds=30), world.agent(heartbeat_seconds=1000)
        await older.start()
        await younger.start()
        await asyncio.sleep(200)
        assert beats_of(world) == 0, "the younger one's"
        assert "belongs to another process" in older.problem()
        for agent in (older, younger):
            agent_task = agent._heartbeat  # noqa: SLF001 (the older one can't be stopped in the usual way)
            await agent_task.end()

    run(story())
    assert caplog.text.count("belongs to another process") == 1
