"""The port to all workers of this host, for whoever brings them into line: each by its id, from any thread."""

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
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.worker import (
    Search,
    find_watcher,
    look_for_watcher,
    start_watcher,
    stop_watcher_gracefully,
)

STARTS_AT_ONCE = 16
"""Each waits for its grace period, so one after the other would take minutes; the host has few cores all the same."""

log = logging.getLogger(__name__)


class WorkerEnded(NamedTuple):
    """A worker's process has ended; a hint to look, since what it started may live on."""

    worker_id: str
    identity: ProcessIdentity
    exit_code: int | None
    """Negative for a signal; None where nobody knows: only the parent of a process learns it."""


class WorkerAdapter(Protocol):
    """The operations on the workers of this host.

    Calls may block, and belong on no event loop. They may come from many threads at once, and those for different
    workers run at the same time. A worker that was never added is a `UsageError`; after `close` all but
    `unsubscribe` and `close` are a `RefusedError`.
    """

    @property
    def processes(self) -> ProcessManager:
        """The processes behind the workers, for whoever observes them."""

    def add(self, worker: WorkerSettings) -> None:
        """Know this worker from now on. Again, with other settings: from now on these count. Starts nothing."""

    def remove(self, worker_id: str) -> StopReport:
        """End all of it and forget it. It is forgotten only where nothing survived, and nobody added it anew."""

    def start(self, worker_id: str, looked: FoundWorker | None = None) -> ProcessIdentity:
        """Start it, and see it alive after its grace period; what is left of an earlier life is ended first.

        `looked` is what `search` has just told the caller, and saves one more search.

        `RefusedError` where it, or something of it, may be running; `LaunchError` where it did not live so long.
        """

    def stop(self, worker_id: str, why: str = "") -> StopReport:
        """End all of it. To stop what does not run is success; what survives is in the report.

        `why` is on record before the first signal.
        `RefusedError` where nobody can tell whether it runs: then nothing was signalled.
        """

    def start_all(self) -> dict[str, ProcessIdentity | Exception]:
        """Start those that do not run, and what came of each: its process, or why it is not there.

        Those that the configuration disables or quarantines stay as they are.
        """

    def state(self, worker_id: str) -> FoundWorker:
        """Look for it. What can't be looked at is unverifiable, never stopped."""

    def search(self, worker_id: str) -> FoundWorker:
        """The same, with all processes searched for one that claims to be it: before a start and a restart."""

    def states(self) -> dict[str, FoundWorker]:
        """Look for each of them."""

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> int:
        """Hear of each exit once and at once, in a thread of the adapter; the answer is for `unsubscribe`.

        Told is of processes that a look or a start here has seen running, whoever started and whoever ended them.
        """

    def unsubscribe(self, subscription: int) -> None:
        """Hear no more; one that is not there any more is no mistake."""

    def close(self) -> None:
        """Tell of no more exits. The workers go on."""


class KnownWorkers:
    """The workers that were added, and who hears of their exits: what every adapter keeps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: dict[str, WorkerSettings] = {}
        self._subscribers: dict[int, Callable[[WorkerEnded], None]] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    def add(self, worker: WorkerSettings) -> None:
        """Know it from now on."""
        with self._lock:
            self._check_open()
            self._workers[worker.id] = worker

    def get(self, worker_id: str) -> WorkerSettings:
        """The worker as it was added last."""
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
        """All of them, in the order in which they came."""
        with self._lock:
            self._check_open()
            return tuple(self._workers.values())

    def forget(self, worker: WorkerSettings) -> None:
        """Know it no more, unless it has been added anew meanwhile."""
        with self._lock:
            if self._workers.get(worker.id) is worker:
                del self._workers[worker.id]

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> int:
        """Tell this one as well from now on."""
        with self._lock:
            self._check_open()
            number = next(self._numbers)
            self._subscribers[number] = heard
            return number

    def unsubscribe(self, subscription: int) -> None:
        """Tell this one no more."""
        with self._lock:
            self._subscribers.pop(subscription, None)

    def tell(self, ended: WorkerEnded) -> None:
        """Tell every subscriber; one that raises is logged and keeps no other from hearing."""
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
        """Forget the subscribers, and answer nobody any more."""
        with self._lock:
            self._closed = True
            self._subscribers.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise RefusedError("The supervisor is shutting down. Its workers keep running.")


class ProcessWorkerAdapter:
    """Workers as processes of this host. The kernel reports their exits.

    `config` gives the configuration that is in force; it is asked at each call.
    """

    def __init__(self, processes: ProcessManager, drive: Drive, config: Callable[[], SupervisorConfig]) -> None:
        self.processes = processes
        self._drive = drive
        self._config = config
        self._known = KnownWorkers()
        self._exits = ExitWatch(self._ended)
        self._watched: dict[ProcessIdentity, str] = {}
        """The worker of each process. Each entry is put and taken whole, so no lock is needed."""

    @classmethod
    def of(cls, context: DaemonContext) -> Self:
        """The workers of this host."""
        return cls(context.host.processes, context.host.drive, lambda: context.host.config)

    def add(self, worker: WorkerSettings) -> None:
        """Know this worker from now on, or its new settings."""
        self._known.add(worker)

    def remove(self, worker_id: str) -> StopReport:
        """End all of it, and forget it where nothing survived."""
        worker = self._known.get(worker_id)
        report = stop_watcher_gracefully(self.processes, worker, "removed from the configuration")
        if report.stopped:
            self._known.forget(worker)
        return report

    def start(self, worker_id: str, looked: FoundWorker | None = None) -> ProcessIdentity:
        """Start it, and see it alive after its grace period. One that is found running is watched, and refused."""
        worker = self._known.get(worker_id)
        try:
            identity = start_watcher(self.processes, self._drive, self._config(), worker, looked)
        except RefusedError:
            self._look(worker)
            raise
        self._watch(worker_id, identity)
        return identity

    def stop(self, worker_id: str, why: str = "") -> StopReport:
        """End all of it, with the settings that it was added with, in the configuration or not."""
        return stop_watcher_gracefully(self.processes, self._known.get(worker_id), why)

    def start_all(self) -> dict[str, ProcessIdentity | Exception]:
        """Start those that do not run, several at a time."""
        wanted = [worker for worker in self._known.every() if worker.enabled and not worker.quarantined]
        if not wanted:
            return {}
        with ThreadPoolExecutor(min(STARTS_AT_ONCE, len(wanted)), thread_name_prefix="start-all") as threads:
            came = threads.map(self._start_unless_running, wanted)
            return {worker.id: what for worker, what in zip(wanted, came, strict=True) if what is not None}

    def state(self, worker_id: str) -> FoundWorker:
        """Look for it, and watch the process that is found."""
        return self._look(self._known.get(worker_id))

    def search(self, worker_id: str) -> FoundWorker:
        """Look for it among all processes, and watch the one that is found."""
        return self._look(self._known.get(worker_id), search=True)

    def states(self) -> dict[str, FoundWorker]:
        """Look for each of them, one after the other."""
        return {worker.id: self._look(worker) for worker in self._known.every()}

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> int:
        """Hear of each exit, in the thread of the watch: who takes long there delays the others."""
        return self._known.subscribe(heard)

    def unsubscribe(self, subscription: int) -> None:
        """Hear no more."""
        self._known.unsubscribe(subscription)

    def close(self) -> None:
        """Watch no process any more. The workers go on."""
        self._known.close()
        self._exits.close()

    def _start_unless_running(self, worker: WorkerSettings) -> ProcessIdentity | Exception | None:
        try:
            looked = self._look(worker, search=True)
            return None if looked.identity else self.start(worker.id, looked)
        except Exception as error:  # noqa: BLE001 (one that fails is an answer, and keeps no other from starting)
            return error

    def _look(self, worker: WorkerSettings, *, search: bool = False) -> FoundWorker:
        doors = self.processes, self._drive, self._config(), worker
        try:
            found = look_for_watcher(*doors, Search.ALWAYS).found if search else find_watcher(*doors)
        except OSError as error:
            reason = f"{worker.id} can't be checked: {error}."
            return FoundWorker(worker.id, Presence.UNVERIFIABLE, life=Liveness.UNVERIFIABLE, reason=reason)
        if found.identity is not None:
            self._watch(worker.id, found.identity)
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
