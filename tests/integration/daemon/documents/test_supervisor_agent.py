"""The supervisor agent as its requirement document uses it: with an id, a database service and an event bus."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, StaticPool, create_engine, event
from sqlalchemy.orm import Session, sessionmaker

from supervisor_core import EventBus, SupervisorAgent, SystemEvent, TeamManager
from supervisor_core.common.errors import UsageError
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.store import Ledger, transactions
from tests.support.daemon.agents import row_of


class DatabaseService:
    """Sessions as the document's service makes them."""

    def __init__(self, url: str, **arguments: Any) -> None:
        self.engine = create_engine(url, **arguments)
        self._sessions = sessionmaker(bind=self.engine)

    @contextmanager
    def get_session(self) -> Iterator[Session]:
        session = self._sessions()
        try:
            yield session
            session.commit()
        except BaseException:
            session.rollback()
            raise
        finally:
            session.close()


class EventBusService:
    """Keeps what it was given, as JSON."""

    def __init__(self) -> None:
        self.published: list[dict[str, Any]] = []

    def publish(self, event: Any) -> None:
        fields = ("event_type", "entity_type", "entity_id", "payload")
        self.published.append(json.loads(json.dumps({name: getattr(event, name) for name in fields})))


ZONES = {"mysql": "SET time_zone = '+05:00'", "postgresql": "SET TIME ZONE 'Asia/Karachi'"}


@pytest.fixture
def db(database_url: str) -> Iterator[DatabaseService]:
    """The service of a program that lives five hours east."""
    service = DatabaseService(database_url)

    @event.listens_for(service.engine, "connect")
    def _move(connection: Any, _: object) -> None:
        if zone := ZONES.get(service.engine.dialect.name):
            with connection.cursor() as cursor:
                cursor.execute(zone)
            connection.commit()

    yield service
    service.engine.dispose()


def test_the_life_of_the_document(db: DatabaseService, database_url: str) -> None:
    supervisor_id, event_bus = uuid4(), EventBusService()

    async def story() -> None:
        agent = SupervisorAgent(supervisor_id, db, event_bus)
        assert (agent.supervisor_id, agent.db, agent.event_bus) == (supervisor_id, db, event_bus)
        assert (agent.running, agent.status) == (False, "SPAWNING")
        await agent.start()
        assert (agent.running, agent.status) == (True, "ACTIVE")
        await agent.pause()
        assert (agent.running, agent.status) == (True, "PAUSED")
        await agent.resume()
        team = agent.team_manager.create_team("archive", objective="keep it flowing", agent_ids=["W1", "W2"])
        agent.team_manager.remove_agent_from_team(team.id, "W2")
        assert [each.id for each in agent.team_manager.get_teams()] == [team.id]
        members = {member.agent_id: member for member in agent.team_manager.get_team_members(team.id)}
        left_at = members["W2"].left_at
        assert left_at is not None
        assert sorted((m.agent_id, m.left_at) for m in members.values()) == [
            ("W1", None),
            ("W2", left_at),
        ]
        assert await agent.get_team_status() == {
            "supervisor_id": str(supervisor_id),
            "status": "ACTIVE",
            "teams": [
                {
                    "team_id": team.id,
                    "team_name": "archive",
                    "objective": "keep it flowing",
                    "member_count": 2,
                    "active_members": 1,
                }
            ],
            "total_teams": 1,
            "total_members": 1,
        }
        await agent.stop()
        assert (agent.running, agent.status) == (False, "TERMINATED")
        await agent.start()
        assert (agent.running, agent.status) == (True, "ACTIVE")
        await agent.stop()

    asyncio.run(story())
    kinds = ["supervisor.started", "supervisor.paused", "supervisor.resumed", "supervisor.stopped"]
    kinds += ["supervisor.started", "supervisor.stopped"]
    assert [each["event_type"] for each in event_bus.published] == kinds
    assert {(each["entity_type"], each["entity_id"]) for each in event_bus.published} == {
        ("supervisor", str(supervisor_id))
    }
    assert all(each["payload"]["timestamp"] for each in event_bus.published)
    engine = shared_engine(database_url)
    row = row_of(transactions(engine), str(supervisor_id))
    engine.dispose()
    assert (row.status, row.heartbeat_seconds) == ("TERMINATED", 30)
    assert row.last_heartbeat_at is not None
    assert abs(datetime.now(UTC) - row.last_heartbeat_at) < timedelta(minutes=5)


def test_our_own_bus_hears_every_event(tmp_path: Path) -> None:
    async def story() -> list[str]:
        bus = EventBus()
        heard = bus.subscribe()
        agent = SupervisorAgent("TestHost", f"sqlite:///{tmp_path / 'teams.db'}", bus)
        await agent.start()
        await agent.stop()
        bus.close()
        return [event.event_type async for event in heard]

    assert asyncio.run(story()) == ["supervisor.started", "supervisor.stopped"]


def test_an_asynchronous_bus_is_awaited(tmp_path: Path) -> None:
    taken: list[str] = []

    class AsyncBus:
        async def publish(self, event: Any) -> None:
            await asyncio.sleep(0)
            taken.append(event.event_type)

    async def story() -> None:
        agent = SupervisorAgent("TestHost", f"sqlite:///{tmp_path / 'teams.db'}", AsyncBus())
        await agent.start()
        assert taken == ["supervisor.started"]
        await agent.stop()

    asyncio.run(story())
    assert taken == ["supervisor.started", "supervisor.stopped"]


def in_memory(_: Path) -> DatabaseService:
    return DatabaseService("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})


def on_engine(folder: Path) -> Engine:
    return shared_engine(f"sqlite:///{folder / 'engine.db'}")


def in_a_ledger(folder: Path) -> Ledger:
    return Ledger(folder / "ledger.db", "TestHost")


@pytest.mark.parametrize("make", [in_memory, on_engine, in_a_ledger])
def test_a_database_may_be_of_any_kind(make: Callable[[Path], Any], tmp_path: Path) -> None:
    database, supervisor_id = make(tmp_path), UUID(int=7)

    async def story() -> None:
        agent = SupervisorAgent(supervisor_id, database, heartbeat_seconds=0.01)
        await agent.start()
        await asyncio.sleep(0.1)
        assert agent.problem() == ""
        await agent.stop()

    asyncio.run(story())
    assert row_of(transactions(database), str(supervisor_id)).status == "TERMINATED"
    if isinstance(database, Ledger):
        database.close()
    else:
        getattr(database, "engine", database).dispose()


def test_an_in_memory_database_of_each_thread_is_refused() -> None:
    service = DatabaseService("sqlite://")
    with pytest.raises(UsageError, match="StaticPool"):
        TeamManager(service, "TestHost").get_teams()
    service.engine.dispose()


def test_a_write_that_fails_is_undone(db: DatabaseService) -> None:
    manager = TeamManager(db, "TestHost")
    manager.create_team("first", agent_ids=["W1"])
    with pytest.raises(ValueError, match="W1"):
        manager.create_team("second", agent_ids=["W1"])
    assert [team.name for team in manager.get_teams()] == ["first"]


def test_an_event_is_made_as_in_the_document() -> None:
    event = SystemEvent(event_type="supervisor.paused", entity_type="supervisor", entity_id="s1", payload={"why": "x"})
    bus = EventBus()
    subscription = bus.subscribe()
    bus.publish(event)
    got = subscription.get(5)
    assert got is not None
    assert (got.event_type, got.entity_type, got.entity_id, got.payload["why"]) == (
        "supervisor.paused",
        "supervisor",
        "s1",
        "x",
    )
    with pytest.raises(ValueError, match="worker"):
        SystemEvent("supervisor.paused", "worker", "s1", {})


def test_a_database_by_its_address_leaves_no_connection_open(tmp_path: Path) -> None:
    async def story() -> SupervisorAgent:
        agent = SupervisorAgent(uuid4(), f"sqlite:///{tmp_path}/supervisors.db", EventBus())
        await agent.start()
        agent.team_manager.create_team("archive", agent_ids=["W1"])
        await agent.get_team_status()
        await agent.stop()
        return agent

    agent = asyncio.run(story())
    open_files = [str(entry.resolve()) for entry in Path("/proc/self/fd").iterdir()]
    assert not [path for path in open_files if path.startswith(str(tmp_path.resolve()))], agent
