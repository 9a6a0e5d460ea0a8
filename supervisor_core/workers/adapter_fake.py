"""The port to all workers without processes. A test says what happens to them, and how slowly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from supervisor_core.common.errors import RefusedError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.processes.fake import FakeProcesses
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.processes.launch import LaunchError, LaunchSpec
from supervisor_core.processes.stopping import StopReport
from supervisor_core.processes.together import Steps, at_once
from supervisor_core.workers.adapter import KnownWorkers, WorkerEnded

SLOWEST_SECONDS = 30.0  # a test that forgets to let a slow action go fails by this, and does not hang


@dataclass(slots=True)
class Action:
    """A start, stop or remove. `begun` and `ended` are places in the one order of all begins and ends."""

    worker_id: str
    name: str
    begun: int
    ended: int | None = None


class FakeWorkerAdapter:
    """Workers without processes, for tests. `die`, `start_by_hand`, `slow`, `unkillable` … change them.

    Exits are reported in the thread that causes them, before `die` or `stop` returns. `processes` offers more.
    """

    def __init__(self, config: Callable[[], SupervisorConfig] | None = None) -> None:
        self.processes = FakeProcesses()
        self.actions: list[Action] = []
        """Every start, stop and remove, in the order in which they began."""
        self.config = config
        """The configuration that its workers are started with, by which a changed setting is noticed. The reconciler
        sets it where it's missing."""
        self._known = KnownWorkers()
        self._lock = threading.Lock()
        self._watched: dict[ProcessIdentity, str] = {}
        self._by_hand: set[ProcessIdentity] = set()
        self._slow: dict[str, threading.Event] = {}
        self._broken: dict[str, str] = {}
        self._moments = 0

    def die(self, worker_id: str, code: int = 1) -> None:
        """Its process exits; its children stay."""
        with self._lock:
            self.processes.die(worker_id, code)
        self._tell_of_exits()

    def start_by_hand(self, worker_id: str) -> ProcessIdentity:
        """Somebody else starts it. Its exit is reported after the next observation, without its code."""
        with self._lock:
            identity = self._launch(self._known.get(worker_id))
            self._by_hand.add(identity)
            return identity

    def break_start(self, worker_id: str, why: str) -> None:
        """It can't be started until this is called with an empty reason."""
        with self._lock:
            self._broken[worker_id] = why

    def slow(self, worker_id: str, until: threading.Event) -> None:
        """Its next start, stop or remove waits until this is set."""
        with self._lock:
            self._slow[worker_id] = until

    def unkillable(self, worker_id: str, *, is_so: bool = True) -> None:
        """Its current process hangs inside the kernel, so SIGKILL doesn't end it."""
        with self._lock:
            self.processes.unkillable(worker_id, is_so=is_so)

    @property
    def overlaps(self) -> list[tuple[Action, Action]]:
        """Pairs of overlapping actions for one worker; there should be none."""
        with self._lock:
            actions = list(self.actions)
        return [
            (one, other)
            for place, one in enumerate(actions)
            for other in actions[place + 1 :]
            if one.worker_id == other.worker_id and (one.ended is None or other.begun < one.ended)
        ]

    def done(self, worker_id: str) -> list[str]:
        """The actions on this worker in their order: start, stop, remove."""
        with self._lock:
            return [action.name for action in self.actions if action.worker_id == worker_id]

    @contextmanager
    def during(self, worker_id: str, name: str) -> Iterator[None]:
        """Another activity, as of a command, that counts among the actions."""
        with self._acting(self._known.get(worker_id), name):
            yield

    def add(self, worker: WorkerSettings) -> None:
        """Add this worker, or update its settings."""
        self._known.add(worker)

    def remove(self, worker_id: str) -> StopReport:
        """Stop it, and forget it if nothing survived."""
        worker = self._known.get(worker_id)
        with self._acting(worker, "remove"):
            report = self._stop(worker)
        if report.stopped:
            self._known.forget(worker)
        return report

    def start(
        self,
        worker_id: str,
        looked: FoundWorker | None = None,  # noqa: ARG002 (looks itself)
        *,
        waits: bool = True,  # noqa: ARG002 (time does not pass)
    ) -> ProcessIdentity:
        """Start it, as the real adapter would."""
        worker = self._known.get(worker_id)
        with self._acting(worker, "start"), self._lock:
            found = self.processes.find(worker_id)
            if found.leftovers:
                report = self.processes.stop(worker_id, timeout=worker.stop_timeout_seconds)
                if not report.stopped:
                    raise LaunchError(f"{worker_id} wasn't started: processes of its last run can't be killed.")
            self.processes.break_start(worker_id, self._broken.get(worker_id, ""))
            try:
                identity = self._launch(worker)
            except RefusedError:
                self._watch(found)
                raise
            finally:
                self.processes.break_start(worker_id, "")
            self._watched[identity] = worker_id
            return identity

    def stop(self, worker_id: str, why: str = "") -> StopReport:  # noqa: ARG002 (nobody judges an end here)
        """Stop it."""
        worker = self._known.get(worker_id)
        with self._acting(worker, "stop"):
            return self._stop(worker)

    def start_all(self) -> dict[str, ProcessIdentity | Exception]:
        """Start the stopped workers, one after the other."""
        came: dict[str, ProcessIdentity | Exception] = {}
        for worker in self._known.every():
            if worker.enabled and not worker.quarantined and self.state(worker.id).identity is None:
                try:
                    came[worker.id] = self.start(worker.id)
                except Exception as error:  # noqa: BLE001 (an answer, as with the real one)
                    came[worker.id] = error
        return came

    def state(self, worker_id: str) -> FoundWorker:
        """Observe it, and watch the found process."""
        worker = self._known.get(worker_id)
        with self._lock:
            found = self.processes.find(worker.id)
            self._watch(found)
        return found

    def search(self, worker_id: str) -> FoundWorker:
        """Observe it, and watch the found process."""
        return self.state(worker_id)

    def search_steps(self, worker_id: str) -> Steps[FoundWorker]:
        """Observe it, and watch the found process."""
        return at_once(self.state)(worker_id)

    def states(self) -> dict[str, FoundWorker]:
        """Observe each of these workers."""
        return {worker.id: self.state(worker.id) for worker in self._known.every()}

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> int:
        """Report each exit, in the thread that caused it."""
        return self._known.subscribe(heard)

    def unsubscribe(self, subscription: int) -> None:
        """Remove a subscriber."""
        self._known.unsubscribe(subscription)

    def close(self) -> None:
        """Report no more exits."""
        self._known.close()

    @contextmanager
    def _acting(self, worker: WorkerSettings, name: str) -> Iterator[None]:
        with self._lock:
            action = Action(worker.id, name, self._moment())
            self.actions.append(action)
            until = self._slow.pop(worker.id, None)
        try:
            if until is not None and not until.wait(SLOWEST_SECONDS):
                raise AssertionError(f"the {name} of {worker.id} was never let go")
            yield
        finally:
            with self._lock:
                action.ended = self._moment()

    def _moment(self) -> int:
        self._moments += 1
        return self._moments

    def _launch(self, worker: WorkerSettings) -> ProcessIdentity:
        """Call it with the lock held."""
        config = self.config() if self.config else None
        spec = LaunchSpec(
            worker_id=worker.id,
            command=config.command_for(worker) if config else worker.command,
            cwd=worker.cwd,
            env={},
            log_path=Path(f"{worker.id}.log"),
            spec_hash=config.spec_hash(worker) if config else "",
        )
        record = self.processes.start(spec)
        assert record.identity is not None  # noqa: S101 (who exists only here is always known)
        return record.identity

    def _stop(self, worker: WorkerSettings) -> StopReport:
        with self._lock:
            report = self.processes.stop(worker.id, stop_signal=worker.stop_signal, timeout=worker.stop_timeout_seconds)
        self._tell_of_exits()
        return report

    def _watch(self, found: FoundWorker) -> None:
        if found.identity is not None:
            self._watched[found.identity] = found.worker_id

    def _tell_of_exits(self) -> None:
        with self._lock:
            news = [(self._watched.pop(ended.identity, None), ended) for ended in self.processes.reap()]
        for worker_id, ended in news:
            if worker_id is not None:
                code = None if ended.identity in self._by_hand else ended.code
                self._known.tell(WorkerEnded(worker_id, ended.identity, code))
