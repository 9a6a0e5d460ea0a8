"""The service of alerts from elsewhere: they are rows before they are acknowledged, and conditions afterwards.

A crash between the two loses nothing: at a start, the rows are told again, and only what is new to the ledger counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

from supervisor_core.alerts.incoming import rows
from supervisor_core.alerts.incoming.payload import parse_payload
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.times import utc_now
from supervisor_core.config.alert_settings import IncomingSettings
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions.rules import TargetReading

LOOK_SECONDS = 60.0
"""The interval of checks for alerts that are no longer repeated."""

Publish = Callable[[Iterable[TargetReading]], None]
"""Takes readings, on the event loop."""

log = logging.getLogger(__name__)


class IncomingAlerts(Service):
    """Works behind the services that `status` lists."""

    name = "incoming"

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        settings: IncomingSettings,
        publish: Publish,
        is_known: Callable[[str], bool],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """`is_known` says whether there is such a worker."""
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._publish = publish
        self._is_known = is_known
        self._now = now
        self._label = settings.worker_label
        self._forget_after = timedelta(hours=settings.forget_hours)

    async def take(self, body: bytes) -> int:
        """Store the alerts of a request, and tell them; their number. `PayloadError`, `TooManyAlerts`, or an error of
        the ledger: then nothing is stored."""
        now = self._now()
        alerts = parse_payload(body, self._label, now)
        crashpoints.reach("foreign_alerts_t.stored:before")
        store = partial(rows.store, alerts=alerts, is_known=self._is_known, now=now)
        told = await self._blocking(
            self._ledger.write, lambda connection: store(connection, self._ledger.supervisor_id)
        )
        crashpoints.reach("foreign_alerts_t.stored:after")
        self._publish(told)
        return len(alerts)

    async def run(self, stopping: asyncio.Event) -> None:
        """Report the known alerts, and end those that aren't repeated, until asked to stop."""
        begun = False
        while not stopping.is_set():
            self.pulse.beat(within=LOOK_SECONDS)
            try:
                begun = begun or await self.tell_all()
                await self.forget()
            except SupervisorError as error:
                log.warning("the alerts from Alertmanager can't be read: %s", error)
            await wait_until(None, stopping, LOOK_SECONDS)

    async def tell_all(self) -> bool:
        """Report all firing alerts to the monitor, and those that ended recently."""
        now, host = self._now(), self._ledger.supervisor_id
        self._publish(await self._blocking(self._ledger.read, lambda connection: rows.readings(connection, host, now)))
        return True

    async def forget(self) -> None:
        """End the alerts that weren't repeated in time."""
        now, host = self._now(), self._ledger.supervisor_id
        since = now - self._forget_after
        self._publish(
            await self._blocking(self._ledger.write, lambda connection: rows.forget(connection, host, since, now))
        )
