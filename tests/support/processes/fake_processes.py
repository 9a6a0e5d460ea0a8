"""The door to worker processes without any process, for tests: what happens to them is said by the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from supervisor_core.common.errors import RefusedError
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity, WorkerProcess
from supervisor_core.processes.adoption import SimilarProcess, WorkerProgram
from supervisor_core.processes.finding import FoundWorker, Presence, Scan, scan_processes
from supervisor_core.processes.launch import LaunchError, LaunchSpec
from supervisor_core.processes.manager import HostProcesses, order
from supervisor_core.processes.records import RUNNING, STOP, STUCK, WorkerRecord
from supervisor_core.processes.stopping import Ending, StopReport, signal_number

BOOT = "fake-boot"
FIRST_PID = 40_000
TERMINATED, KILLED = -15, -9


@dataclass
class _Worker:
    record: WorkerRecord
    identity: ProcessIdentity
    life: Liveness = Liveness.ALIVE
    obeys: bool = True
    killable: bool = True
    helpers: list[WorkerProcess] = field(default_factory=list)


class FakeProcesses(HostProcesses):
    """Workers that exist only here. `die`, `freeze`, `defy`, `unkillable` … say what becomes of them."""

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}
        self._lives: dict[ProcessIdentity, Liveness] = {}
        self._codes: dict[ProcessIdentity, int] = {}
        self._news: list[tuple[ProcessIdentity, int]] = []
        self._next_pid = FIRST_PID
        self._broken: dict[str, str] = {}
        self._by_hand: dict[ProcessIdentity, tuple[str, ...]] = {}
        self._boot = BOOT
        self.started: list[LaunchSpec] = []
        """Every launch, in order."""

    def die(self, worker_id: str, code: int = 1) -> None:
        """Its process ends by itself; helpers stay."""
        self._end(self._workers[worker_id], code)

    def freeze(self, worker_id: str) -> None:
        """Its process is stopped, and does nothing."""
        self._set(self._workers[worker_id], Liveness.FROZEN)

    def hide(self, worker_id: str) -> None:
        """The system no longer tells whether its process is still it."""
        self._set(self._workers[worker_id], Liveness.UNVERIFIABLE)

    def defy(self, worker_id: str) -> None:
        """It ignores the stop signal, and has to be killed."""
        self._workers[worker_id].obeys = False

    def unkillable(self, worker_id: str, *, is_so: bool = True) -> None:
        """It hangs inside the kernel: even being killed does not end it."""
        self._workers[worker_id].killable = not is_so

    def help_with(self, worker_id: str, name: str = "helper") -> WorkerProcess:
        """It starts a process that outlives it and ignores the stop signal."""
        member = WorkerProcess(self._new_identity(), name, "sleeping")
        self._lives[member.identity] = Liveness.ALIVE
        self._workers[worker_id].helpers.append(member)
        return member

    def break_start(self, worker_id: str, why: str) -> None:
        """It can't be started until this is taken back with an empty reason."""
        self._broken[worker_id] = why

    def start_by_hand(self, *command: str) -> ProcessIdentity:
        """Somebody starts a process with this command, and tells nobody."""
        identity = self._new_identity()
        self._lives[identity] = Liveness.ALIVE
        self._by_hand[identity] = command
        return identity

    def reboot(self) -> None:
        """The host goes down, with every process, and comes up again: nobody hears of any exit."""
        for worker in self._workers.values():
            worker.helpers.clear()
            worker.life = Liveness.GONE
        self._lives = dict.fromkeys(self._lives, Liveness.GONE)
        self._boot += "+"

    def identify(self, pid: int) -> ProcessIdentity | None:
        """The identity of the process that has this PID now; our own is real, and here since this boot."""
        if pid == os.getpid():
            return ProcessIdentity(pid, pid, self._boot)
        return next((known for known, life in self._lives.items() if known.pid == pid and not life.ended), None)

    def state(self, identity: ProcessIdentity) -> Liveness:
        """True if exactly this process lives."""
        return self._lives.get(identity, Liveness.GONE)

    def wait_exit(self, identity: ProcessIdentity, timeout: float) -> bool:
        """True if the process has ended; nothing changes by waiting here."""
        return self.state(identity).ended

    def start(self, spec: LaunchSpec) -> WorkerRecord:
        """Start a worker, under the same conditions as the real door."""
        found = self.find(spec.worker_id)
        if found.presence is not Presence.STOPPED or found.leftovers:
            raise RefusedError(f"Worker {spec.worker_id} is already running, or some of its processes are.")
        if not spec.command or self._broken.get(spec.worker_id):
            raise LaunchError(f"Worker {spec.worker_id} can't be started: {self._broken.get(spec.worker_id)}.")
        identity = self._new_identity()
        record = WorkerRecord(
            worker_id=spec.worker_id,
            generation=f"generation-{identity.pid}",
            state=RUNNING,
            command=spec.command,
            log_path=str(spec.log_path),
            spec_hash=spec.spec_hash,
            identity=identity,
            order=spec.order,
            own_log_before=spec.own_log_before,
        )
        self._workers[spec.worker_id] = worker = _Worker(record, identity)
        self._set(worker, Liveness.ALIVE)
        self.started.append(spec)
        return record

    def record(self, worker_id: str) -> WorkerRecord | None:
        """The record of the newest launch."""
        worker = self._workers.get(worker_id)
        return worker.record if worker else None

    def find(self, worker_id: str, scan: Scan = scan_processes, *, thorough: bool = True) -> FoundWorker:
        """Look for a worker."""
        worker = self._workers.get(worker_id)
        if worker is None:
            return FoundWorker(worker_id, Presence.STOPPED)
        if worker.life is Liveness.UNVERIFIABLE:
            reason = "The system doesn't say."
            return FoundWorker(worker_id, Presence.UNVERIFIABLE, worker.record, worker.life, reason=reason)
        if worker.life.running:
            return FoundWorker(worker_id, Presence.RUNNING, worker.record, worker.life)
        return FoundWorker(worker_id, Presence.STOPPED, worker.record, leftovers=tuple(worker.helpers))

    def find_similar(
        self, words: Sequence[str], resolve: Callable[[], WorkerProgram], scan: Scan = scan_processes
    ) -> Sequence[SimilarProcess]:
        """Those started by hand with this command that are on record as no worker."""
        known = {worker.identity for worker in self._workers.values()}
        return [
            SimilarProcess(identity, "program")
            for identity, command in self._by_hand.items()
            if self._lives[identity].running and identity not in known and command == tuple(words)
        ]

    def adopt(self, worker_id: str, words: Sequence[str], process: SimilarProcess) -> FoundWorker:
        """Take a process that was started by hand for this worker."""
        identity = process.identity
        record = WorkerRecord(worker_id, f"generation-{identity.pid}", RUNNING, command=tuple(words), identity=identity)
        self._workers[worker_id] = _Worker(record, identity)
        return FoundWorker(worker_id, Presence.RUNNING, record, Liveness.ALIVE, adopted=True)

    def members(self, worker_id: str) -> tuple[WorkerProcess, ...]:
        """A worker's process set, the leader first."""
        worker = self._workers.get(worker_id)
        if worker is None:
            return ()
        leader = (self._leader(worker),) if worker.life.running else ()
        return (*leader, *worker.helpers)

    def end_trial(self, worker_id: str) -> None:
        """The trial of a launch is over."""
        worker = self._workers[worker_id]
        worker.record = worker.record._replace(order=None)

    def stop(self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = "") -> StopReport:
        """End a worker; the time that it would take is told, and not spent."""
        signal_number(stop_signal)
        worker = self._workers.get(worker_id)
        if worker is None:
            return StopReport(worker_id)
        if worker.life is Liveness.UNVERIFIABLE:
            raise RefusedError(f"Worker {worker_id} wasn't stopped. The system doesn't say.")
        ending, seconds = Ending.NOTHING, 0.0
        killed = list(worker.helpers) if worker.killable else []
        if worker.life.running:
            ending = Ending.GRACEFUL if worker.obeys and worker.killable else Ending.KILLED
            seconds = 0.0 if ending is Ending.GRACEFUL else timeout
            if ending is Ending.KILLED and worker.killable:
                killed.insert(0, self._leader(worker))
        if not worker.killable:
            worker.record = worker.record._replace(state=STUCK, order=order(STOP, why, timeout))
            return StopReport(worker_id, ending, seconds, survivors=self.members(worker_id))
        if worker.life.running:
            self._end(worker, TERMINATED if ending is Ending.GRACEFUL else KILLED)
        for member in worker.helpers:
            self._lives[member.identity] = Liveness.GONE
        del self._workers[worker_id]
        return StopReport(worker_id, ending, seconds, self.exit_code(worker.identity), tuple(killed))

    def take_exits(self) -> list[tuple[ProcessIdentity, int]]:
        """The exits since the last time."""
        news, self._news = self._news, []
        return news

    def exit_code(self, identity: ProcessIdentity, *, waits: bool = False) -> int | None:
        """The exit code of a process that has ended."""
        return self._codes.get(identity)

    @property
    def lives(self) -> Mapping[ProcessIdentity, Liveness]:
        """Every process there ever was, and what became of it."""
        return dict(self._lives)

    def _new_identity(self) -> ProcessIdentity:
        self._next_pid += 1
        return ProcessIdentity(self._next_pid, self._next_pid, self._boot)

    def _set(self, worker: _Worker, life: Liveness) -> None:
        worker.life = life
        self._lives[worker.identity] = life

    def _end(self, worker: _Worker, code: int) -> None:
        self._set(worker, Liveness.GONE)
        self._codes[worker.identity] = code
        self._news.append((worker.identity, code))

    def _leader(self, worker: _Worker) -> WorkerProcess:
        return WorkerProcess(
            worker.identity, worker.record.worker_id, "disk-sleep" if not worker.killable else "sleeping"
        )
