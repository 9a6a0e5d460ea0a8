"""Refused messages in this host's audit trail. A flood of them is a row a minute, with their number."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking
from supervisor_core.fleet.rows import HUB_ID, REFUSED
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger

FOLD_SECONDS = 60.0

log = logging.getLogger(__name__)


class RefusedMessages:
    """Records refused messages; used on the event loop alone. Those of one command each have a row, because the hub
    signed it and waits for its end."""

    def __init__(
        self, host: str, ledger: Ledger, blocking: Blocking, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._blocking = blocking
        self._clock = clock
        self._folded = 0
        self._words = ""
        self._recorded_at: float | None = None

    async def note(self, why: str, task_id: str = "") -> None:
        """Record a refusal, or count it. `LedgerUnavailable` if it must be recorded and can't."""
        if not task_id:
            self._folded, self._words = self._folded + 1, why
            await self.flush()
            return
        await self._record(why, task_id, 1)

    async def flush(self) -> None:
        """Record those that were counted, if their minute is over."""
        now = self._clock()
        if not self._folded or (self._recorded_at is not None and now < self._recorded_at + FOLD_SECONDS):
            return
        count, self._folded, before, self._recorded_at = self._folded, 0, self._recorded_at, now
        try:
            await self._record(self._words, "", count)
        except BaseException:
            self._folded, self._recorded_at = self._folded + count, before
            raise

    async def _record(self, why: str, task_id: str, count: int) -> None:
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
        now, own = datetime.now(UTC), self._ledger.supervisor_id
        await self._blocking(self._ledger.write, lambda connection: record(connection, own, entry, (), now))
