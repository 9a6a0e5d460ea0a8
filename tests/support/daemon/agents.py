"""Supervisors for tests: their rows in a real database that can be made to fail, and calls that block done at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, insert

from supervisor_core.common.events import Event
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.storage import supervisors
from supervisor_core.storage.store import Transactions
from supervisor_core.storage.supervisors import SupervisorMove, SupervisorRow, SupervisorStatus
from supervisor_core.storage.tables import supervisors as supervisors_table

T = TypeVar("T")
NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)


async def at_once(work: Callable[..., T], *arguments: Any) -> T:
    """Where an agent makes its calls to the database, in tests that need no threads."""
    return work(*arguments)


class Troubled:
    """A database, and what goes wrong with its writes: before anything is written, or after, on the way back."""

    def __init__(self, real: Transactions) -> None:
        self.real = real
        self.away: Exception | None = None
        self.answers_lost: Exception | None = None
        self.writes = 0

    def read(self, look: Callable[[Connection], T]) -> T:
        return self.real.read(look)

    def write(self, work: Callable[[Connection], T]) -> T:
        self.writes += 1
        if self.away:
            raise self.away
        done = self.real.write(work)
        if self.answers_lost:
            raise self.answers_lost
        return done


class Heard:
    """What was announced, and what the database said at that moment."""

    def __init__(self, database: Transactions) -> None:
        self._database = database
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.row_then: list[SupervisorStatus] = []

    def publish(self, event: Event) -> None:
        self.events.append((event.event_type, event.entity_id, dict(event.payload)))
        self.row_then.append(row_of(self._database, event.entity_id).status)

    @property
    def kinds(self) -> list[str]:
        return [kind.removeprefix("supervisor.") for kind, _, _ in self.events]


def row_of(database: Transactions, supervisor_id: str) -> SupervisorRow:
    row = database.read(lambda connection: supervisors.find(connection, supervisor_id))
    assert row is not None
    return row


async def ask(agent: SupervisorAgent, move: SupervisorMove) -> None:
    """One of its methods, by the name of the move."""
    if move is SupervisorMove.FAIL:
        await agent.fail("the disk is full")
    else:
        await getattr(agent, str(move))()


WAY = {
    SupervisorStatus.SPAWNING: (),
    SupervisorStatus.ACTIVE: (SupervisorMove.START,),
    SupervisorStatus.PAUSED: (SupervisorMove.START, SupervisorMove.PAUSE),
    SupervisorStatus.FAILED: (SupervisorMove.START, SupervisorMove.FAIL),
    SupervisorStatus.TERMINATED: (SupervisorMove.START, SupervisorMove.STOP),
}
"""How a new supervisor gets to each status."""


async def brought_to(agent: SupervisorAgent, status: SupervisorStatus) -> None:
    await agent.spawn()
    for move in WAY[status]:
        await ask(agent, move)
    assert agent.status is status


def put_supervisor(database: Transactions, supervisor_id: str, **values: Any) -> None:
    """A row as some other host wrote it."""
    row = {
        "supervisor_id": supervisor_id,
        "life": "0" * 32,
        "status": SupervisorStatus.ACTIVE,
        "paused": False,
        "heartbeat_seconds": 30.0,
        "hostname": "elsewhere",
        "pid": 4711,
        "version": "0.1.0",
        "started_at": NOW - timedelta(hours=1),
        "changed_at": NOW - timedelta(hours=1),
        "last_heartbeat_at": NOW,
        **values,
    }
    database.write(lambda connection: connection.execute(insert(supervisors_table), row))
