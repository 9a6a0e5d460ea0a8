"""The services for heartbeats: one writes those of a supervisor and its workers, one notices those of workers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from sqlalchemy import Connection

from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, describe
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.service_names import HEARTBEAT
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.folder_watch import FolderWatch
from supervisor_core.storage.engine import SHARES
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import DaemonContext, HostContext
from supervisor_core.workers.health import GOOD_WORDS, Health, WorkerState
from supervisor_core.workers.heartbeats.files import (
    SupervisorHeartbeat,
    last_beats,
    worker_of,
    write_heartbeat_files,
    write_heartbeat_rows,
)
from supervisor_core.workers.pauses import paused_by
from supervisor_core.workers.status import WorkerStatus

GATHER_SECONDS = 0.5
"""Workers that start together change together; their heartbeats are written together."""

OBSERVE_SECONDS = 15.0
"""The time limit for observing the workers; the drive has a shorter one."""

RETRY_SECONDS = 5.0
"""The delay after an error, well within the three heartbeats of 30 s after which a supervisor is unresponsive."""

LAST_SECONDS = 2.0
"""The time for a write that runs at the end. It takes milliseconds, unless the database hangs."""

log = logging.getLogger(__name__)

Beat = tuple[SupervisorHeartbeat, WorkerStatus | None]


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
            self._task = asyncio.create_task(self._run(), name="supervisor heartbeat")

    async def end(self) -> None:
        """Stop the loop. A write that hangs is left to its thread, and must be harmless when late."""
        task, self._task = self._task, None
        if task is not None:
            self._ending.set()
            await asyncio.wait({task}, timeout=LAST_SECONDS)
            task.cancel()
            await asyncio.wait({task})
        self.problem = ""

    async def _run(self) -> None:
        logged: set[type[Exception]] = set()
        while not self._ending.is_set():
            delay = self.every_seconds
            try:
                await self._beat()
            except Exception as error:  # the edge: whatever it is, the next one is tried
                delay = min(RETRY_SECONDS, delay)
                self.problem = describe(error)
                if type(error) not in logged:
                    logged.add(type(error))
                    message = "the supervisor's heartbeat wasn't written; retrying every %g s: %s"
                    log.error(message, delay, self.problem, exc_info=not isinstance(error, SupervisorError))  # noqa: TRY400
            else:
                if logged:
                    log.info("the supervisor's heartbeat is written again")
                logged.clear()
                self.problem = ""
            await wait_until(None, self._ending, delay)


class HeartbeatService(Service):
    """Writes the heartbeats of all workers every `supervisor.heartbeat_seconds`, and immediately that of a worker whose
    condition changed. With 0, it must not be created.

    The rows come first, so that a drive that hangs doesn't keep them from being written.
    """

    name = HEARTBEAT

    def __init__(
        self, parts: DaemonContext, blocking: Blocking, observe: Callable[[], Awaitable[list[WorkerStatus]]]
    ) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = blocking
        self._observe = observe
        self._interval = parts.host.config.supervisor.heartbeat_seconds
        self._conditions: dict[str, tuple[WorkerState, Health]] = {}
        self._changed: set[str] = set()
        """The workers whose condition has changed since the last write."""
        self._woken = asyncio.Event()
        self._problems: dict[str, str] = {}
        """By subject: the observation, the drive, the ledger."""

    def problem(self) -> str:
        """Why some of the last heartbeats weren't written, in words."""
        return "; ".join(self._problems.values())

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
            is_due = clock() >= due or not changed
            before = self.problem()
            writing = asyncio.ensure_future(self._write_all(None if is_due else changed))
            try:
                await wait_until(writing, stopping)
                if not writing.done():
                    return  # a write that is under way is left to its thread: late, it does no harm
                writing.result()
            finally:
                writing.cancel()
            retry_seconds = min(RETRY_SECONDS, self._interval)
            if (problem := self.problem()) and problem != before:
                log.error("%s; retrying every %g s", problem, retry_seconds)
            elif before and not problem:
                log.info("heartbeats are written again")
            if problem:
                due = clock() + retry_seconds
            elif is_due:  # missed ones aren't made up for
                due = due + self._interval if due + self._interval > clock() else clock() + self._interval
            seconds = max(due - clock(), 0.0)
            self.pulse.beat(within=seconds)
            await wait_until(self._woken, stopping, seconds)
            if self._woken.is_set():
                await wait_until(None, stopping, min(GATHER_SECONDS, seconds))

    async def shut_down(self) -> None:
        self._problems.clear()

    async def _write_all(self, only: Collection[str] | None) -> None:
        """Write one heartbeat of each worker, or of some. Failures become reported problems, not errors."""
        host = self._parts.host  # this one throughout: a new configuration may replace it in the middle
        statuses: dict[str, WorkerStatus] = {}
        with self._step("observation", "the workers couldn't be checked"):
            async with asyncio.timeout(OBSERVE_SECONDS):
                statuses = {status.worker.id: status for status in await self._observe()}
        worker_ids = [worker_id for worker_id in host.config.workers if only is None or worker_id in only]

        def heartbeats() -> list[Beat]:
            return [(self._heartbeat(host, id_, statuses.get(id_)), statuses.get(id_)) for id_ in worker_ids]

        async def write_rows() -> None:
            with self._step("ledger", "heartbeats can't be written to the ledger"):
                await self._blocking(_write_rows, self._parts.ledger, heartbeats())

        await write_rows()
        before = self._problems.get("drive")
        with self._step("drive", "heartbeats can't be written to the drive"):
            await self._blocking(write_heartbeat_files, host, [heartbeat for heartbeat, _ in heartbeats()])
        if self._problems.get("drive") != before:
            await write_rows()

    def _heartbeat(self, host: HostContext, worker_id: str, status: WorkerStatus | None) -> SupervisorHeartbeat:
        unobserved = self._problems.get("observation") or f"{worker_id} wasn't checked"
        problems = [status.problem if status else unobserved, self._problems.get("drive", "")]
        error = "; ".join(filter(None, problems))
        return SupervisorHeartbeat(
            supervisor_id=host.config.supervisor.id,
            worker_id=worker_id,
            at=datetime.now(UTC),
            success=not error,
            error=error or None,
            actions=(),
            state=status.in_words() if status else "unknown",
        )

    @contextlib.contextmanager
    def _step(self, subject: str, failure: str) -> Iterator[None]:
        """Run one step. Its error is kept as a problem until the next success."""
        try:
            yield
        except Exception as error:  # whatever it is, the next step and the next beat are tried
            reason = str(error) if isinstance(error, SupervisorError | OSError) else describe(error)
            if not isinstance(error, SupervisorError | OSError) and subject not in self._problems:
                log.exception("%s", failure)
            self._problems[subject] = f"{failure}: {reason or 'timed out'}"
        else:
            self._problems.pop(subject, None)


def _write_rows(ledger: Ledger, beats: list[Beat]) -> None:
    """Write all rows in one transaction; if that fails, one for each worker. The error names those that can't be."""

    def write(*beats: Beat) -> None:
        def put(connection: Connection) -> None:
            shares = bool(connection.get_execution_options().get(SHARES))
            for heartbeat, status in beats:
                write_heartbeat_rows(connection, heartbeat, status, shares=shares)

        ledger.write(put)

    try:
        write(*beats)
    except LedgerUnavailable:
        raise
    except Exception:  # noqa: BLE001 (the edge: somebody's words don't fit into a row)
        failed = []
        for beat in beats:
            try:
                write(beat)
            except LedgerUnavailable:
                raise
            except Exception:
                log.exception("the heartbeat of %s couldn't be written", beat[0].worker_id)
                failed.append(beat[0].worker_id)
        if failed:
            raise SupervisorError(f"{', '.join(failed)} couldn't be written; the log has details") from None


CHECK_FOLDER_SECONDS, NO_FOLDER_SECONDS = 30.0, 1.0
"""The intervals for checking that the watched folder is still in place, and for retries while there is none."""

FOLLOW_SECONDS = 0.1
"""Changes within this time are followed together: our own files are many."""


class HeartbeatWatch(Service):
    """A background service of the daemon. `health` says whether each running worker is healthy; `observe` observes a
    worker now. Both run on the event loop."""

    name = "beats"

    def __init__(
        self,
        parts: DaemonContext,
        blocking: Blocking,
        health: Callable[[], Mapping[str, bool]],
        observe: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._parts = parts
        self._blocking = blocking
        self._health = health
        self._observe = observe

    async def run(self, stopping: asyncio.Event) -> None:
        loop, watch, woken = asyncio.get_running_loop(), FolderWatch(every_change=True), asyncio.Event()
        descriptor = watch.fileno()
        try:
            while not stopping.is_set():
                self.pulse.beat()
                drive, folder = self._parts.host.drive, self._parts.host.config.folder("state")
                seconds = NO_FOLDER_SECONDS
                with contextlib.suppress(DriveUnavailable, OSError):
                    if descriptor is None or await self._blocking(drive.call, watch.watch, folder, drive.root):
                        seconds = CHECK_FOLDER_SECONDS
                woken.clear()
                if descriptor is not None:
                    loop.add_reader(descriptor, woken.set)
                self.pulse.beat(within=seconds)
                await wait_until(woken, stopping, seconds)
                if descriptor is not None:
                    loop.remove_reader(descriptor)
                if woken.is_set() and not stopping.is_set():
                    await self._follow(watch.drain())
                    await wait_until(None, stopping, FOLLOW_SECONDS)
        finally:
            if descriptor is not None:
                loop.remove_reader(descriptor)
            watch.close()

    async def _follow(self, names: list[str]) -> None:
        """Observe workers whose pause flag changed, and unhealthy ones with a new heartbeat: they may have recovered.
        Of the others, observe those whose heartbeat reports a problem."""
        for worker_id in dict.fromkeys(filter(None, map(paused_by, names))):
            self._observe(worker_id)
        health = self._health()
        worker_ids = set(filter(None, map(worker_of, names))) & set(health)
        healthy = [worker_id for worker_id in worker_ids if health[worker_id]]
        for worker_id in worker_ids.difference(healthy):
            self._observe(worker_id)
        drive, folder = self._parts.host.drive, self._parts.host.config.folder("state")
        try:
            beats = await self._blocking(drive.call, last_beats, drive.root, folder, healthy) if healthy else {}
        except (DriveUnavailable, OSError) as error:
            log.debug("new heartbeats couldn't be read: %s", error)
            return
        for worker_id, beat in beats.items():
            if beat.error or beat.status.lower() not in GOOD_WORDS:
                self._observe(worker_id)
