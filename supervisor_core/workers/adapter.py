"""The adapter to all workers of this host, each by its id, from any thread."""

from __future__ import annotations

import itertools
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.common.text import nearest
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.processes.exits import ExitWatch
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.processes.stopping import StopReport
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.worker import find_watcher, start_watcher, stop_watcher_gracefully

CONCURRENT_STARTS = 16
"""The starts that run at the same time. Each waits for its grace period, so one after the other would take minutes."""

log = logging.getLogger(__name__)


class WorkerEnded(NamedTuple):
    """A worker's process has ended. It's a hint to look, since its children may live on."""

    worker_id: str
    identity: ProcessIdentity
    exit_code: int | None
    """Negative for a signal; None if unknown, because only the parent of a process learns it."""


class WorkerAdapter(ABC):
    """The operations on the workers of this host.

    Calls may block, and belong on no event loop. They may come from many threads at once, and those for different
    workers run at the same time. A worker that was never added is a `UsageError`; after `close` all but
    `unsubscribe` and `close` are a `RefusedError`.
    """

    processes: HostProcesses

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: dict[str, WorkerSettings] = {}
        self._subscribers: dict[int, Callable[[WorkerEnded], None]] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    @abstractmethod
    def start(self, worker_id: str, looked: FoundWorker | None = None, *, waits: bool = True) -> ProcessIdentity:
        """Start it and, if it `waits`, check that it's alive after its grace period. Leftovers of an earlier run are
        stopped first. `looked` is the result of a `search` that the caller just made.

        `RefusedError` if it, or a part of it, may be running; `LaunchError` if it ended within its grace period.
        """

    @abstractmethod
    def stop(self, worker_id: str, why: str = "") -> StopReport:
        """Stop all its processes; `why` is on record before the first signal. The report names survivors.

        `RefusedError` if it's unknown whether it runs; then nothing was signalled.
        """

    @abstractmethod
    def state(self, worker_id: str) -> FoundWorker:
        """Observe it. A process that can't be checked is unverifiable, never stopped."""

    def search(self, worker_id: str) -> FoundWorker:
        """Observe it, and search all processes for one that looks like it, before a start or a restart."""
        return self.state(worker_id)

    def states(self) -> dict[str, FoundWorker]:
        """Observe each of these workers."""
        self._check_open()
        return {worker_id: self.state(worker_id) for worker_id in list(self._workers)}

    def start_all(self) -> dict[str, ProcessIdentity | Exception]:
        """Start the stopped workers, several at a time. Returns for each its process, or the error.

        Workers that the configuration disables or quarantines are left alone.
        """
        self._check_open()

        def start(worker_id: str) -> ProcessIdentity | Exception | None:
            try:
                looked = self.search(worker_id)
                return None if looked.identity else self.start(worker_id, looked)
            except Exception as error:  # noqa: BLE001 (one that fails is an answer, and keeps no other from starting)
                return error

        settings = list(self._workers.values())
        ids = [worker.id for worker in settings if worker.enabled and not worker.quarantined]
        with ThreadPoolExecutor(CONCURRENT_STARTS, thread_name_prefix="start-all") as threads:
            results = zip(ids, threads.map(start, ids), strict=True)
            return {worker_id: result for worker_id, result in results if result is not None}

    def add(self, worker: WorkerSettings) -> None:
        """Add this worker, or update its settings. Starts nothing."""
        self._check_open()
        with self._lock:
            self._workers[worker.id] = worker

    def remove(self, worker_id: str) -> StopReport:
        """Stop all its processes and forget it, unless something survived or somebody added it again."""
        worker = self.worker(worker_id)
        report = self.stop(worker_id, "removed from the configuration")
        with self._lock:
            if report.stopped and self._workers.get(worker_id) is worker:
                del self._workers[worker_id]
        return report

    def worker(self, worker_id: str) -> WorkerSettings:
        self._check_open()
        worker = self._workers.get(worker_id)
        if worker is None:
            ids = tuple(self._workers)
            suggestion = nearest(worker_id, ids)
            hint = f"Did you mean {suggestion}?" if suggestion else f"Workers: {', '.join(ids) or 'none'}."
            raise UsageError(f"Unknown worker {worker_id!a}. {hint}")
        return worker

    def subscribe(self, on_exit: Callable[[WorkerEnded], None]) -> int:
        """Report each exit once and immediately. Returns the key for `unsubscribe`.

        `on_exit` is called in the event loop that made the adapter, or in a thread where there was none; a slow one
        delays the others. It hears of processes that an observation or a start here has seen running, whoever started
        or ended them.
        """
        self._check_open()
        number = next(self._numbers)
        self._subscribers[number] = on_exit
        return number

    def unsubscribe(self, subscription: int) -> None:
        self._subscribers.pop(subscription, None)

    def close(self) -> None:
        """Report no more exits. The workers continue."""
        self._closed = True
        self._subscribers.clear()

    def report_exit(self, ended: WorkerEnded) -> None:
        """Call every subscriber. One that raises is logged, and the others are still called."""
        for number, on_exit in list(self._subscribers.items()):
            if number not in self._subscribers:  # gone since
                continue
            try:
                on_exit(ended)
            except Exception:
                log.exception("a subscriber to the exit of %s failed", ended.worker_id)

    def _check_open(self) -> None:
        if self._closed:
            raise RefusedError("The supervisor is shutting down. Its workers keep running.")


class ProcessWorkerAdapter(WorkerAdapter):
    """Workers as processes of this host. The kernel reports their exits."""

    def __init__(self, context: DaemonContext) -> None:
        super().__init__()
        self.processes = context.host.processes
        self._context = context
        self._exits = ExitWatch(self._on_exit)
        self._watched: dict[ProcessIdentity, str] = {}
        """The worker of each process. Entries are set and removed in one operation, so no lock is needed."""
        self._ended: dict[str, ProcessIdentity] = {}
        """The newest exit of each worker: an observation from before it doesn't report it again."""

    def start(self, worker_id: str, looked: FoundWorker | None = None, *, waits: bool = True) -> ProcessIdentity:
        worker = self.worker(worker_id)
        try:
            identity = start_watcher(self._context.host, worker, looked, waits=waits)
        except RefusedError:
            self.state(worker_id)  # its exit is reported as well
            raise
        self._watch(worker_id, identity)
        return identity

    def stop(self, worker_id: str, why: str = "") -> StopReport:
        return stop_watcher_gracefully(self.processes, self.worker(worker_id), why)

    def state(self, worker_id: str) -> FoundWorker:
        worker = self.worker(worker_id)
        return self._observe(worker_id, lambda: self.processes.find(worker.id))

    def search(self, worker_id: str) -> FoundWorker:
        worker = self.worker(worker_id)
        return self._observe(worker_id, lambda: find_watcher(self._context.host, worker, beside=True))

    def close(self) -> None:
        super().close()
        self._exits.close()

    def _observe(self, worker_id: str, find: Callable[[], FoundWorker]) -> FoundWorker:
        """Observe it, and watch the found process."""
        try:
            observed = find()
        except OSError as error:
            reason = f"{worker_id} can't be checked: {error}."
            return FoundWorker(worker_id, Presence.UNVERIFIABLE, life=Liveness.UNVERIFIABLE, reason=reason)
        if observed.identity is not None:
            self._watch(worker_id, observed.identity)
        return observed

    def _watch(self, worker_id: str, identity: ProcessIdentity) -> None:
        if identity in self._watched or self._ended.get(worker_id) == identity:
            return
        self._watched[identity] = worker_id  # before the watch knows it: it may report at once
        try:
            self._exits.watch(identity)
        except (OSError, RuntimeError) as error:  # no descriptor or no thread to be had: looks find exits as well
            log.warning("the exit of %s (pid %d) won't be noticed immediately: %s", worker_id, identity.pid, error)
            self._watched.pop(identity, None)

    def _on_exit(self, identity: ProcessIdentity) -> None:
        worker_id = self._watched[identity]
        self._ended[worker_id] = identity
        del self._watched[identity]
        self.report_exit(WorkerEnded(worker_id, identity, self.processes.exit_code(identity)))
