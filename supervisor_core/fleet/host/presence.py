"""Says that this host is there: every few seconds, and at once when its ledger or a worker has something new."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.fleet import rows
from supervisor_core.fleet.questions import PresenceMessage, reading_document
from supervisor_core.fleet.transport import subjects
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.storage.store import Ledger
from supervisor_core.version import __version__
from supervisor_core.workers.conditions.rules import (
    HOST_PARTS,
    WORKER,
    Reading,
    Target,
    TargetReading,
    read_condition,
)
from supervisor_core.workers.status import WorkerStatus

if TYPE_CHECKING:
    from supervisor_core.daemon.status import LiveView

SETTLE_SECONDS = 0.02
"""The pause before a change is announced: changes come in bursts."""

VOLATILE = ("last_health_at",)
"""Facts that differ in each look at a worker without being a change."""

log = logging.getLogger(__name__)


class PresenceSpeaker(Service):
    """Announces this host, and answers what its newest snapshot is."""

    name = "fleet_presence"

    def __init__(
        self,
        config: Callable[[], SupervisorConfig],
        ledger: Ledger,
        blocking: Blocking,
        connection: FleetConnection,
        view: LiveView,
    ) -> None:
        super().__init__()
        self._config = config
        self._ledger = ledger
        self._blocking = blocking
        self._connection = connection
        self._view = view
        self._host = ledger.supervisor_id
        self._every = config().fleet.presence_seconds
        self._life = uuid.uuid4().hex
        self._ledger_id = ""
        self._number = 0
        self._readings: dict[str, Reading] = {}
        self._woken = asyncio.Event()
        self._looking = asyncio.Lock()
        self._newest: dict[str, Any] = {}
        self._compared: object = None

    def wake(self) -> None:
        """Something has changed; on the event loop."""
        self._woken.set()

    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        """Take a look at workers; on the event loop."""
        grace = timedelta(seconds=self._config().alerts.start_grace_seconds)
        for status in statuses:
            reading = read_condition(status, grace)
            if reading is not None:
                self._readings[status.worker_id] = reading
        self.wake()

    async def initialise(self) -> None:
        host = self._host
        origin = await self._blocking(self._ledger.write, lambda connection: rows.origin_of(connection, host))
        self._ledger_id = origin.ledger_id
        self.wake()

    async def run(self, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        with self._ledger.listening(lambda: loop.call_soon_threadsafe(self.wake)):
            while not stopping.is_set():
                self.pulse.beat(within=self._every)
                if self._woken.is_set():
                    self._woken.clear()
                    await self._look()
                with contextlib.suppress(SupervisorError):  # not connected: the next time says it
                    await self._speak()
                await wait_until(self._woken, stopping, self._every)
                await wait_until(None, stopping, SETTLE_SECONDS)

    async def snapshot(self) -> dict[str, Any]:
        if not self._newest:
            await self._look()
        return self._newest

    async def _speak(self) -> None:
        host = self._host
        position = await self._blocking(self._ledger.read, lambda connection: rows.newest_rows(connection, host))
        newest, now = position._asdict(), datetime.now(UTC)
        presence = PresenceMessage(
            host, now, self._ledger_id, newest, self._number, self._life, __version__, self._every
        )
        await self._connection.publish(subjects.presence_subject(host), presence.encode())

    async def _look(self) -> None:
        """Look at the workers; a look that differs gets the next number."""
        async with self._looking:
            documents = await self._view.documents()
            parts = await self._blocking(self._ledger.read, self._parts)
            config = self._config()
            workers = [{**document, **_settings(config, str(document["id"]))} for document in documents]
            workers_seen = [
                TargetReading(Target(WORKER, worker_id), reading)
                for worker_id, reading in self._readings.items()
                if worker_id in config.workers
            ]
            readings = [reading_document(each) for each in (*workers_seen, *parts)]
            compared = [{name: value for name, value in each.items() if name not in VOLATILE} for each in workers]
            if (compared, readings) == self._compared:
                return
            self._compared = compared, readings
            self._number += 1
            self._newest = {
                "life": self._life,
                "number": self._number,
                "workers": workers,
                "readings": readings,
            }

    def _parts(self, connection: Connection) -> list[TargetReading]:
        """The conditions of this host's parts: its drive, its disk, its clock."""
        found = flips.current_host_conditions(connection, self._host)
        return [
            TargetReading(target, Reading(each.condition, each.reason, each.since))
            for target, each in found.items()
            if target.kind in HOST_PARTS
        ]


def _settings(config: SupervisorConfig, worker_id: str) -> Mapping[str, Any]:
    """The settings of a worker that the hub needs."""
    worker = config.workers.get(worker_id)
    if worker is None:
        return {"enabled": False}
    return {"enabled": worker.enabled, "team": worker.team}
