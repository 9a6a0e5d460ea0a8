"""Rows of the ledger that only tests ask for."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from supervisor_core.alerts.rows import from_row
from supervisor_core.alerts.rules import Alert
from supervisor_core.storage.steps import PENDING
from supervisor_core.storage.tables import alerts, outbox
from supervisor_core.workers.conditions.rules import Target


def count_pending(connection: Connection, kind: str) -> int:
    """The number of messages of this kind that wait."""
    query = select(func.count()).select_from(outbox).where(outbox.c.state == PENDING, outbox.c.kind == kind)
    return connection.execute(query).scalar_one()


def alerts_of(connection: Connection, target: Target, limit: int = 20) -> list[Alert]:
    """The alerts of this target, newest first."""
    mine = (alerts.c.target_type == target.kind, alerts.c.target_id == target.id)
    query = select(alerts).where(*mine).order_by(alerts.c.opened_at.desc()).limit(limit)
    return [from_row(row) for row in connection.execute(query).mappings()]
