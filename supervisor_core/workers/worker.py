"""A configured worker and its processes: finding, starting and stopping it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.times import from_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.logging.excerpts import LAST_OUTPUT, last_lines, lines_of_run
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.host.process_facts.identity import age_seconds, process_name
from supervisor_core.host.web import MASK
from supervisor_core.processes.finding import FoundWorker, Presence, Scan, scan_processes
from supervisor_core.processes.launch import LaunchError, LaunchSpec
from supervisor_core.processes.manager import HostProcesses, order
from supervisor_core.processes.output.files import output_path, read_output_end
from supervisor_core.processes.records import TRIAL, WorkerRecord
from supervisor_core.processes.stopping import Ending, StopReport
from supervisor_core.workers.health import SKEW_SECONDS, Heartbeat
from supervisor_core.workers.heartbeats.files import host_name, last_beats
from supervisor_core.workers.output.runs import own_log_size
from supervisor_core.workers.restarts.policy import exit_in_words

if TYPE_CHECKING:
    from supervisor_core.processes.adoption import WorkerProgram
    from supervisor_core.workers.context import HostContext

PROGRAM_SECONDS = 1.0
"""The time to resolve the worker's program and directory: `status` answers within two seconds."""

ROUNDING_SECONDS = 1.0
"""A heartbeat may be so much older than its process: many programs write whole seconds."""

FRESH_SECONDS = 300.0
"""The age up to which a heartbeat counts for a worker without an expected heartbeat."""

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
"""The longest delay of whatever overtakes a start."""

TAIL_LINES = 20
TAIL_BYTES = 8 * 1024
"""The end of a dying worker's output that is shown: enough for a traceback's end."""


def check_watcher_process(processes: HostProcesses, worker: WorkerSettings) -> FoundWorker:
    """The worker by the exact identity of its recorded process; true if it runs."""
    return processes.find(worker.id)


def find_watcher(host: HostContext, worker: WorkerSettings, *, beside: bool = False) -> FoundWorker:
    """The worker by its record, else by a search of all processes; `beside` as for `adopt_watcher`."""
    drive, folder = host.drive, host.config.folder("state")

    def read_beat() -> Heartbeat | None:
        drive.confirm()
        return last_beats(drive.root, folder, [worker.id]).get(worker.id)

    try:
        beat = drive.call(read_beat)
    except (DriveUnavailable, OSError):
        beat = None
    return adopt_watcher(host, worker, beat, beside=beside)


def adopt_watcher(
    host: HostContext,
    worker: WorkerSettings,
    beat: Heartbeat | None,
    *,
    beside: bool = False,
    scan: Scan | None = None,
    thorough: bool = True,
) -> FoundWorker:
    """Find the worker. Without a process on record, the only one that looks like it is adopted.

    If that can't be adopted, if several look like it, or if a fresh heartbeat names another live process, the worker
    is unverifiable. With `beside`, processes that look like a running worker are `others`. Unless `thorough`, none is
    looked for if the worker has a record: whoever starts it does that.
    """
    processes, config = host.processes, host.config
    scan = scan or cache(scan_processes)
    observed = processes.find(worker.id, scan, thorough=thorough)
    if not is_stopped(observed) if observed.identity is None else not beside:
        return observed
    if observed.identity is None and observed.record is not None and not thorough:
        return observed
    command = config.command_for(worker)

    def resolve() -> WorkerProgram:
        from supervisor_core.processes.adoption import WorkerProgram, resolve_program

        path = config.environment_for(worker).get("PATH", os.defpath)
        try:
            return host.drive.call(resolve_program, command[0], worker.cwd, path, timeout=PROGRAM_SECONDS)
        except (DriveUnavailable, OSError):
            return WorkerProgram("", str(worker.cwd))

    similar = processes.find_similar(command, resolve, scan)
    pids = tuple(process.pid for process in similar)
    if observed.identity is not None:
        return observed._replace(others=pids)
    if len(similar) == 1 and not similar[0].obstacle:
        return processes.adopt(worker.id, command, similar[0])
    if similar:
        names = " and ".join(map(str, similar))
        obstacles = " ".join(f"{process}: {process.obstacle}." for process in similar if process.obstacle)
        if len(similar) == 1:
            reason = f"{names} looks like {worker.id}, but can't be adopted: {similar[0].obstacle}. Stop it."
        else:
            reason = f"{names} all look like {worker.id}. {obstacles}{' ' if obstacles else ''}Stop all but one."
    elif other := _process_in_heartbeat(processes, worker, beat):
        pids = (other.pid,)
        reason = (
            f"The heartbeat of {worker.id} names pid {other.pid} ({process_name(other.pid)}), which isn't its process. "
            f"If it is {worker.id}, stop it. Otherwise delete the heartbeat file."
        )
    else:
        return observed
    return FoundWorker(
        worker.id, Presence.UNVERIFIABLE, observed.record, Liveness.UNVERIFIABLE, reason=reason, others=pids
    )


def _process_in_heartbeat(
    processes: HostProcesses, worker: WorkerSettings, beat: Heartbeat | None
) -> ProcessIdentity | None:
    """The live process in a fresh heartbeat of this host, if it's old enough to have written that.

    A heartbeat is a file that others can write: it keeps a second copy from being started, and never has anybody
    signaled.
    """
    if beat is None or beat.pid is None or beat.at is None or beat.hostname.casefold() != host_name().casefold():
        return None
    age = (datetime.now(UTC) - beat.at).total_seconds()
    if beat.pid in (1, os.getpid()) or not -SKEW_SECONDS <= age < (worker.heartbeat_max_age_seconds or FRESH_SECONDS):
        return None
    try:
        identity = processes.identify(beat.pid)
    except PermissionError:  # the system hides who it is
        return None
    if identity is None or not processes.state(identity).running:
        return None
    return identity if age_seconds(identity.start) + ROUNDING_SECONDS >= age else None


class StopResult(NamedTuple):
    """A stopped worker, with the copy of it that somebody had started by hand."""

    report: StopReport
    """The report of the last stopped process; `killed` has those of both."""
    copies: tuple[int, ...] = ()
    found: FoundWorker | None = None
    """What a search after the stop found; None if the stop failed."""

    @property
    def left(self) -> tuple[int, ...]:
        """The processes that still look like the worker, so that it isn't certain to be stopped."""
        if self.found is None or is_stopped(self.found):
            return ()
        return (self.found.identity.pid,) if self.found.identity else self.found.others

    @property
    def doubt(self) -> str:
        """Why it isn't certain to be stopped; empty if it is."""
        reason = self.found.reason if self.found else ""
        return reason or f"Another copy was started: pid {', '.join(map(str, self.left))}." if self.left else ""


def end_watcher(host: HostContext, worker: WorkerSettings, reason: str = "") -> StopResult:
    """Stop the worker, and then the copy of it that can be adopted. The result names those that are left."""
    report = stop_watcher_gracefully(host.processes, worker, reason)
    if not report.stopped:
        return StopResult(report)
    observed = find_watcher(host, worker)
    if observed.identity is None:
        return StopResult(report, found=observed)
    killed, copy = report.killed, observed.identity.pid
    report = stop_watcher_gracefully(host.processes, worker, reason)
    report = replace(report, killed=(*killed, *report.killed))
    return StopResult(report, (copy,), find_watcher(host, worker) if report.stopped else None)


def is_stopped(observed: FoundWorker) -> bool:
    """True if none of its processes is left, descendants included."""
    return observed.presence is Presence.STOPPED and not observed.leftovers


def start_watcher(
    host: HostContext,
    worker: WorkerSettings,
    looked: FoundWorker | None = None,
    trial: str = "",
    waits: bool = True,
) -> ProcessIdentity:
    """Start the worker with its configured command, and check that it's alive after its grace period.

    Leftovers of an earlier run are stopped first. `LaunchError`, with the end of its output, if it ended within its
    grace period. Unless it `waits`, it returns as soon as the process exists, for callers that notice its end. Except
    for a trial, it stops waiting once `host.overtaken` gives a reason. `RefusedError` if another process claims to be
    the worker. `looked` is the result of a search of all processes that the caller just made; an adopted process is on
    record, so the launch refuses a second copy.
    `trial` names the command that tries it out and reports its end, which isn't a problem within the grace period.
    """
    processes, config = host.processes, host.config
    observed = find_watcher(host, worker) if looked is None else looked
    if observed.leftovers:
        report = stop_watcher_gracefully(processes, worker, "processes of an earlier start")
        if not report.stopped:
            names = ", ".join(map(str, report.survivors))
            raise LaunchError(f"{worker.id} wasn't started: processes of its last run can't be killed: {names}.")
        observed = find_watcher(host, worker)
    if observed.presence is Presence.UNVERIFIABLE:
        raise RefusedError(f"{worker.id} wasn't started. {observed.reason}")
    check_places(host, worker)
    spec = LaunchSpec(
        worker_id=worker.id,
        command=config.command_for(worker),
        cwd=worker.cwd,
        env=config.environment_for(worker),
        log_path=output_path(config.state_dir, worker.id),
        spec_hash=config.spec_hash(worker),
        order=order(TRIAL, trial, worker.start_grace_seconds) if trial else None,
        own_log_before=own_log_size(host.drive, config, worker),
        looked=observed,
    )
    crashpoints.reach("worker.start:before")
    record = processes.start(spec)
    crashpoints.reach("worker.start:after")
    identity = record.identity
    if identity is None:
        raise LaunchError(f"{worker.id} was started, but its process is unknown.")
    seconds = worker.start_grace_seconds
    while waits and (trial or not host.overtaken()):
        if processes.wait_exit(identity, min(seconds, LOOK_SECONDS)):
            raise LaunchError(failed_start(config, worker, record, processes.exit_code(identity)))
        seconds -= LOOK_SECONDS
        waits = seconds > 0
    if trial:
        with contextlib.suppress(SupervisorError, OSError):  # else the order ends by its own time
            processes.end_trial(worker.id)
    about = LogEvent.WORKER_STARTED.extra(worker_id=worker.id, pid=identity.pid)
    log.info("%s started (pid %d)", worker.id, identity.pid, extra=about)
    return identity


def failed_start(config: SupervisorConfig, worker: WorkerSettings, record: WorkerRecord, code: int | None) -> str:
    """The end of this launch within its grace period, in words, with its last output."""
    path, lines = output_path(config.state_dir, worker.id), []
    output = f"No output in {path}."
    try:
        lines = last_lines(read_output_end(path, TAIL_BYTES), TAIL_BYTES, Masking(config.secrets)).lines
    except FileNotFoundError:
        pass
    except (UnreadableFileError, OSError) as error:
        output = f"Its last output can't be read: {error}"
    if record.started_at and (of_run := "\n".join(lines_of_run(lines, from_text(record.started_at))).strip()):
        output = "\n".join([LAST_OUTPUT, *of_run.splitlines()[-TAIL_LINES:]])
    return f"{worker.id} {exit_in_words(code)} within {worker.start_grace_seconds:g} s of its start. {output}"


def stop_watcher_gracefully(processes: HostProcesses, worker: WorkerSettings, why: str = "") -> StopReport:
    """Stop the worker with its signal, kill it after its timeout, and check again. `why` is recorded first."""
    crashpoints.reach("worker.stop:before")
    report = processes.stop(worker.id, stop_signal=worker.stop_signal, timeout=worker.stop_timeout_seconds, why=why)
    crashpoints.reach("worker.stop:after")
    if not report.stopped:
        survivors = ", ".join(map(str, report.survivors))
        about = LogEvent.WORKER_STUCK.extra(worker_id=worker.id, survivors=survivors)
        log.error("%s is stuck: %s can't be stopped", worker.id, survivors, extra=about)
    elif report.ending is not Ending.NOTHING:
        about = LogEvent.WORKER_STOPPED.extra(worker_id=worker.id, ending=str(report.ending))
        log.info("%s stopped (%s)", worker.id, report.ending, extra=about)
    return report


def check_places(host: HostContext, worker: WorkerSettings) -> None:
    """Raise `DriveUnavailable` where its folder or program lies on a drive that is away: a start would hang.

    Also while the drive has folders of another layout: a pause there can't be read.
    """
    drive = host.drive
    drive.check_layout()
    paths = (worker.cwd, Path(host.config.command_for(worker)[0]))
    if any(path.is_relative_to(drive.root) for path in paths):
        drive.check()


def masked(text: str, secrets: Collection[str]) -> str:
    """The text with these values masked, longest first, since one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text
