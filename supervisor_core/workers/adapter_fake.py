"""The mock adapter: workers without processes, for programs that test their use of the reconciler."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

from supervisor_core.common.errors import RefusedError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity, WorkerProcess
from supervisor_core.processes.finding import FoundWorker, Presence, Scan, scan_processes
from supervisor_core.processes.launch import LaunchSpec
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.processes.records import RUNNING, WorkerRecord
from supervisor_core.processes.stopping import Ending, StopReport
from supervisor_core.workers.adapter import WorkerAdapter, WorkerEnded

BOOT = "fake-boot"


class FakeProcesses(HostProcesses):
    """The processes of the mock: a record for each, and an exit code for those that ended."""

    def __init__(self) -> None:
        self.records: dict[str, WorkerRecord] = {}
        self.codes: dict[ProcessIdentity, int] = {}
        self._pids = itertools.count(40_001)

    def identify(self, pid: int) -> ProcessIdentity | None:
        return ProcessIdentity(pid, pid, BOOT) if pid == os.getpid() else None

    def state(self, identity: ProcessIdentity) -> Liveness:
        runs = identity in (record.identity for record in self.records.values()) and identity not in self.codes
        return Liveness.ALIVE if runs else Liveness.GONE

    def wait_exit(self, identity: ProcessIdentity, timeout: float) -> bool:  # noqa: ARG002 (time does not pass)
        return self.state(identity).ended

    def record(self, worker_id: str) -> WorkerRecord | None:
        return self.records.get(worker_id)

    def find(self, worker_id: str, scan: Scan = scan_processes, *, thorough: bool = True) -> FoundWorker:  # noqa: ARG002 (nothing to scan)
        record = self.records.get(worker_id)
        if record is None or record.identity is None or self.state(record.identity).ended:
            return FoundWorker(worker_id, Presence.STOPPED, record)
        return FoundWorker(worker_id, Presence.RUNNING, record, Liveness.ALIVE)

    def find_similar(self, *_: object) -> tuple[()]:
        return ()

    def members(self, worker_id: str) -> tuple[WorkerProcess, ...]:
        identity = self.find(worker_id).identity
        return (WorkerProcess(identity, worker_id, "sleeping"),) if identity else ()

    def start(self, spec: LaunchSpec) -> WorkerRecord:
        if self.find(spec.worker_id):
            raise RefusedError(f"Worker {spec.worker_id} is already running.")
        pid = next(self._pids)
        record = WorkerRecord(
            worker_id=spec.worker_id,
            generation=f"generation-{pid}",
            state=RUNNING,
            command=spec.command,
            log_path=str(spec.log_path),
            spec_hash=spec.spec_hash,
            identity=ProcessIdentity(pid, pid, BOOT),
        )
        self.records[spec.worker_id] = record
        return record

    def end_trial(self, worker_id: str) -> None:
        """Nothing to do: no start is on trial."""

    def stop(self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = "") -> StopReport:  # noqa: ARG002
        identity = self.find(worker_id).identity
        if identity is not None:
            self.codes[identity] = -15
        self.records.pop(worker_id, None)
        return StopReport(worker_id, Ending.GRACEFUL if identity else Ending.NOTHING, 0.0, -15 if identity else None)

    def exit_code(self, identity: ProcessIdentity, *, waits: bool = False) -> int | None:  # noqa: ARG002
        return self.codes.get(identity)


class FakeWorkerAdapter(WorkerAdapter):
    """Workers without processes. `die` ends one; `done` names what the reconciler did with it.

    Exits are reported in the thread that causes them, before `die` or `stop` returns. `config` returns the
    configuration that its workers are started with; the reconciler sets it where it's missing.
    """

    def __init__(self, config: Callable[[], SupervisorConfig] | None = None) -> None:
        super().__init__()
        self.processes: FakeProcesses = FakeProcesses()
        self.config = config
        self.actions: list[tuple[str, str]] = []
        """The id of the worker and `start`, `stop` or `remove`, in the order in which they began."""

    def die(self, worker_id: str, code: int = 1) -> None:
        identity = self.processes.find(worker_id).identity
        if identity is not None:
            self.processes.codes[identity] = code
            self.report_exit(WorkerEnded(worker_id, identity, code))

    def done(self, worker_id: str) -> list[str]:
        """The actions on this worker in their order."""
        return [action for acted_id, action in self.actions if acted_id == worker_id]

    def start(self, worker_id: str, looked: FoundWorker | None = None, *, waits: bool = True) -> ProcessIdentity:  # noqa: ARG002
        worker, config = self.worker(worker_id), self.config() if self.config else None
        self.actions.append((worker_id, "start"))
        spec = LaunchSpec(
            worker_id=worker_id,
            command=config.command_for(worker) if config else worker.command,
            cwd=worker.cwd,
            env={},
            log_path=Path(f"{worker_id}.log"),
            spec_hash=config.spec_hash(worker) if config else "",
        )
        identity = self.processes.start(spec).identity
        assert identity is not None  # noqa: S101 (each start here has one)
        return identity

    def stop(self, worker_id: str, why: str = "") -> StopReport:  # noqa: ARG002 (nobody judges an end here)
        self.worker(worker_id)
        self.actions.append((worker_id, "stop"))
        identity = self.processes.find(worker_id).identity
        report = self.processes.stop(worker_id)
        if identity is not None:
            self.report_exit(WorkerEnded(worker_id, identity, report.exit_code))
        return report

    def state(self, worker_id: str) -> FoundWorker:
        return self.processes.find(self.worker(worker_id).id)
