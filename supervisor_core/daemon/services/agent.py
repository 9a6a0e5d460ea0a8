"""The supervisor's own life cycle (spawning, active, paused, failed, terminated), its heartbeats and its teams.

A move is stored before it is published. If the database rejects it, it hasn't happened, and the caller may retry. An
error here doesn't affect the supervision of workers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Protocol
from uuid import UUID

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.events import Event, EventType
from supervisor_core.common.service import Blocking
from supervisor_core.common.text import one_line, storable
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.storage import supervisors
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.store import Database, transactions
from supervisor_core.storage.supervisors import ALIVE, SupervisorMove, SupervisorRow, SupervisorStatus, next_status
from supervisor_core.storage.tables import REASON
from supervisor_core.version import __version__
from supervisor_core.workers.heartbeats.files import host_name
from supervisor_core.workers.heartbeats.service import HeartbeatLoop
from supervisor_core.workers.teams import TeamManager

HEARTBEAT_SECONDS = 30.0
THREADS = 2
"""A move and a heartbeat: neither waits for the other where a database hangs."""

EVENTS: Mapping[SupervisorMove, EventType] = MappingProxyType(
    {
        SupervisorMove.START: EventType.SUPERVISOR_STARTED,
        SupervisorMove.STOP: EventType.SUPERVISOR_STOPPED,
        SupervisorMove.PAUSE: EventType.SUPERVISOR_PAUSED,
        SupervisorMove.RESUME: EventType.SUPERVISOR_RESUMED,
    }
)

PUBLISH_SECONDS = 5.0
"""The longest wait for an event bus that is asynchronous."""

ONE_NAME = "If two supervisors share a supervisor.id, give each its own or stop one."


class Publisher(Protocol):
    """An event bus."""

    def publish(self, event: Event) -> object:
        """Take an event. It must not block; what it returns is awaited if it can be."""


log = logging.getLogger(__name__)


class SupersededError(SupervisorError):
    """Another process uses this supervisor's name."""


class SupervisorAgent:
    """One life of the supervisor with this id. It belongs to one event loop; moves go one after the other.

    Each move publishes an event once it is stored. An error of the bus is logged, and the move stays valid.
    """

    def __init__(
        self,
        supervisor_id: UUID | str,
        db: Database,
        event_bus: Publisher | None = None,
        *,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        elsewhere: Callable[..., Awaitable[Any]] | None = None,
    ) -> None:
        """`elsewhere` runs a blocking call and is awaited."""
        if not (math.isfinite(heartbeat_seconds) and heartbeat_seconds >= 0):
            raise ValueError(f"heartbeat_seconds must be a number of seconds, or 0 for none, not {heartbeat_seconds!r}")
        self.supervisor_id = supervisor_id
        self.db = db
        self._database = transactions(db)
        self.team_manager = TeamManager(self._database, supervisor_id, clock=clock)
        """Its teams. Every call blocks for as long as the database takes."""
        self.event_bus = event_bus
        self._clock = clock
        self._elsewhere = elsewhere or Blocking(THREADS)
        self._heartbeat = HeartbeatLoop(self._beat, heartbeat_seconds)
        self._status = SupervisorStatus.SPAWNING
        self._row: SupervisorRow | None = None
        self._was_paused = False
        self._move_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def status(self) -> SupervisorStatus:
        return self._status

    @property
    def running(self) -> bool:
        """True from `start` to `stop`, also while it is paused."""
        return self._status in ALIVE

    @property
    def reason(self) -> str:
        """The reason of the pause or failure, if one was given."""
        return (self._row.reason or "") if self._row else ""

    @property
    def monitoring_paused(self) -> bool:
        """True while monitoring is paused, from the moment that this run is on record."""
        return self._row.paused if self._row is not None else self._was_paused

    @property
    def heartbeat_seconds(self) -> float:
        """The interval of its heartbeats; 0 for never."""
        return self._heartbeat.every_seconds

    def problem(self) -> str:
        """The reason why heartbeats aren't written; empty while they are, or none is due."""
        return self._heartbeat.problem

    async def spawn(self) -> None:
        """Begin a run: from now on the row describes this process. `start` does it if needed."""
        await self._finish(self._spawn())

    async def start(self) -> None:
        """Become active, or paused if an earlier run was paused and not resumed. After `stop` it's a new life."""
        await self._finish(self._move(SupervisorMove.START))

    async def stop(self) -> None:
        """End this life. A pause stays in force for the next one."""
        await self._finish(self._move(SupervisorMove.STOP))

    async def pause(self, reason: str = "", *, audit: AuditEntry | None = None) -> None:
        """Pause monitoring and reconciling, also across restarts, until `resume`. Workers aren't touched.

        `audit` is the audit row of the request, written together with the move.
        """
        await self._finish(self._move(SupervisorMove.PAUSE, reason, audit))

    async def resume(self, *, audit: AuditEntry | None = None) -> None:
        await self._finish(self._move(SupervisorMove.RESUME, audit=audit))

    async def fail(self, reason: str) -> None:
        """Say that this supervisor can't do its work, and why. `start` tries again; `stop` gives up."""
        await self._finish(self._move(SupervisorMove.FAIL, reason))

    async def get_team_status(self) -> dict[str, Any]:
        """Its status and its teams with their sizes, for programs."""
        teams: dict[str, Any] = await self._elsewhere(self.team_manager.get_team_status)
        return {**teams, "status": str(self._status)}

    async def sync_teams(self, config: SupervisorConfig) -> None:
        """Bring its teams and their members in line with this configuration."""
        for change in await self._elsewhere(self.team_manager.sync_with, config):
            log.info("%s", change)

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Finish the work even if the caller is cancelled, so that memory agrees with the database."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def _spawn(self) -> None:
        async with self._move_lock:
            await self._begin_life()

    async def _begin_life(self) -> SupervisorRow:
        """The row of this run, written if it isn't yet."""
        if self._row is not None:
            return self._row
        name = str(self.supervisor_id)
        # Read first: the pause of an earlier run holds also while this one can't be written down.
        before = await self._elsewhere(self._database.read, partial(supervisors.find, supervisor_id=name))
        self._was_paused = before is not None and before.paused
        facts = {
            "heartbeat_seconds": self._heartbeat.every_seconds,
            "hostname": host_name(),
            "pid": os.getpid(),
            "version": __version__,
        }
        begin = partial(supervisors.begin_life, supervisor_id=name, facts=facts, now=self._clock())
        row: SupervisorRow
        row, before = await self._elsewhere(self._database.write, begin)
        if before is not None and before.status in ALIVE:
            message = "supervisor %s didn't stop normally last time: pid %d on %s had been %s since %s"
            log.warning(message, name, before.pid, before.hostname, before.status, before.changed_at)
        self._row = row
        return row

    async def _move(self, move: SupervisorMove, reason: str = "", audit: AuditEntry | None = None) -> None:
        """Store a move, and then publish it. A start after a pause is two moves in one transaction."""
        reason = one_line(storable(reason), REASON)
        async with self._move_lock:
            if move is SupervisorMove.START and self._status is SupervisorStatus.TERMINATED:
                self._status, self._row = SupervisorStatus.SPAWNING, None  # a new life
            before = self._status
            to = next_status(before, move)
            if to is before:
                log.warning("supervisor %s is already %s: %s changes nothing", self.supervisor_id, before, move)
                return
            row, now = await self._begin_life(), self._clock()
            stays_paused = move is SupervisorMove.START and row.paused
            statuses = [before, to, *([next_status(to, SupervisorMove.PAUSE)] if stays_paused else [])]
            changes: dict[str, Any] = {}
            if move in (SupervisorMove.PAUSE, SupervisorMove.FAIL):
                changes = {"reason": reason or None, "paused": row.paused or move is SupervisorMove.PAUSE}
            elif move is SupervisorMove.RESUME:
                changes = {"reason": None, "paused": False}
            elif move is SupervisorMove.START and not row.paused:
                changes = {"reason": None}
            steps = [supervisors.move(row, old, new, now, **changes) for old, new in pairwise(statuses)]
            steps[0] = replace(steps[0], audit=audit)
            is_taken, stored = await self._elsewhere(supervisors.take_moves, self._database, row, steps, now)
            # Not taken, and yet the row is as it should be: an earlier try was written, and its answer was lost.
            if stored is None or not (is_taken or (stored.life, stored.status) == (row.life, statuses[-1])):
                known = f"its row names pid {stored.pid} on {stored.hostname}, {stored.status}" if stored else ""
                raise SupersededError(
                    f"Supervisor {self.supervisor_id} couldn't change its status: {known or 'its row is missing'}.",
                    remedy=ONE_NAME,
                )
            self._row = stored
            if statuses[-1] not in ALIVE:
                await self._heartbeat.end()
            self._status = statuses[-1]
            if self._status in ALIVE:
                self._heartbeat.begin()
            await self._publish(move, before, to, reason)
            if stays_paused:
                await self._publish(SupervisorMove.PAUSE, to, self._status, stored.reason or "")

    async def _beat(self) -> None:
        row = self._row
        if row is None:
            return
        is_current = await self._elsewhere(self._database.write, partial(supervisors.beat, row=row, now=self._clock()))
        if not is_current and not self._move_lock.locked():  # else it is just being ended by ourselves
            raise SupersededError(
                f"The row of supervisor {self.supervisor_id} belongs to another process or is missing.",
                remedy=ONE_NAME,
            )

    async def _publish(self, move: SupervisorMove, before: SupervisorStatus, to: SupervisorStatus, reason: str) -> None:
        level = logging.ERROR if move is SupervisorMove.FAIL else logging.INFO
        suffix = f": {reason}" if reason else ""
        log.log(level, "supervisor %s is %s (was %s)%s", self.supervisor_id, to, before, suffix)
        kind = EVENTS.get(move)
        if self.event_bus is None or kind is None:
            return
        now = self._clock()
        payload = {
            "timestamp": to_text(now),
            "status": str(to),
            "previous_status": str(before),
            "reason": reason or None,
        }
        try:
            published = self.event_bus.publish(Event(kind, str(self.supervisor_id), now, payload))
            if isinstance(published, Awaitable):
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await published
        except Exception:  # nothing that must be true depends on an event
            log.exception("the event %s of supervisor %s couldn't be published", kind, self.supervisor_id)
