"""Looks at the host itself: whether its drive answers, its disks have room, its database is there, its clock is right;
and which commands were cut off. What it sees goes the way that conditions of workers go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts import rows as alerts
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.host.disks import disk_space
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage import outbox
from supervisor_core.workers.conditions import (
    COMMAND,
    DRIVE,
    INTERRUPTED_FOR,
    Condition,
    DiskSpace,
    HostFacts,
    InterruptedCommand,
    Outage,
    Reading,
    Target,
    TargetReading,
    is_skewed,
    read_host,
)
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.status import WorkerStatus

SOON_SECONDS = 5.0
"""Between two looks while something is wrong, so that its end is seen soon; and at what is in memory anyway."""

LEAST_SECONDS = 1.0
"""The pause between two checks."""

Observe = Callable[[Iterable[TargetReading]], None]
"""Takes what was seen; on the event loop."""

log = logging.getLogger(__name__)


class HostConditions(Service):
    """A service of the daemon that works behind the others. `database` says what is wrong with the shared one, where
    there is one; `silent` which other supervisors are."""

    name = "host"

    def __init__(
        self,
        parts: DaemonContext,
        blocking: Blocking,
        observe: Observe,
        database: Callable[[], Outage | None] | None = None,
        silent: Callable[[], Mapping[str, str | None] | None] = lambda: None,
    ) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = blocking
        self._observe = observe
        self._database = database
        self._silent = silent
        self._running: set[str] = set()
        self._skewed: set[str] = set()
        self._since: dict[Target, datetime] = {}
        self._known: dict[Target, Condition] | None = None
        self._woken = asyncio.Event()

    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        """Take over an observation of workers, on the event loop. A stale heartbeat may come from the drive."""
        statuses = list(statuses)
        drive = Target(DRIVE, self._parts.host.config.supervisor.id)
        unheard = any(not status.heartbeat_known for status in statuses)
        if unheard and (self._known or {}).get(drive) is not Condition.DRIVE_UNREACHABLE:
            self.wake()
        for status in statuses:
            for those, belongs in (
                (
                    self._running,
                    status.state is WorkerState.RUNNING and status.heartbeat is not None,
                ),
                (self._skewed, is_skewed(status)),
            ):
                (those.add if belongs else those.discard)(status.worker_id)

    def wake(self) -> None:
        """Look now; on the event loop."""
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Check until told to stop."""
        while not stopping.is_set():
            self.pulse.beat()
            self._woken.clear()
            await self.look()
            seconds = self._wait()
            self.pulse.beat(within=seconds)
            await wait_until(self._woken, stopping, seconds)
            if self._woken.is_set():
                await wait_until(None, stopping, LEAST_SECONDS)

    async def look(self) -> None:
        """Check everything once and pass on the result."""
        try:
            facts = await self._blocking(self._facts)
        except SupervisorError as error:  # the ledger can't be read: what was known holds
            log.warning("the condition of the host couldn't be checked: %s", error)
            return
        answers = [self._with_its_beginning(each) for each in read_host(facts)]
        self._known = {**dict(facts.known), **{each.target: each.reading.condition for each in answers}}
        self._observe(answers)

    def _wait(self) -> float:
        """While all is well, as often as the workers are looked at."""
        unwell = any(not condition.fine for condition in (self._known or {}).values())
        rounds = self._parts.host.config.supervisor.reconcile_seconds
        return min(rounds, SOON_SECONDS) if unwell else rounds

    def _with_its_beginning(self, answer: TargetReading) -> TargetReading:
        """It began when it was seen first."""
        target, reading = answer
        if reading.condition.fine or target.kind == COMMAND:
            self._since.pop(target, None)
            return answer
        since = self._since.setdefault(target, reading.since)
        return TargetReading(target, Reading(reading.condition, reading.reason, min(since, reading.since)))

    def _facts(self) -> HostFacts:
        """In a thread: drives and disks may take their time."""
        host, config = self._parts.host, self._parts.host.config
        now = datetime.now(UTC)
        trouble, drive_room = None, None
        try:
            host.drive.check()
            drive_room = host.drive.call(_room, host.drive.root)
        except (DriveUnavailable, OSError) as error:
            trouble = Outage(str(error).rstrip("."), now)
        disk_room = _room(config.state_dir)
        if drive_room is not None and host.drive.call(_device, host.drive.root) == _device(config.state_dir):
            drive_room = None  # one disk, one alert
        known, cut_off = self._parts.ledger.read(partial(_of_the_ledger, supervisor_id=config.supervisor.id, now=now))
        return HostFacts(
            config.supervisor.id,
            now,
            trouble,
            drive_room,
            disk_room,
            "the state folder's disk",
            self._database is not None,
            self._database() if self._database else None,
            len(self._running),
            tuple(self._skewed),
            cut_off,
            self._silent(),
            known,
        )


def _room(folder: Path) -> DiskSpace:
    seen = disk_space(folder)
    return DiskSpace(seen.free, seen.total)


def _device(folder: Path) -> int:
    return folder.stat().st_dev


def _of_the_ledger(
    connection: Connection, supervisor_id: str, now: datetime
) -> tuple[dict[Target, Condition], list[InterruptedCommand]]:
    """The last conditions of this host's parts, and the interrupted commands."""
    known = flips.current_host_conditions(connection, supervisor_id)
    cut_off = []
    for job in jobs.newest_interrupted(connection, now - 2 * INTERRUPTED_FOR):
        if outbox.payload_of(connection, jobs.CARD, job.task_id) is not None:
            continue  # its card says so; whoever is down in the end has an alert
        ended = job.finished_at or now
        target = Target(COMMAND, job.worker_id)
        standing = known.get(target)
        alert = alerts.live_of(connection, supervisor_id, target)
        told = alert is not None and alert.acknowledged_at is not None and alert.acknowledged_at >= ended
        over = standing is not None and standing.condition.fine and standing.since >= ended
        words = f"{job.command} ({job.task_id}): {job.outcome.error if job.outcome else 'interrupted'}"
        cut_off.append(InterruptedCommand(job.worker_id, words, ended, told or over))
    return {target: standing.condition for target, standing in known.items()}, cut_off
