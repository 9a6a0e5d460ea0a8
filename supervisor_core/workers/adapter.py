"""The port to all workers of this host, each by its id, from any thread."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, Self

from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.common.text import nearest
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.drive import Drive
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.processes.exits import ExitWatch
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.manager import ProcessManager
from supervisor_core.processes.stopping import StopReport
from supervisor_core.processes.together import Steps, alone
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.worker import (
    Search,
    find_watcher,
    look_for_watcher,
    start_watcher,
    stop_watcher_gracefully,
)

STARTS_AT_ONCE = 16
"""The starts that run at the same time. Each waits for its grace period, so one after the other would take minutes."""

log = logging.getLogger(__name__)


class WorkerEnded(NamedTuple):
    """A worker's process has ended. It's a hint to look, since its children may live on."""

    worker_id: str
    identity: ProcessIdentity
    exit_code: int | None
    """Negative for a signal; None if unknown, because only the parent of a process learns it."""


class WorkerAdapter(Protocol):
    """The operations on the workers of this host.

    Calls may block, and belong on no event loop. They may come from many threads at once, and those for different
    workers run at the same time. A worker that was never added is a `UsageError`; after `close` all but
    `unsubscribe` and `close` are a `RefusedError`.
    """

    @property
    def processes(self) -> ProcessManager:
        """The processes of the workers, for observers."""

    def add(self, worker: WorkerSettings) -> None:
        """Add this worker, or update its settings. Starts nothing."""

    def remove(self, worker_id: str) -> StopReport:
        """Stop all its processes and forget it, unless something survived or somebody added it again."""

    def start(self, worker_id: str, looked: FoundWorker | None = None, *, waits: bool = True) -> ProcessIdentity:
        """Start it and, if it `waits`, check that it's alive after its grace period. Leftovers of an earlier run are
        stopped first.

        `looked` is the result of a `search` that the caller just made, and saves another one.

        `RefusedError` if it, or a part of it, may be running; `LaunchError` if it ended within its grace period.
        """

    def stop(self, worker_id: str, why: str = "") -> StopReport:
        """Stop all its processes. Stopping a stopped worker succeeds; the report names survivors.

        `why` is on record before the first signal.
        `RefusedError` if it's unknown whether it runs; then nothing was signalled.
        """

    def start_all(self) -> dict[str, ProcessIdentity | Exception]:
        """Start the stopped workers. Returns for each its process, or the error.

        Workers that the configuration disables or quarantines are left alone.
        """

    def state(self, worker_id: str) -> FoundWorker:
        """Observe it. A process that can't be checked is unverifiable, never stopped."""

    def search(self, worker_id: str) -> FoundWorker:
        """Observe it, and search all processes for one that claims to be it, before a start or a restart."""

    def search_steps(self, worker_id: str) -> Steps[FoundWorker]:
        """`search`, for several at the same time."""

    def states(self) -> dict[str, FoundWorker]:
        """Observe each of these workers."""

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> int:
        """Report each exit once and immediately, in a thread of the adapter. Returns the key for `unsubscribe`.

        It covers processes that an observation or a start here has seen running, whoever started or ended them.
        """

    def unsubscribe(self, subscription: int) -> None:
        """Remove a subscriber; a missing one is fine."""

    def close(self) -> None:
        """Report no more exits. The workers continue."""


class KnownWorkers:
    """The added workers and the subscribers to their exits, as every adapter keeps them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: dict[str, WorkerSettings] = {}
        self._subscribers: dict[int, Callable[[WorkerEnded], None]] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    def add(self, worker: WorkerSettings) -> None:
        """Add it."""
        with self._lock:
            self._check_open()
            self._workers[worker.id] = worker

    def get(self, worker_id: str) -> WorkerSettings:
        """The worker with its newest settings."""
        with self._lock:
            self._check_open()
            worker = self._workers.get(worker_id)
            ids = tuple(self._workers)
        if worker is None:
            near = nearest(worker_id, ids)
            hint = f"Did you mean {near}?" if near else f"Workers: {', '.join(ids) or 'none'}."
            raise UsageError(f"Unknown worker {worker_id!a}. {hint}")
        return worker

    def every(self) -> tuple[WorkerSettings, ...]:
        """All workers, in the order in which they were added."""
        with self._lock:
            self._check_open()
            return tuple(self._workers.values())

    def forget(self, worker: WorkerSettings) -> None:
        """Forget it, unless it was added again meanwhile."""
        with self._lock:
            if self._workers.get(worker.id) is worker:
                del self._workers[worker.id]

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> int:
        """Add a subscriber."""
        with self._lock:
            self._check_open()
            number = next(self._numbers)
            self._subscribers[number] = heard
            return number

    def unsubscribe(self, subscription: int) -> None:
        """Remove a subscriber."""
        with self._lock:
            self._subscribers.pop(subscription, None)

    def tell(self, ended: WorkerEnded) -> None:
        """Call every subscriber. One that raises is logged, and the others are still called."""
        with self._lock:
            numbers = tuple(self._subscribers)
        for number in numbers:
            with self._lock:
                heard = self._subscribers.get(number)
            if heard is None:  # gone since
                continue
            try:
                heard(ended)
            except Exception:
                log.exception("a subscriber to the exit of %s failed", ended.worker_id)

    def close(self) -> None:
        """Forget the subscribers, and refuse all further calls."""
        with self._lock:
            self._closed = True
            self._subscribers.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise RefusedError("The supervisor is shutting down. Its workers keep running.")


class ProcessWorkerAdapter:
    """Workers as processes of this host. The kernel reports their exits.

    `config` returns the current configuration and is called each time.
    """

    def __init__(self, processes: ProcessManager, drive: Drive, config: Callable[[], SupervisorConfig]) -> None:
        self.processes = processes
        self._drive = drive
        self._config = config
        self._known = KnownWorkers()
        self._exits = ExitWatch(self._ended)
        self._watched: dict[ProcessIdentity, str] = {}
        """The worker of each process. Entries are set and removed in one operation, so no lock is needed."""

    @classmethod
    def of(cls, context: DaemonContext) -> Self:
        """Create the adapter of this host."""
        return cls(context.host.processes, context.host.drive, lambda: context.host.config)

    def add(self, worker: WorkerSettings) -> None:
        """Add this worker, or update its settings."""
        self._known.add(worker)

    def remove(self, worker_id: str) -> StopReport:
        """Stop all its processes, and forget it if nothing survived."""
        worker = self._known.get(worker_id)
        report = stop_watcher_gracefully(self.processes, worker, "removed from the configuration")
        if report.stopped:
            self._known.forget(worker)
        return report

    def start(self, worker_id: str, looked: FoundWorker | None = None, *, waits: bool = True) -> ProcessIdentity:
        """Start it; with `waits`, check that it is alive after its grace period. A running one is refused."""
        worker = self._known.get(worker_id)
        try:
            identity = start_watcher(self.processes, self._drive, self._config(), worker, looked, waits=waits)
        except RefusedError:
            self._look(worker)
            raise
        self._watch(worker_id, identity)
        return identity

    def stop(self, worker_id: str, why: str = "") -> StopReport:
        """Stop all its processes with its added settings, whether or not it's in the configuration."""
        return stop_watcher_gracefully(self.processes, self._known.get(worker_id), why)

    def start_all(self) -> dict[str, ProcessIdentity | Exception]:
        """Start the stopped workers, several at a time."""
        wanted = [worker for worker in self._known.every() if worker.enabled and not worker.quarantined]
        if not wanted:
            return {}
        with ThreadPoolExecutor(min(STARTS_AT_ONCE, len(wanted)), thread_name_prefix="start-all") as threads:
            came = threads.map(self._start_unless_running, wanted)
            return {worker.id: what for worker, what in zip(wanted, came, strict=True) if what is not None}

    def state(self, worker_id: str) -> FoundWorker:
        """Observe it, and watch the found process."""
        return self._look(self._known.get(worker_id))

    def search(self, worker_id: str) -> FoundWorker:
        """Search all processes for it, and watch the found one."""
        return alone(self.search_steps(worker_id))

    def search_steps(self, worker_id: str) -> Steps[FoundWorker]:
        """`search`, for several at the same time."""
        return (yield from self._search(self._known.get(worker_id)))

    def states(self) -> dict[str, FoundWorker]:
        """Observe each of these workers, one after the other."""
        return {worker.id: self._look(worker) for worker in self._known.every()}

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> int:
        """Report each exit in the thread of the watch; a slow subscriber delays the others."""
        return self._known.subscribe(heard)

    def unsubscribe(self, subscription: int) -> None:
        """Remove a subscriber."""
        self._known.unsubscribe(subscription)

    def close(self) -> None:
        """Stop watching processes. The workers continue."""
        self._known.close()
        self._exits.close()

    def _start_unless_running(self, worker: WorkerSettings) -> ProcessIdentity | Exception | None:
        try:
            looked = self.search(worker.id)
            return None if looked.identity else self.start(worker.id, looked)
        except Exception as error:  # noqa: BLE001 (one that fails is an answer, and keeps no other from starting)
            return error

    def _look(self, worker: WorkerSettings) -> FoundWorker:
        try:
            found = find_watcher(self.processes, self._drive, self._config(), worker)
        except OSError as error:
            return _unknown(worker, error)
        return self._noted(found)

    def _search(self, worker: WorkerSettings) -> Steps[FoundWorker]:
        doors = self.processes, self._drive, self._config(), worker
        try:
            looked = yield from look_for_watcher.steps(*doors, Search.ALWAYS)
        except OSError as error:
            return _unknown(worker, error)
        return self._noted(looked.found)

    def _noted(self, found: FoundWorker) -> FoundWorker:
        if found.identity is not None:
            self._watch(found.worker_id, found.identity)
        return found

    def _watch(self, worker_id: str, identity: ProcessIdentity) -> None:
        if identity in self._watched:
            return
        self._watched[identity] = worker_id  # before the watch knows it: it may tell at once
        try:
            watched = self._exits.watch(identity)
        except (OSError, RuntimeError) as error:  # no descriptor or no thread to be had: looks find exits as well
            log.warning("the exit of %s (pid %d) won't be noticed immediately: %s", worker_id, identity.pid, error)
            watched = False
        if not watched:
            self._watched.pop(identity, None)

    def _ended(self, identity: ProcessIdentity) -> None:
        worker_id = self._watched.pop(identity, None)
        if worker_id is not None:
            self._known.tell(WorkerEnded(worker_id, identity, self.processes.exit_code(identity)))


def _unknown(worker: WorkerSettings, error: OSError) -> FoundWorker:
    reason = f"{worker.id} can't be checked: {error}."
    return FoundWorker(worker.id, Presence.UNVERIFIABLE, life=Liveness.UNVERIFIABLE, reason=reason)
