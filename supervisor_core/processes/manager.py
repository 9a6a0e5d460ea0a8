"""The one door to worker processes: it starts, finds, watches and stops them.

Modules that only `start` and `stop` need are imported when those are called.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import RefusedError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.locks import FileLock
from supervisor_core.host.process_facts import identity as process_identity
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity, WorkerProcess
from supervisor_core.processes.finding import FoundWorker, Presence, Scan, find, scan_processes
from supervisor_core.processes.records import (
    STOP,
    STUCK,
    TRIAL,
    StopOrder,
    WorkerRecord,
    forget_record,
    lock_path,
    prepare_folder,
    read_record,
    write_record,
)

if TYPE_CHECKING:
    from supervisor_core.processes.adoption import SimilarProcess, WorkerProgram
    from supervisor_core.processes.launch import LaunchSpec
    from supervisor_core.processes.stopping import StopReport

log = logging.getLogger(__name__)

ORDER_MARGIN_SECONDS = 30.0
"""An order holds so much longer than what was ordered may take: a busy host is slow to look."""

# One at a time starts or stops a worker; the others wait for it. A stop may take its whole time limit.
LOCK_WAIT_SECONDS = 60.0

REAP_SECONDS, REAP_LOOK_SECONDS = 5.0, 0.02
"""An orphan's new parent usually reaps it at once; the first process of some containers does so in rounds."""


def order(kind: str, reason: str, seconds: float) -> StopOrder:
    """An order that is given now and takes so long at most."""
    return StopOrder(kind, reason, process_identity.since_boot() + seconds + ORDER_MARGIN_SECONDS)


class HostProcesses:
    """The processes of the workers of this host; the records lie in `<state_dir>/workers/`.

    Every call may block, and none belongs on an event loop.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def identify(self, pid: int) -> ProcessIdentity | None:
        return process_identity.identify(pid)

    def state(self, identity: ProcessIdentity) -> Liveness:
        return process_identity.state(identity)

    def wait_exit(self, identity: ProcessIdentity, timeout: float) -> bool:
        """Wait until a process has ended, ours or not, for at most so long; whether it has."""
        from supervisor_core.host.process_facts.signals import wait_exit

        return wait_exit(identity, timeout)

    def start(self, spec: LaunchSpec) -> WorkerRecord:
        """Start a worker, with its lock held from the look for another copy until the record is complete.

        `RefusedError` where it, or something of it, may be running; `LaunchError` else.
        """
        from supervisor_core.processes.launch import launch

        with self._lock(spec.worker_id, f"starting {spec.worker_id}").acquire(timeout=LOCK_WAIT_SECONDS):
            return launch(self._state_dir, spec)

    def record(self, worker_id: str) -> WorkerRecord | None:
        """The record of a worker's newest launch, without a look at its processes; None if it can't be read."""
        try:
            return read_record(self._state_dir, worker_id)
        except (UnreadableFileError, OSError):
            return None

    def find(self, worker_id: str, scan: Scan = scan_processes, *, thorough: bool = True) -> FoundWorker:
        """Look for a worker, adopting one that runs without its record."""
        return find(self._state_dir, worker_id, scan=scan, thorough=thorough)

    def find_similar(
        self, command: Sequence[str], resolve: Callable[[], WorkerProgram], scan: Scan = scan_processes
    ) -> Sequence[SimilarProcess]:
        """Live processes that look like a worker with this command, and are on record as none."""
        from supervisor_core.processes.adoption import find_similar

        return find_similar(self._state_dir, command, resolve, scan())

    def adopt(self, worker_id: str, command: Sequence[str], process: SimilarProcess) -> FoundWorker:
        """Take a process that was started by hand for this worker, if none runs."""
        from supervisor_core.processes.adoption import adopt

        return adopt(self._state_dir, worker_id, command, process)

    def members(self, worker_id: str) -> tuple[WorkerProcess, ...]:
        """A worker's process set, by a fresh look."""
        current = self.find(worker_id)
        if current.identity is None or current.record is None:
            return current.leftovers
        return scan_processes().members(current.record.generation, current.identity)

    def end_trial(self, worker_id: str) -> None:
        """The trial of a launch is over: from now on its end is its own doing."""
        with self._lock(worker_id, f"starting {worker_id}").acquire(timeout=LOCK_WAIT_SECONDS):
            record = read_record(self._state_dir, worker_id)
            if record is not None and record.order is not None and record.order.what == TRIAL:
                write_record(self._state_dir, record._replace(order=None))

    def stop(self, worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = "") -> StopReport:
        """End a worker's whole set. To stop what does not run is success; what survives is in the report.

        That its stop was ordered, and `why`, is on record before the first signal: whoever judges its end finds it.
        The record goes with the last process, and says `stuck` while something lives. `RefusedError` where nobody can
        tell whether the worker runs: then nothing was signalled.
        """
        from supervisor_core.processes.stopping import StopReport, signal_number, stop_processes

        number = signal_number(stop_signal)
        with self._lock(worker_id, f"stopping {worker_id}").acquire(timeout=timeout + LOCK_WAIT_SECONDS):
            current = find(self._state_dir, worker_id, locked=True)
            if current.presence is Presence.UNVERIFIABLE:
                raise RefusedError(f"Worker {worker_id} wasn't stopped. {current.reason}")
            report, record = StopReport(worker_id), current.record
            if record is not None:
                if current.identity is not None:  # one that has ended already did so by itself
                    record = record._replace(order=order(STOP, why, timeout))
                    try:
                        write_record(self._state_dir, record)
                    except OSError as error:  # a full disk: that it ends matters more than who judges its end
                        log.warning("couldn't record the ordered stop of %s: %s", worker_id, error)
                    crashpoints.reach("worker.stop:ordered")
                report = stop_processes(worker_id, record.generation, record.identity, number, timeout)
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

    def exit_code(self, identity: ProcessIdentity, *, waits: bool = False) -> int | None:
        """The exit code of a process that has ended, negative for a signal; None where unknown.

        With `waits`, whoever must reap the process before its code is known has a bounded time for that.
        """
        from supervisor_core.processes import children

        deadline = time.monotonic() + (REAP_SECONDS if waits else 0.0)
        while children.is_unreaped(identity) and children.exit_code(identity) is None and time.monotonic() < deadline:
            time.sleep(REAP_LOOK_SECONDS)
        return children.exit_code(identity)

    def _lock(self, worker_id: str, purpose: str) -> FileLock:
        path = lock_path(self._state_dir, worker_id)
        prepare_folder(self._state_dir)
        return FileLock(path, purpose)
