"""The one door to worker processes: it starts, finds, watches and stops them.

`HostProcesses` is the real one; `processes/fake.py` passes the same tests. Modules that only `start` and
`stop` need are imported when those are called.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import RefusedError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.process_facts import identity as processes_identity
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity, WorkerProcess
from supervisor_core.processes.finding import FoundWorker, Presence, find
from supervisor_core.processes.together import Ended, Steps, alone

if TYPE_CHECKING:
    from supervisor_core.host.locks import FileLock
    from supervisor_core.processes.children import Exit
    from supervisor_core.processes.claims import Claim, Claimant, ProcessProfile
    from supervisor_core.processes.launch import LaunchSpec
    from supervisor_core.processes.records import StopOrder, WorkerRecord
    from supervisor_core.processes.stopping import StopReport

log = logging.getLogger(__name__)

ORDER_MARGIN_SECONDS = 30.0
"""An order holds so much longer than what was ordered may take: a busy host is slow to look."""

# One at a time starts or stops a worker; the others wait for it. A stop may take its whole time limit.
LOCK_WAIT_SECONDS = 60.0

REAP_SECONDS, REAP_LOOK_SECONDS = 5.0, 0.02
"""An orphan's new parent usually reaps it at once; the first process of some containers does so in rounds."""


class ProcessManager(Protocol):
    """The operations on worker processes. Every call may block, and none belongs on an event loop."""

    def identify(self, pid: int) -> ProcessIdentity | None:
        """The identity of the process that has this PID now."""

    def state(self, identity: ProcessIdentity) -> Liveness:
        """True if exactly this process lives."""

    def wait_exit(self, identity: ProcessIdentity, timeout: float) -> bool:
        """Wait until a process has ended, ours or not, for at most so long; whether it has."""

    def wait_exit_steps(self, identity: ProcessIdentity, timeout: float) -> Steps[bool]:
        """`wait_exit`, for several at the same time."""

    def start_steps(self, spec: LaunchSpec) -> Steps[WorkerRecord]:
        """`start`, for several at the same time."""

    def find_steps(self, worker_id: str) -> Steps[FoundWorker]:
        """`find`, for several at the same time."""

    def claimants_steps(
        self, worker_id: str, profile: ProcessProfile, named: Sequence[Claim], *, search: bool
    ) -> Steps[tuple[Claimant, ...]]:
        """`claimants`, for several at the same time."""

    def stop_steps(
        self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = ""
    ) -> Steps[StopReport]:
        """`stop`, for several at the same time."""

    def start(self, spec: LaunchSpec) -> WorkerRecord:
        """Start a worker. `RefusedError` where it, or something of it, may be running; `LaunchError` else."""

    def record(self, worker_id: str) -> WorkerRecord | None:
        """The record of a worker's newest launch, without a look at its processes; None if it can't be read."""

    def find(self, worker_id: str) -> FoundWorker:
        """Look for a worker, adopting one that runs without its record."""

    def claimants(
        self, worker_id: str, profile: ProcessProfile, named: Sequence[Claim], *, search: bool
    ) -> tuple[Claimant, ...]:
        """Live processes that claim to be this worker, and are on record as none: those that its heartbeats name, those
        that an earlier search has found and, with a `search` of all processes, those that look like it."""

    def suspected(self, worker_id: str) -> bool:
        """True if an earlier look has found somebody who looked like this worker."""

    def adopt(self, worker_id: str, profile: ProcessProfile, claimant: Claimant) -> FoundWorker | None:
        """Take a process that was started by hand for this worker, if none runs and nothing speaks against it."""

    def members(self, worker_id: str) -> tuple[WorkerProcess, ...]:
        """A worker's process set, by a fresh look."""

    def stop(self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = "") -> StopReport:
        """End a worker's whole set. To stop what does not run is success; what survives is in the report.

        That its stop was ordered, and `why`, is on record before the first signal: whoever judges its end finds it.
        `RefusedError` where nobody can tell whether the worker runs: then nothing was signalled.
        """

    def settle(self, worker_id: str) -> None:
        """The trial of a launch is over: from now on its end is its own doing."""

    def reap(self) -> tuple[Exit, ...]:
        """The children of this program that have ended, each told once. Never waits."""

    def exit_code(self, identity: ProcessIdentity) -> int | None:
        """The exit code of a process that has ended, negative for a signal; None where unknown."""

    def exit_code_steps(self, identity: ProcessIdentity) -> Steps[int | None]:
        """`exit_code`, after a bounded wait for whoever must reap the process before its code is known."""


def order(what: str, why: str, seconds: float) -> StopOrder:
    """An order that is given now and takes so long at most."""
    from supervisor_core.processes.records import StopOrder

    return StopOrder(what, why, processes_identity.platform.since_boot() + seconds + ORDER_MARGIN_SECONDS)


def acquired(lock: FileLock, seconds: float) -> Steps[FileLock]:
    """Take a lock, waiting for at most so long; others needn't wait for it."""
    from supervisor_core.host.locks import LOOK_AGAIN_SECONDS, LockedError

    deadline = time.monotonic() + seconds
    while True:
        try:
            return lock.acquire()
        except LockedError:
            if time.monotonic() >= deadline:
                raise
        yield Ended((), LOOK_AGAIN_SECONDS)


class HostProcesses:
    """The real door. The records lie in `<state_dir>/workers/`."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._suspects: dict[str, tuple[ProcessIdentity, ...]] = {}
        """The processes that looked like a worker in a search; they are looked at again without one."""

    def identify(self, pid: int) -> ProcessIdentity | None:
        """The identity of the process that has this PID now."""
        return processes_identity.identify(pid)

    def state(self, identity: ProcessIdentity) -> Liveness:
        """True if exactly this process lives."""
        return processes_identity.state(identity)

    def wait_exit(self, identity: ProcessIdentity, timeout: float) -> bool:
        """Wait until a process has ended, by a descriptor that the kernel makes readable then."""
        return alone(self.wait_exit_steps(identity, timeout))

    def wait_exit_steps(self, identity: ProcessIdentity, timeout: float) -> Steps[bool]:
        """`wait_exit`, for several at the same time."""
        return not (yield Ended((identity,), timeout))

    def start(self, spec: LaunchSpec) -> WorkerRecord:
        """Start a worker, with its lock held from the look for another copy until the record is complete."""
        return alone(self.start_steps(spec))

    def start_steps(self, spec: LaunchSpec) -> Steps[WorkerRecord]:
        """`start`, for several at the same time."""
        from supervisor_core.processes.launch import launch

        lock = self._lock(spec.worker_id, f"starting {spec.worker_id}")
        with (yield from acquired(lock, LOCK_WAIT_SECONDS)):
            return (yield from launch.steps(self._state_dir, spec))

    def record(self, worker_id: str) -> WorkerRecord | None:
        """The record of a worker's newest launch; None if it can't be read."""
        from supervisor_core.processes.records import read_record

        try:
            return read_record(self._state_dir, worker_id)
        except (UnreadableFileError, OSError):
            return None

    def find(self, worker_id: str) -> FoundWorker:
        """Look for a worker, adopting one that runs without its record."""
        return find(self._state_dir, worker_id)

    def find_steps(self, worker_id: str) -> Steps[FoundWorker]:
        """`find`, for several at the same time."""
        return find.steps(self._state_dir, worker_id)

    def claimants(
        self, worker_id: str, profile: ProcessProfile, named: Sequence[Claim], *, search: bool
    ) -> tuple[Claimant, ...]:
        """Live processes that claim to be this worker, and are on record as none."""
        return alone(self.claimants_steps(worker_id, profile, named, search=search))

    def claimants_steps(
        self, worker_id: str, profile: ProcessProfile, named: Sequence[Claim], *, search: bool
    ) -> Steps[tuple[Claimant, ...]]:
        """`claimants`, for several at the same time."""
        from supervisor_core.processes.claims import claimants

        suspects = self._suspects.get(worker_id, ())
        found = yield from claimants.steps(self._state_dir, profile, named, suspects, search=search)
        self._suspects[worker_id] = tuple(each.identity for each in found if each.alike and each.identity)
        return found

    def suspected(self, worker_id: str) -> bool:
        """True if an earlier look has found somebody who looked like this worker."""
        return bool(self._suspects.get(worker_id))

    def adopt(self, worker_id: str, profile: ProcessProfile, claimant: Claimant) -> FoundWorker | None:
        """Take a process that was started by hand for this worker, if none runs and nothing speaks against it."""
        from supervisor_core.processes.claims import adopt

        return adopt(self._state_dir, worker_id, profile, claimant)

    def members(self, worker_id: str) -> tuple[WorkerProcess, ...]:
        """A worker's process set, by a fresh look."""
        from supervisor_core.processes.finding import process_set

        found = self.find(worker_id)
        if found.identity is None or found.record is None:
            return found.leftovers
        return process_set(found.record.generation, found.identity)

    def settle(self, worker_id: str) -> None:
        """The trial of a launch is over: from now on its end is its own doing."""
        from supervisor_core.processes.records import TRIAL, read_record, write_record

        with self._lock(worker_id, f"starting {worker_id}").acquire(timeout=LOCK_WAIT_SECONDS):
            record = read_record(self._state_dir, worker_id)
            if record is not None and record.order is not None and record.order.what == TRIAL:
                write_record(self._state_dir, record._replace(order=None))

    def stop(self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = "") -> StopReport:
        """End a worker's whole set. Its record goes with the last of it, and says `stuck` while something lives."""
        return alone(self.stop_steps(worker_id, stop_signal=stop_signal, timeout=timeout, why=why))

    def stop_steps(
        self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = ""
    ) -> Steps[StopReport]:
        """`stop`, for several at the same time."""
        from supervisor_core.processes.records import STOP, STUCK, forget_record, kept_record, write_record
        from supervisor_core.processes.stopping import StopReport, end, signal_number

        number = signal_number(stop_signal)
        lock = self._lock(worker_id, f"stopping {worker_id}")
        with (yield from acquired(lock, timeout + LOCK_WAIT_SECONDS)):
            found = yield from find.steps(self._state_dir, worker_id, locked=True)
            if found.presence is Presence.UNVERIFIABLE:
                raise RefusedError(f"Worker {worker_id} wasn't stopped. {found.reason}")
            report, record = StopReport(worker_id), found.record
            if record is not None:
                if found.identity is not None:  # one that has ended already did so by itself
                    record = record._replace(order=order(STOP, why, timeout))
                    try:
                        yield kept_record(self._state_dir, record)
                    except OSError as error:  # a full disk: that it ends matters more than who judges its end
                        log.warning("couldn't record the ordered stop of %s: %s", worker_id, error)
                    crashpoints.reach("worker.stop:ordered")
                report = yield from end.steps(
                    worker_id,
                    record.generation,
                    record.identity,
                    stop_signal=number,
                    timeout=timeout,
                )
            if report.killed:
                pids = [process.pid for process in report.killed]
                about = LogEvent.WORKER_KILLED.extra(worker_id=worker_id, pids=pids)
                names = ", ".join(map(str, pids))
                log.warning("%s: killed pid %s, which didn't stop within %g s", worker_id, names, timeout, extra=about)
            if report.stopped:
                forget_record(self._state_dir, worker_id)
            elif record is not None:
                write_record(self._state_dir, record._replace(state=STUCK))
            return report

    def reap(self) -> tuple[Exit, ...]:
        """The children of this program that have ended, each told once. Never waits."""

        from supervisor_core.processes import children

        return children.reap()

    def exit_code(self, identity: ProcessIdentity) -> int | None:
        """The exit code of a process that has ended, negative for a signal; None where unknown."""

        from supervisor_core.processes import children

        return children.exit_code(identity)

    def exit_code_steps(self, identity: ProcessIdentity) -> Steps[int | None]:
        """`exit_code`, after a bounded wait for whoever must reap the process before its code is known."""
        from supervisor_core.processes import children

        deadline = time.monotonic() + REAP_SECONDS
        while children.is_unreaped(identity) and children.exit_code(identity) is None and time.monotonic() < deadline:
            yield Ended((), REAP_LOOK_SECONDS)
        return children.exit_code(identity)

    def _lock(self, worker_id: str, purpose: str) -> FileLock:
        from supervisor_core.host.locks import FileLock
        from supervisor_core.processes.records import lock_path, prepare_folder

        path = lock_path(self._state_dir, worker_id)
        prepare_folder(self._state_dir)
        return FileLock(path, purpose)


__all__ = ["FoundWorker", "HostProcesses", "Liveness", "Presence", "ProcessIdentity", "ProcessManager"]
