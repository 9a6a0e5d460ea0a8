"""What nobody asks for any more: old flips, alerts and suppressions are let go of, a few at a time.

The picture of a worker and its uptime go back for a month; who did what is in the audit trail, which is kept whole.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection

from supervisor_core.ledger import alerts, flips, suppressions
from supervisor_core.ledger.store import Ledger

KEPT = timedelta(days=90)
SUPPRESSIONS_KEPT = timedelta(days=30)
EVERY = timedelta(days=1)

AT_ONCE = 1000
"""Rows of one kind in one transaction: others wait for the write lock meanwhile."""


class Forgetting:
    """Looks once a day, and goes on with the next look while there is more."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._looked_at: datetime | None = None

    def work(self, now: datetime) -> None:
        """Let go of some, if it is time."""
        if self._looked_at is not None and self._looked_at <= now < self._looked_at + EVERY:
            return
        most = self._ledger.write(lambda connection: self._forget(connection, now))
        if most < AT_ONCE:
            self._looked_at = now

    def _forget(self, connection: Connection, now: datetime) -> int:
        host = self._ledger.supervisor_id
        suppressions.forget_old(connection, host, now - SUPPRESSIONS_KEPT)
        over = alerts.forget_old(connection, host, now - KEPT, AT_ONCE)
        return max(over, flips.forget_old(connection, host, now - KEPT, AT_ONCE))
