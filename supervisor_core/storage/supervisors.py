"""Supervisors as rows, one for each name, and the moves of a supervisor's life.

    spawning ─ start ─→ active ─ pause ─→ paused ─ resume ─→ active
        └──── fail ────────┴──→ failed ─ start ─→ active
                active, paused, failed ─ stop ─→ terminated

Terminated is the end of a life. The next process with the same name begins a new one, at spawning. Each life has an id:
a row with another one belongs to a successor, and neither a step nor a heartbeat of a process that was thought dead
gets into it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, update

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import one_line
from supervisor_core.storage.steps import Step, take
from supervisor_core.storage.store import Transactions
from supervisor_core.storage.tables import supervisors


class SupervisorStatus(StrEnum):
    """The status of a supervisor in its life cycle."""

    SPAWNING = "SPAWNING"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    TERMINATED = "TERMINATED"


class SupervisorMove(StrEnum):
    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    FAIL = "fail"


class IllegalSupervisorMove(SupervisorError):
    """The supervisor's status doesn't allow this."""


_S, _M = SupervisorStatus, SupervisorMove

# Where a move leads. To where one stands already: nothing changes, and a warning says so. What is not here is illegal.
MOVES: Mapping[SupervisorStatus, Mapping[SupervisorMove, SupervisorStatus]] = MappingProxyType(
    {
        _S.SPAWNING: MappingProxyType({_M.START: _S.ACTIVE, _M.FAIL: _S.FAILED, _M.STOP: _S.SPAWNING}),
        _S.ACTIVE: MappingProxyType(
            {
                _M.START: _S.ACTIVE,
                _M.PAUSE: _S.PAUSED,
                _M.RESUME: _S.ACTIVE,
                _M.FAIL: _S.FAILED,
                _M.STOP: _S.TERMINATED,
            }
        ),
        _S.PAUSED: MappingProxyType({_M.RESUME: _S.ACTIVE, _M.PAUSE: _S.PAUSED, _M.STOP: _S.TERMINATED}),
        _S.FAILED: MappingProxyType({_M.START: _S.ACTIVE, _M.STOP: _S.TERMINATED}),
        _S.TERMINATED: MappingProxyType({_M.STOP: _S.TERMINATED}),
    }
)

ALIVE = frozenset({SupervisorStatus.ACTIVE, SupervisorStatus.PAUSED})
"""The statuses in which heartbeats are written and expected."""

_INSTEAD: Mapping[tuple[SupervisorStatus, SupervisorMove], str] = MappingProxyType(
    {
        (_S.PAUSED, _M.START): "It's running, but paused. `resume` ends the pause.",
        (_S.SPAWNING, _M.PAUSE): "It's starting. Try again in a moment.",
        (_S.SPAWNING, _M.RESUME): "It's starting. Try again in a moment.",
        (_S.FAILED, _M.RESUME): "It isn't paused. `start` restarts it.",
        (_S.PAUSED, _M.FAIL): "Only a spawning or active supervisor can fail. Stop or resume it first.",
    }
)


def next_status(status: SupervisorStatus, move: SupervisorMove) -> SupervisorStatus:
    """The status after a move, the same one where nothing changes; `IllegalSupervisorMove` for a move not allowed."""
    try:
        return MOVES[status][move]
    except KeyError:
        can = [str(each) for each, to in MOVES[status].items() if to is not status]
        usual = f"From there it can {' or '.join(can)}." if can else "Only a new process can start again."
        raise IllegalSupervisorMove(
            f"A supervisor that is {status} can't {move}.", remedy=_INSTEAD.get((status, move), usual)
        ) from None


HOSTNAME = 255


@dataclass(frozen=True, slots=True)
class SupervisorRow:
    """A supervisor by its row. Only a check of the process shows its real state."""

    supervisor_id: str
    life: str
    status: SupervisorStatus
    paused: bool
    """True if monitoring is paused, or will be after the start."""
    heartbeat_seconds: float
    hostname: str
    pid: int
    version: str
    started_at: datetime
    changed_at: datetime
    last_heartbeat_at: datetime | None
    reason: str | None


def begin_life(
    connection: Connection, supervisor_id: str, facts: Mapping[str, Any], now: datetime
) -> tuple[SupervisorRow, SupervisorRow | None]:
    """Begin a new life. Returns the new row, and the row that the last life left.

    A pause that a person requested, with its reason, outlives the process.
    """
    before = find(connection, supervisor_id)
    values = {
        **facts,
        "hostname": one_line(facts["hostname"], HOSTNAME),
        "life": uuid.uuid4().hex,
        "started_at": now,
        "changed_at": now,
        "last_heartbeat_at": None,
        "reason": before.reason if before and before.paused else None,
    }
    if before is None:
        first = {"supervisor_id": supervisor_id, "status": SupervisorStatus.SPAWNING, "paused": False}
        connection.execute(insert(supervisors), {**first, **values})
    else:
        again = _step(before, tuple(SupervisorStatus), SupervisorStatus.SPAWNING, values)
        if not take(connection, supervisor_id, again, now):
            raise RuntimeError(f"another process just started as {supervisor_id}")
    row = find(connection, supervisor_id)
    if row is None:  # pragma: no cover (it was written in this transaction)
        raise RuntimeError(f"the row of {supervisor_id} is missing")
    return row, before


def move(
    row: SupervisorRow,
    begun: SupervisorStatus,
    to: SupervisorStatus,
    now: datetime,
    **also: Any,  # noqa: ANN401 (values of the other columns)
) -> Step:
    """A move of this run, which also counts as a heartbeat. It has no audit row, because it isn't a command."""
    if to in ALIVE and row.heartbeat_seconds > 0:
        also["last_heartbeat_at"] = now
    return _step(row, (begun,), to, {"changed_at": now, **also})


def take_moves(
    database: Transactions, row: SupervisorRow, path: Sequence[Step], now: datetime
) -> tuple[bool, SupervisorRow | None]:
    """Take moves one after the other, all or none. Returns whether they were taken, and the current row."""

    def work(connection: Connection) -> tuple[bool, SupervisorRow | None]:
        for number, step in enumerate(path):
            if not take(connection, row.supervisor_id, step, now):
                if number:
                    raise RuntimeError(f"no move leads to the start of {step.name}")
                return False, find(connection, row.supervisor_id)
        return True, find(connection, row.supervisor_id)

    for step in path:
        crashpoints.reach(f"{step.name}:before")
    done = database.write(work)
    for step in path:
        crashpoints.reach(f"{step.name}:after")
    return done


def beat(connection: Connection, row: SupervisorRow, now: datetime) -> bool:
    """Record a heartbeat; False if the row belongs to another run or this run has ended."""
    mine = (supervisors.c.supervisor_id == row.supervisor_id, supervisors.c.life == row.life)
    alive = supervisors.c.status.in_(sorted(ALIVE))
    done = connection.execute(update(supervisors).where(*mine, alive).values(last_heartbeat_at=now))
    return done.rowcount == 1


def find(connection: Connection, supervisor_id: str) -> SupervisorRow | None:
    query = select(supervisors).where(supervisors.c.supervisor_id == supervisor_id)
    found = connection.execute(query).mappings().first()
    return _row(found) if found else None


def pause_reason(connection: Connection, supervisor_id: str) -> str:
    """The reason why monitoring is paused; empty where it isn't."""
    row = find(connection, supervisor_id)
    return (row.reason or "paused") if row is not None and row.status is SupervisorStatus.PAUSED else ""


def _step(
    row: SupervisorRow, expected: tuple[SupervisorStatus, ...], to: SupervisorStatus, values: Mapping[str, Any]
) -> Step:
    key = {"supervisor_id": row.supervisor_id, "life": row.life}
    return Step(supervisors, key, expected, to, values, column="status")


def _row(found: RowMapping) -> SupervisorRow:
    values = dict(found)
    return SupervisorRow(**{**values, "status": SupervisorStatus(values["status"])})
