"""Bakes as rows: who is watched after a change of the code, filed once for each command and worker, moved by steps."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, RowMapping, func, insert, select

from supervisor_core.domain.baking import Bake, BakeState, Verdict
from supervisor_core.domain.texts import one_line, storable
from supervisor_core.ledger.jobs import card_again
from supervisor_core.ledger.steps import Step, record
from supervisor_core.ledger.tables import bakes

REASON = 300
"""Characters of why it ended so: a line on a card."""


def file(connection: Connection, bake: Bake, now: datetime) -> bool:
    """Keep a new one, and have its card told anew; False where this worker is known for this command already."""
    mine = (bakes.c.task_id == bake.task_id, bakes.c.worker_id == bake.worker_id)
    if connection.execute(select(bakes.c.state).where(*mine)).first() is not None:
        return False
    row = {
        "task_id": bake.task_id,
        "worker_id": bake.worker_id,
        "supervisor_id": bake.supervisor_id,
        "asked_for": bake.asked_for,
        "state": bake.state,
        "since": bake.since,
        "until": bake.until,
    }
    connection.execute(insert(bakes), row)
    record(connection, bake.supervisor_id, None, (card_again(bake.task_id),), now)
    return True


def of_task(connection: Connection, task_id: str) -> list[Bake]:
    """All of one command, by their workers."""
    query = select(bakes).where(bakes.c.task_id == task_id).order_by(bakes.c.worker_id)
    return [_bake(row) for row in connection.execute(query).mappings()]


def newest_of(connection: Connection, worker_id: str, since: datetime) -> Bake | None:
    """The last time that this worker was watched, unless that began before this moment."""
    query = select(bakes).where(bakes.c.worker_id == worker_id, bakes.c.since >= since)
    row = connection.execute(query.order_by(bakes.c.since.desc()).limit(1)).mappings().first()
    return _bake(row) if row else None


def watching(connection: Connection) -> list[Bake]:
    """Those that go on, the first to end first."""
    query = select(bakes).where(bakes.c.state == BakeState.WATCHING)
    query = query.order_by(bakes.c.until, bakes.c.task_id, bakes.c.worker_id)
    return [_bake(row) for row in connection.execute(query).mappings()]


def degraded(connection: Connection, since: datetime) -> list[Bake]:
    """Those that have degraded since then, where no newer change of the code concerns the worker."""
    newer = bakes.alias("newer")
    later = select(newer.c.task_id).where(newer.c.worker_id == bakes.c.worker_id, newer.c.since > bakes.c.since)
    query = select(bakes).where(bakes.c.state == BakeState.DEGRADED, bakes.c.until >= since, ~later.exists())
    return [_bake(row) for row in connection.execute(query.order_by(bakes.c.until)).mappings()]


def recover(bake: Bake, now: datetime) -> Step:
    """degraded → recovered; the card tells of it, and why it had degraded stays."""
    key = {"task_id": bake.task_id, "worker_id": bake.worker_id}
    values = {"decided_at": now}
    return Step(bakes, key, (BakeState.DEGRADED,), BakeState.RECOVERED, values, outbox=(card_again(bake.task_id),))


def first_end(connection: Connection) -> datetime | None:
    """When the first of those that go on ends."""
    query = select(func.min(bakes.c.until)).where(bakes.c.state == BakeState.WATCHING)
    moment: datetime | None = connection.execute(query).scalar()
    return moment


def move(bake: Bake, verdict: Verdict, now: datetime) -> Step:
    """watching → what came of it; the card tells of it. Whoever comes second changes nothing."""
    key = {"task_id": bake.task_id, "worker_id": bake.worker_id}
    values = {"decided_at": now, "reason": one_line(storable(verdict.reason), REASON) or None}
    return Step(bakes, key, (BakeState.WATCHING,), verdict.state, values, outbox=(card_again(bake.task_id),))


def _bake(row: RowMapping) -> Bake:
    return Bake(
        task_id=row["task_id"],
        worker_id=row["worker_id"],
        supervisor_id=row["supervisor_id"],
        asked_for=row["asked_for"],
        since=row["since"],
        until=row["until"],
        state=BakeState(row["state"]),
        decided_at=row["decided_at"],
        reason=row["reason"] or "",
    )
