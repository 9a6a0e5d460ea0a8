"""The regular heartbeats of a supervisor and its workers, to the drive and the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import Connection

from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, describe
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.service_names import HEARTBEAT
from supervisor_core.storage.engine import SHARES
from supervisor_core.workers.context import DaemonContext, HostContext
from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.heartbeats.files import SupervisorHeartbeat
from supervisor_core.workers.heartbeats.writer import write_heartbeat_files, write_heartbeat_rows
from supervisor_core.workers.status import WorkerStatus

GATHER_SECONDS = 0.5
"""Workers that start together change together; their heartbeats are written together."""

LOOK_SECONDS = 15.0
"""The time limit for observing the workers; the drive has a shorter one."""

log = logging.getLogger(__name__)

Told = tuple[SupervisorHeartbeat, WorkerStatus | None]


RETRY_SECONDS = 5.0
"""The delay after an error, well within the three heartbeats of 30 s after which a supervisor is unresponsive."""

LAST_SECONDS = 2.0
"""The time for a write that runs at the end. It takes milliseconds, unless the database hangs."""


class HeartbeatLoop:
    """Calls `beat` immediately and then at an interval, never with 0. After a failure, it retries in 5 s."""

    def __init__(self, beat: Callable[[], Awaitable[None]], every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self.problem = ""
        """Why the last heartbeat wasn't written, in words."""
        self._beat = beat
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    def begin(self) -> None:
        """Start the loop, unless it runs."""
        if self.every_seconds > 0 and self._task is None:
            self._ending.clear()
            self._task = asyncio.create_task(self._for_ever(), name="supervisor heartbeat")

    async def end(self) -> None:
        """Stop the loop. A write that hangs is left to its thread, and must be harmless when late."""
        task, self._task = self._task, None
        if task is not None:
            self._ending.set()
            await asyncio.wait({task}, timeout=LAST_SECONDS)
            task.cancel()
            await asyncio.wait({task})
        self.problem = ""

    async def _for_ever(self) -> None:
        told: set[type[Exception]] = set()
        while not self._ending.is_set():
            delay = self.every_seconds
            try:
                await self._beat()
            except Exception as error:  # the edge: whatever it is, the next one is tried
                known = isinstance(error, SupervisorError)  # then its words say it all
                self.problem = describe(error)
                if type(error) not in told:
                    told.add(type(error))
                    words = "the supervisor's heartbeat wasn't written; retrying every %g s: %s"
                    log.error(words, min(RETRY_SECONDS, delay), self.problem, exc_info=not known)  # noqa: TRY400
                delay = min(RETRY_SECONDS, delay)
            else:
                if told:
                    log.info("the supervisor's heartbeat is written again")
                told.clear()
                self.problem = ""
            await wait_until(None, self._ending, delay)


class HeartbeatService(Service):
    """Writes the heartbeats of all workers every `supervisor.heartbeat_seconds`, and immediately that of a worker whose
    condition changed. With 0, it must not be created.

    The rows come first, so that a drive that hangs doesn't keep them from being written.
    """

    name = HEARTBEAT

    def __init__(
        self, parts: DaemonContext, blocking: Blocking, look: Callable[[], Awaitable[list[WorkerStatus]]]
    ) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = blocking
        self._look = look
        self._every = parts.host.config.supervisor.heartbeat_seconds
        self._conditions: dict[str, tuple[WorkerState, Health]] = {}
        self._changed: set[str] = set()
        """The workers whose condition has changed since the last write."""
        self._woken = asyncio.Event()
        self._troubles: dict[str, str] = {}
        """Problems by subject: the observation, the drive, the ledger."""

    def problem(self) -> str:
        """Why some of the last heartbeats weren't written, in words."""
        return "; ".join(self._troubles.values())

    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        """Take new observations of workers; on the event loop."""
        for status in statuses:
            condition = status.state, status.verdict.health
            if self._conditions.get(status.worker_id) != condition:
                self._conditions[status.worker_id] = condition
                self._changed.add(status.worker_id)
                self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Write all immediately, and then at fixed intervals or after a change, until asked to stop."""
        clock = asyncio.get_running_loop().time
        due = clock()
        while not stopping.is_set():
            self.pulse.beat()
            self._woken.clear()
            changed, self._changed = self._changed, set()
            all_due = clock() >= due or not changed
            before = self.problem()
            if not await self._written(stopping, None if all_due else changed):
                return  # a write that is under way is left to its thread: late, it does no harm
            self._say_what_changed(before)
            if all_due or self.problem():
                due = next_due(due, self._every, clock(), failed=bool(self.problem()))
            await self._sleep(stopping, due - clock())

    async def _written(self, stopping: asyncio.Event, only: Collection[str] | None) -> bool:
        """Write the heartbeats of all or some workers; False if asked to stop before that was done."""
        work = asyncio.ensure_future(self._beat(only))
        try:
            await wait_until(work, stopping)
            if not work.done():
                return False
            work.result()
            return True
        finally:
            work.cancel()

    async def _sleep(self, stopping: asyncio.Event, seconds: float) -> None:
        """Sleep until all are due or one has changed, and then for a moment, to gather further changes."""
        seconds = max(seconds, 0.0)
        self.pulse.beat(within=seconds)
        await wait_until(self._woken, stopping, seconds)
        if self._woken.is_set():
            await wait_until(None, stopping, min(GATHER_SECONDS, seconds))

    async def shut_down(self) -> None:
        """Reset for the next start."""
        self._troubles.clear()

    async def _beat(self, only: Collection[str] | None) -> None:
        """Write one heartbeat of each worker, or of some. Failures become reported problems, not errors."""
        host = self._parts.host  # this one throughout: a new configuration may replace it in the middle
        seen: dict[str, WorkerStatus] = {}
        with self._trouble("look", "the workers couldn't be checked"):
            async with asyncio.timeout(LOOK_SECONDS):
                seen = {each.worker.id: each for each in await self._look()}
        await self._rows(host, seen, only)
        before = self._troubles.get("drive")
        with self._trouble("drive", "heartbeats can't be written to the drive"):
            await self._blocking(write_heartbeat_files, host, [said for said, _ in self._told(host, seen, only)])
        if self._troubles.get("drive") != before:
            await self._rows(host, seen, only)

    async def _rows(self, host: HostContext, seen: dict[str, WorkerStatus], only: Collection[str] | None) -> None:
        with self._trouble("ledger", "heartbeats can't be written to the ledger"):
            failed = await self._blocking(self._write, self._told(host, seen, only))
            if failed:
                raise SupervisorError(f"{', '.join(failed)} couldn't be written; the log has details")

    def _told(self, host: HostContext, seen: dict[str, WorkerStatus], only: Collection[str] | None) -> list[Told]:
        return [
            (self._heartbeat(host, worker_id, seen.get(worker_id)), seen.get(worker_id))
            for worker_id in host.config.workers
            if only is None or worker_id in only
        ]

    def _heartbeat(self, host: HostContext, worker_id: str, seen: WorkerStatus | None) -> SupervisorHeartbeat:
        not_seen = self._troubles.get("look") or f"{worker_id} wasn't checked"
        problems = [seen.problem if seen else not_seen, self._troubles.get("drive", "")]
        error = "; ".join(each for each in problems if each)
        return SupervisorHeartbeat(
            supervisor_id=host.config.supervisor.id,
            worker_id=worker_id,
            at=datetime.now(UTC),
            success=not error,
            error=error or None,
            actions=(),
            state=seen.in_words() if seen else "unknown",
        )

    def _write(self, all_told: Sequence[Told]) -> list[str]:
        """Write all rows in one transaction; if that fails, one for each worker. Name those that can't be written."""
        ledger = self._parts.ledger
        try:
            ledger.write(partial(_put, told=all_told))
        except LedgerUnavailable:
            raise
        except Exception:  # noqa: BLE001 (the edge: somebody's words do not fit into a row)
            failed = []
            for told in all_told:
                try:
                    ledger.write(partial(_put, told=[told]))
                except LedgerUnavailable:
                    raise
                except Exception:
                    log.exception("the heartbeat of %s couldn't be written", told[0].worker_id)
                    failed.append(told[0].worker_id)
            return failed
        return []

    @contextlib.contextmanager
    def _trouble(self, what: str, words: str) -> Iterator[None]:
        """Run one step. Its error is kept as a problem until the next success."""
        try:
            yield
        except Exception as error:  # whatever it is, the next step and the next beat are tried
            known = isinstance(error, SupervisorError | OSError)
            late = isinstance(error, TimeoutError) and not str(error)
            why = "timed out" if late else str(error) if known else describe(error)
            if not known and self._troubles.get(what) is None:
                log.exception("%s", words)
            self._troubles[what] = f"{words}: {why}"
        else:
            self._troubles.pop(what, None)

    def _say_what_changed(self, before: str) -> None:
        now = self.problem()
        if now and now != before:
            log.error("%s; retrying every %g s", now, min(RETRY_SECONDS, self._every))
        elif before and not now:
            log.info("heartbeats are written again")


def next_due(due: float, every: float, now: float, *, failed: bool) -> float:
    """The time of the next heartbeat, at a fixed distance from the last; missed ones aren't made up for."""
    if failed:
        return now + min(RETRY_SECONDS, every)
    return due + every if due + every > now else now + every


def _put(connection: Connection, told: Sequence[Told]) -> None:
    shares = bool(connection.get_execution_options().get(SHARES))
    for said, seen in told:
        write_heartbeat_rows(connection, said, seen, shares=shares)
