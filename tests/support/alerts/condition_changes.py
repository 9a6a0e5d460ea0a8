"""Flips as whoever looks after the conditions would have written them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts.flips import ConditionChange
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import WORKER, Condition, Target


def flip_to(ledger: Ledger, supervisor_id: str, worker_id: str, *changes: tuple[datetime, Condition]) -> None:
    """One after the other, each seen when it happened."""
    for at, new in changes:
        ledger.write(partial(_write, supervisor_id=supervisor_id, worker_id=worker_id, at=at, new=new))


def _write(connection: Connection, supervisor_id: str, worker_id: str, at: datetime, new: Condition) -> None:
    target = Target(WORKER, worker_id)
    known = flips.current_condition(connection, supervisor_id, target)
    flips.record_flips(connection, supervisor_id, [ConditionChange(target, known, new, f"it was {new}", at)], at)


def hours(now: datetime, *changes: tuple[float, Condition]) -> Sequence[tuple[datetime, Condition]]:
    """The same by how many hours ago."""
    return [(now - timedelta(hours=ago), new) for ago, new in changes]
