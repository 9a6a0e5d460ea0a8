"""The forwarder: brings the ledger's rows to the shared database as they come, and waits where that is away."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import UTC, datetime

from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import BEAT_SECONDS, Blocking, Service, wait_until
from supervisor_core.common.service_names import FORWARDER
from supervisor_core.daemon.replication.rounds import (
    ReplicationRound,
    ReplicationRounds,
    open_replicator,
    waiting_rows_text,
)
from supervisor_core.workers.conditions.host import Outage
from supervisor_core.workers.context import DaemonContext

TICK_SECONDS = 10.0
"""For what other programs wrote (a shell, a pass), and to see that the database is still there."""

GATHER_SECONDS = 0.2
"""Steps come in bursts; one transaction there takes several of them."""

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 60.0
"""A database that comes back finds its rows within a minute."""

LAST_SECONDS = 3.0
"""Time that a stop gives to a running round."""

SLOW_SECONDS = 5.0
"""Beyond the time limit of a query: then something hangs that has no limit of its own."""

log = logging.getLogger(__name__)


class Forwarder(Service):
    """Woken by the commits of this program, and by a tick. All that blocks is done in a thread, which is left behind
    where it hangs."""

    name = FORWARDER

    def __init__(self, parts: DaemonContext, blocking: Blocking) -> None:
        config = parts.host.config
        super().__init__()
        self._ledger = parts.ledger
        self._blocking = blocking
        self._query_seconds = config.database.query_timeout_seconds
        self._rounds = ReplicationRounds(open_replicator(config, parts.ledger))
        self._woken = asyncio.Event()
        self._under_way = False
        self._failures = 0
        self._last = ReplicationRound()
        self._away_since: datetime | None = None

    def wake(self) -> None:
        """There is something new."""
        self._woken.set()

    def problem(self) -> str:
        """The reason why rows wait, and their number."""
        silent = time.monotonic() - self._rounds.moved_at
        if self._under_way and silent > self._query_seconds + SLOW_SECONDS:
            return f"The shared database hasn't responded for {silent:.0f} s; {self._waits()}"
        if self._away_since is None:
            return ""
        return f"{self._last.problem} Since {self._away_since:%Y-%m-%d %H:%M:%S} UTC; {self._waits()}"

    @property
    def waiting_rows(self) -> int:
        """The rows that wait, as known at the last contact."""
        return self._last.waiting

    def trouble(self) -> Outage | None:
        """The outage of the database, with its start."""
        return Outage(self._last.problem.rstrip("."), self._away_since) if self._away_since else None

    async def run(self, stopping: asyncio.Event) -> None:
        """Bring what is new, wait; until asked to stop."""
        loop = asyncio.get_running_loop()
        self._rounds.halt.clear()
        with self._ledger.listening(lambda: loop.call_soon_threadsafe(self.wake)):
            while not stopping.is_set():
                self._woken.clear()
                await self._round(stopping)
                await self._wait(stopping)
        if not self._failures:
            await self._round(None)  # what was written meanwhile

    async def shut_down(self) -> None:
        """A round that hangs ends after the batch in hand, or with the program."""
        self._rounds.halt.set()

    async def _round(self, stopping: asyncio.Event | None) -> None:
        """One round, waited for until asked to stop and a little longer."""
        if self._under_way:
            return  # the last one hangs still
        self._under_way = True
        task = asyncio.ensure_future(self._blocking(self._rounds.once))
        task.add_done_callback(self._done)
        if stopping is not None:
            while not (task.done() or stopping.is_set()):  # a database that hangs is told by `problem`
                self.pulse.beat(within=BEAT_SECONDS)
                await wait_until(task, stopping, BEAT_SECONDS)
        if not task.done():
            await asyncio.wait({task}, timeout=LAST_SECONDS)

    def _done(self, task: asyncio.Future[ReplicationRound]) -> None:
        self._under_way = False
        if task.cancelled() or task.exception() is not None:
            return
        before, self._last = self._last, task.result()
        if self._last.problem:
            self._failures += 1
            if self._away_since is None or before.problem != self._last.problem:
                about = LogEvent.SHARED_DATABASE_LOST.extra(error=self._last.problem)
                log.warning("%s %s; everything else continues", self._last.problem, self._waits(), extra=about)
            self._away_since = self._away_since or datetime.now(UTC)
            return
        if self._away_since is not None:
            about = LogEvent.SHARED_DATABASE_BACK.extra(rows=self._last.rows)
            log.info("the shared database is back; %d rows forwarded", self._last.rows, extra=about)
        self._failures, self._away_since = 0, None

    async def _wait(self, stopping: asyncio.Event) -> None:
        """Until there is something new, or the tick; after a failure longer each time, whatever is new."""
        if not self._failures:
            await self._something_new(stopping, TICK_SECONDS)
            if self._woken.is_set():
                await wait_until(None, stopping, GATHER_SECONDS)
            return
        longest = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(self._failures - 1, 10))
        loop = asyncio.get_running_loop()
        end = loop.time() + longest * random.uniform(0.75, 1.0)  # noqa: S311 (spreads the hosts that come back)
        while not stopping.is_set() and (left := end - loop.time()) > 0:
            await self._something_new(stopping, left)
            if self._woken.is_set():  # `status` shall say how many wait
                self._woken.clear()
                waiting = await self._blocking(self._rounds.waiting)
                self._last = ReplicationRound(self._last.rows, waiting, self._last.problem)
                await wait_until(None, stopping, GATHER_SECONDS)

    async def _something_new(self, stopping: asyncio.Event, seconds: float) -> None:
        self.pulse.beat(within=seconds)
        await wait_until(self._woken, stopping, seconds)

    def _waits(self) -> str:
        return waiting_rows_text(self._last.waiting)
