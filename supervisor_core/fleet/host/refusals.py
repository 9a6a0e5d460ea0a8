"""Refused messages in this host's audit trail. A flood of them is a row a minute, with their number."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking
from supervisor_core.fleet.refusals import RefusalCounts
from supervisor_core.fleet.rows import HUB_ID, REFUSED
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger

FOLD_SECONDS = 60.0

log = logging.getLogger(__name__)


class RefusedMessages:
    """Records refused messages; used on the event loop alone. Those of one command each have a row, because the hub
    signed it and waits for its end."""

    def __init__(self, host: str, ledger: Ledger, blocking: Blocking) -> None:
        self._host = host
        self._ledger = ledger
        self._blocking = blocking
        self._counts = RefusalCounts(FOLD_SECONDS)

    async def note(self, why: str, task_id: str = "") -> None:
        """Record a refusal, or count it. `LedgerUnavailable` if it must be recorded and can't."""
        now = time.monotonic()
        count = 1 if task_id else self._counts.add("", now)
        if not count:
            return
        log.error("a message of the fleet is refused: %s", why, extra=LogEvent.FLEET_REFUSED.extra(error=why))
        entry = AuditEntry(
            actor=HUB_ID,
            action=REFUSED,
            target_type="supervisor",
            target_id=self._host,
            outcome="failure",
            task_id=task_id or None,
            details={"door": "fleet", "error": why, "count": count},
        )
        own = self._ledger.supervisor_id
        await self._blocking(
            self._ledger.write, lambda connection: record(connection, own, entry, (), datetime.now(UTC))
        )
        if not task_id:
            self._counts.recorded("", now)
