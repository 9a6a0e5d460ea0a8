"""The mock adapter with slow and failing actions. A test says what happens to its workers."""

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
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.processes.launch import LaunchError, LaunchSpec
from supervisor_core.processes.stopping import StopReport
from supervisor_core.workers.adapter import WorkerAdapter, WorkerEnded
from tests.support.processes.fake_processes import FakeProcesses

SLOWEST_SECONDS = 30.0  # a test that forgets to let a slow action go fails by this, and does not hang


@dataclass(slots=True)
class Action:
    """A start, stop or remove. `begun` and `ended` are places in the one order of all begins and ends."""

    worker_id: str
    name: str
    begun: int
    ended: int | None = None


class ScriptedAdapter(WorkerAdapter):
    """Workers without processes, for tests. `die`, `start_by_hand`, `slow`, `unkillable` … change them.

    Exits are reported in the thread that causes them, before `die` or `stop` returns. `processes` offers more.
    """

    def __init__(self, config: Callable[[], SupervisorConfig] | None = None) -> None:
        super().__init__()
        self.processes: FakeProcesses = FakeProcesses()
        self.actions: list[Action] = []
        """Every start, stop and remove, in the order in which they began."""
        self.config = config
        """The configuration that its workers are started with, by which a changed setting is noticed."""
        self._changing = threading.Lock()
        self._watched: dict[ProcessIdentity, str] = {}
        self._by_hand: set[ProcessIdentity] = set()
        self._slow: dict[str, threading.Event] = {}
        self._broken: dict[str, str] = {}
        self._moments = 0
        self._removing = False

    def die(self, worker_id: str, code: int = 1) -> None:
        """Its process exits; its children stay."""
        with self._changing:
            self.processes.die(worker_id, code)
        self._tell_of_exits()

    def start_by_hand(self, worker_id: str) -> ProcessIdentity:
        """Somebody else starts it. Its exit is reported after the next observation, without its code."""
        with self._changing:
            identity = self._launch(self.worker(worker_id))
            self._by_hand.add(identity)
            return identity

    def break_start(self, worker_id: str, why: str) -> None:
        """It can't be started until this is called with an empty reason."""
        with self._changing:
            self._broken[worker_id] = why

    def slow(self, worker_id: str, until: threading.Event) -> None:
        """Its next start, stop or remove waits until this is set."""
        with self._changing:
            self._slow[worker_id] = until

    def unkillable(self, worker_id: str, *, is_so: bool = True) -> None:
        """Its current process hangs inside the kernel, so SIGKILL doesn't end it."""
        with self._changing:
            self.processes.unkillable(worker_id, is_so=is_so)

    @property
    def overlaps(self) -> list[tuple[Action, Action]]:
        """Pairs of overlapping actions for one worker; there should be none."""
        with self._changing:
            actions = list(self.actions)
        return [
            (one, other)
            for place, one in enumerate(actions)
            for other in actions[place + 1 :]
            if one.worker_id == other.worker_id and (one.ended is None or other.begun < one.ended)
        ]

    def done(self, worker_id: str) -> list[str]:
        """The actions on this worker in their order: start, stop, remove."""
        with self._changing:
            return [action.name for action in self.actions if action.worker_id == worker_id]

    @contextmanager
    def during(self, worker_id: str, name: str) -> Iterator[None]:
        """Another activity, as of a command, that counts among the actions."""
        with self._acting(self.worker(worker_id), name):
            yield

    def remove(self, worker_id: str) -> StopReport:
        """Stop it, and forget it if nothing survived."""
        with self._acting(self.worker(worker_id), "remove"):
            self._removing = True
            try:
                return super().remove(worker_id)
            finally:
                self._removing = False

    def start(
        self,
        worker_id: str,
        looked: FoundWorker | None = None,
        *,
        waits: bool = True,
    ) -> ProcessIdentity:
        """Start it, as the real adapter would."""
        worker = self.worker(worker_id)
        with self._acting(worker, "start"), self._changing:
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

    def stop(self, worker_id: str, why: str = "") -> StopReport:
        """Stop it."""
        worker = self.worker(worker_id)
        if self._removing:
            return self._stop(worker)
        with self._acting(worker, "stop"):
            return self._stop(worker)

    def state(self, worker_id: str) -> FoundWorker:
        """Observe it, and watch the found process."""
        worker = self.worker(worker_id)
        with self._changing:
            found = self.processes.find(worker.id)
            self._watch(found)
        return found

    @contextmanager
    def _acting(self, worker: WorkerSettings, name: str) -> Iterator[None]:
        with self._changing:
            action = Action(worker.id, name, self._moment())
            self.actions.append(action)
            until = self._slow.pop(worker.id, None)
        try:
            if until is not None and not until.wait(SLOWEST_SECONDS):
                raise AssertionError(f"the {name} of {worker.id} was never let go")
            yield
        finally:
            with self._changing:
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
        assert record.identity is not None
        return record.identity

    def _stop(self, worker: WorkerSettings) -> StopReport:
        with self._changing:
            report = self.processes.stop(worker.id, stop_signal=worker.stop_signal, timeout=worker.stop_timeout_seconds)
        self._tell_of_exits()
        return report

    def _watch(self, found: FoundWorker) -> None:
        if found.identity is not None:
            self._watched[found.identity] = found.worker_id

    def _tell_of_exits(self) -> None:
        with self._changing:
            exits = [
                (self._watched.pop(identity, None), identity, code) for identity, code in self.processes.take_exits()
            ]
        for worker_id, identity, code in exits:
            if worker_id is not None:
                self.report_exit(WorkerEnded(worker_id, identity, None if identity in self._by_hand else code))
