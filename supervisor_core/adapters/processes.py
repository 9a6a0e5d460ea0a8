"""The one door to worker processes: starting, finding, watching and ending them.

`ProcessDoor` is what the rest of the house knows. `Processes` is the real one; `processes_fake` ships a fake
that passes the same tests. What only `start` and `stop` need is imported when they are called.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from supervisor_core.adapters import processes_identity
from supervisor_core.adapters.processes_find import FoundWorker, Presence, find
from supervisor_core.adapters.processes_values import Life, Member, ProcessIdentity
from supervisor_core.domain.errors import RefusedError

if TYPE_CHECKING:
    from supervisor_core.adapters.locks import FileLock
    from supervisor_core.adapters.processes_adopt import Claim
    from supervisor_core.adapters.processes_children import Exit
    from supervisor_core.adapters.processes_launch import LaunchSpec
    from supervisor_core.adapters.processes_records import WorkerRecord
    from supervisor_core.adapters.processes_stop import StopReport

__all__ = ["FoundWorker", "Life", "Member", "Presence", "ProcessDoor", "ProcessIdentity", "Processes"]

# One at a time starts or stops a worker; the others wait for it. A stop may take its whole time limit.
LOCK_WAIT_SECONDS = 60.0


class ProcessDoor(Protocol):
    """What can be done with worker processes. Every call may block; none of them belongs on an event loop."""

    def identify(self, pid: int) -> ProcessIdentity | None:
        """The identity of the process that has this PID now."""

    def state(self, identity: ProcessIdentity) -> Life:
        """Whether exactly this process lives."""

    def wait_exit(self, identity: ProcessIdentity, timeout: float) -> bool:
        """Wait until a process has ended, ours or not, for at most so long; whether it has."""

    def start(self, spec: LaunchSpec) -> WorkerRecord:
        """Start a worker. `RefusedError` where it, or something of it, may be running; `LaunchError` else."""

    def find(self, worker_id: str) -> FoundWorker:
        """Look for a worker, adopting one that runs without its record."""

    def adopt(self, worker_id: str, claim: Claim) -> FoundWorker | None:
        """Take a process for this worker that was started by hand, if none runs and the claim is true."""

    def alike(self, command: tuple[str, ...], cwd: Path) -> tuple[int, ...]:
        """The PIDs of processes that look like a worker with this command, and that no supervisor started."""

    def members(self, worker_id: str) -> tuple[Member, ...]:
        """A worker's process set, by a fresh look."""

    def stop(self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0) -> StopReport:
        """End a worker's whole set. To stop what does not run is success; what survives is in the report.

        `RefusedError` where nobody can tell whether the worker runs: then nothing was signalled.
        """

    def reap(self) -> tuple[Exit, ...]:
        """The children of this program that have ended, each told once. Never waits."""

    def exit_code(self, identity: ProcessIdentity) -> int | None:
        """The exit code of a child of this program, negative for a signal; None where unknown."""


class Processes:
    """The real door. The records lie in `<state_dir>/workers/`."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def identify(self, pid: int) -> ProcessIdentity | None:
        """The identity of the process that has this PID now."""
        return processes_identity.identify(pid)

    def state(self, identity: ProcessIdentity) -> Life:
        """Whether exactly this process lives."""
        return processes_identity.state(identity)

    def wait_exit(self, identity: ProcessIdentity, timeout: float) -> bool:
        """Wait until a process has ended, by a descriptor that the kernel makes readable then."""
        from supervisor_core.adapters.processes_signals import wait_exit

        return wait_exit(identity, timeout)

    def start(self, spec: LaunchSpec) -> WorkerRecord:
        """Start a worker, with its lock held from the look for another copy until the record is complete."""
        from supervisor_core.adapters.processes_launch import launch

        with self._lock(spec.worker_id, f"starting {spec.worker_id}").acquire(timeout=LOCK_WAIT_SECONDS):
            return launch(self._state_dir, spec)

    def find(self, worker_id: str) -> FoundWorker:
        """Look for a worker, adopting one that runs without its record."""
        return find(self._state_dir, worker_id)

    def adopt(self, worker_id: str, claim: Claim) -> FoundWorker | None:
        """Take a process for this worker that was started by hand, if none runs and the claim is true."""
        from supervisor_core.adapters.processes_adopt import adopt

        return adopt(self._state_dir, worker_id, claim)

    def alike(self, command: tuple[str, ...], cwd: Path) -> tuple[int, ...]:
        """The PIDs of processes that look like a worker with this command, and that no supervisor started."""
        from supervisor_core.adapters.processes_alike import alike

        return alike(command, cwd)

    def members(self, worker_id: str) -> tuple[Member, ...]:
        """A worker's process set, by a fresh look."""
        from supervisor_core.adapters.processes_set import process_set

        found = self.find(worker_id)
        if found.identity is None or found.record is None:
            return found.leftovers
        return process_set(found.record.generation, found.identity)

    def stop(self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0) -> StopReport:
        """End a worker's whole set. Its record goes with the last of it, and says `stuck` while something lives."""
        from supervisor_core.adapters.processes_records import STUCK, forget_record, write_record
        from supervisor_core.adapters.processes_stop import StopReport, end, signal_number

        number = signal_number(stop_signal)
        lock = self._lock(worker_id, f"stopping {worker_id}")
        with lock.acquire(timeout=timeout + LOCK_WAIT_SECONDS):
            found = find(self._state_dir, worker_id, locked=True)
            if found.presence is Presence.UNVERIFIABLE:
                raise RefusedError(f"Worker {worker_id} is not stopped. {found.reason}")
            report = StopReport(worker_id)
            if found.record is not None:
                report = end(
                    worker_id,
                    found.record.generation,
                    found.record.identity,
                    stop_signal=number,
                    timeout=timeout,
                )
            if report.stopped:
                forget_record(self._state_dir, worker_id)
            elif found.record is not None:
                write_record(self._state_dir, found.record._replace(state=STUCK))
            return report

    def reap(self) -> tuple[Exit, ...]:
        """The children of this program that have ended, each told once. Never waits."""
        from supervisor_core.adapters import processes_children

        return processes_children.reap()

    def exit_code(self, identity: ProcessIdentity) -> int | None:
        """The exit code of a child of this program, negative for a signal; None where unknown."""
        from supervisor_core.adapters import processes_children

        return processes_children.exit_code(identity)

    def _lock(self, worker_id: str, purpose: str) -> FileLock:
        from supervisor_core.adapters.locks import FileLock
        from supervisor_core.adapters.processes_records import lock_path, prepare_folder

        path = lock_path(self._state_dir, worker_id)
        prepare_folder(self._state_dir)
        return FileLock(path, purpose)
