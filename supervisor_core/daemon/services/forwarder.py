"""The forwarder: sends audit rows and heartbeats to the shared database as they come, and retries while it is away."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import UTC, datetime

from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import BEAT_SECONDS, Blocking, Service, wait_until
from supervisor_core.common.service_names import FORWARDER
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.storage.engine import CONNECT_SECONDS
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.storage.shared_database import SendResult, SharedDatabase, SharedDatabaseSender
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import Outage
from supervisor_core.workers.context import DaemonContext

TICK_SECONDS = 10.0
"""For heartbeats and for what other programs wrote (a shell, a pass)."""

GATHER_SECONDS = 0.2
"""Changes come in bursts; one transaction takes several of them."""

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 60.0
"""A database that comes back gets its rows within a minute."""

LAST_SECONDS = 3.0
"""The time that a stop gives to a running round."""

PASS_SECONDS = 5.0
"""The time that a pass gives to its round; the next pass continues."""

log = logging.getLogger(__name__)


def waiting_rows_text(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'} waiting"


def make_sender(config: SupervisorConfig, ledger: Ledger) -> SharedDatabaseSender:
    seconds = config.database.query_timeout_seconds
    database = SharedDatabase(config.database.url.get_secret_value(), seconds)
    return SharedDatabaseSender(ledger, database, config.state_dir, seconds)


def send_now(config: SupervisorConfig, ledger: Ledger, seconds: float = PASS_SECONDS) -> None:
    """Send what waits at the end of a pass, within a time limit. Nothing is lost on a failure."""
    sender = make_sender(config, ledger)
    future = DaemonThreads("shared database", 1, idle_seconds=0).submit(sender.send)
    try:
        result = future.result(seconds)
    except TimeoutError:
        sender.halt.set()
        result = sender.result(problem=f"The shared database didn't respond in {seconds:g} s.")
    if problem := result.problem or result.refused:
        log.warning("%s %s", problem, waiting_rows_text(result.waiting))


class Forwarder(Service):
    """Woken by the commits of this program, and by a tick. A call that hangs is left behind in its thread."""

    name = FORWARDER

    def __init__(self, context: DaemonContext, blocking: Blocking) -> None:
        super().__init__()
        config = context.host.config
        self._ledger = context.ledger
        self._blocking = blocking
        self._sender = make_sender(config, context.ledger)
        self._response_seconds = config.database.query_timeout_seconds + CONNECT_SECONDS
        self._woken = asyncio.Event()
        self._round_started: float | None = None
        self._failures = 0
        self._last = SendResult()
        self._away_since: datetime | None = None

    @property
    def waiting_rows(self) -> int:
        """The number of rows that waited after the last round."""
        return self._last.waiting

    def problem(self) -> str:
        """The reason why rows wait, and their number."""
        waiting = waiting_rows_text(self._last.waiting)
        if self._round_started is not None:
            silence = time.monotonic() - max(self._round_started, self._sender.responded_at)
            if silence > self._response_seconds:
                return f"The shared database hasn't responded for {silence:.0f} s; {waiting}"
        if self._away_since is None:
            return self._last.refused
        return f"{self._last.problem} Since {self._away_since:%Y-%m-%d %H:%M:%S} UTC; {waiting}"

    def trouble(self) -> Outage | None:
        return Outage(self._last.problem.rstrip("."), self._away_since) if self._away_since else None

    async def run(self, stopping: asyncio.Event) -> None:
        """Send what waits; then wait for something new, and after a failure longer each time."""
        loop = asyncio.get_running_loop()
        self._sender.halt.clear()
        with self._ledger.listening(lambda: loop.call_soon_threadsafe(self._woken.set), kinds=(SHARED_DATABASE,)):
            while not stopping.is_set():
                self._woken.clear()
                await self._send(stopping)
                if not self._failures:
                    self.pulse.beat(within=TICK_SECONDS)
                    await wait_until(self._woken, stopping, TICK_SECONDS)
                    if self._woken.is_set():
                        await wait_until(None, stopping, GATHER_SECONDS)
                    continue
                longest = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(self._failures - 1, 10))
                retry_at = loop.time() + longest * random.uniform(0.75, 1.0)  # noqa: S311 (spreads the hosts)
                while not stopping.is_set() and (left := retry_at - loop.time()) > 0:
                    self.pulse.beat(within=left)
                    await wait_until(self._woken, stopping, left)
                    if self._woken.is_set():  # `status` shows how many wait
                        self._woken.clear()
                        self._last = await self._blocking(self._sender.result, 0, self._last.problem)
                        await wait_until(None, stopping, GATHER_SECONDS)
        if not self._failures:
            await self._send(None)  # what was written meanwhile

    async def shut_down(self) -> None:
        """A round that hangs ends after the batch in hand, or with the program."""
        self._sender.halt.set()

    async def _send(self, stopping: asyncio.Event | None) -> None:
        """Run a round. A stop waits for it only a little longer."""
        if self._round_started is not None:
            return  # the last one still hangs
        self._round_started = time.monotonic()
        task = asyncio.ensure_future(self._blocking(self._sender.send))
        task.add_done_callback(self._on_sent)
        while stopping is not None and not (task.done() or stopping.is_set()):
            self.pulse.beat(within=BEAT_SECONDS)
            await wait_until(task, stopping, BEAT_SECONDS)
        if not task.done():
            await asyncio.wait({task}, timeout=LAST_SECONDS)

    def _on_sent(self, task: asyncio.Future[SendResult]) -> None:
        self._round_started = None
        if task.cancelled() or task.exception() is not None:
            return
        problem_before, self._last = self._last.problem, task.result()
        if self._last.problem:
            self._failures += 1
            if self._away_since is None or problem_before != self._last.problem:
                about = LogEvent.SHARED_DATABASE_LOST.extra(error=self._last.problem)
                waiting = waiting_rows_text(self._last.waiting)
                log.warning("%s %s; everything else continues", self._last.problem, waiting, extra=about)
            self._away_since = self._away_since or datetime.now(UTC)
            return
        if self._away_since is not None:
            about = LogEvent.SHARED_DATABASE_BACK.extra(rows=self._last.sent)
            log.info("the shared database is back; %d rows sent", self._last.sent, extra=about)
        self._failures, self._away_since = 0, None
