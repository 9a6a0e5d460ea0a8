"""A configured worker and its processes: finding, starting and stopping it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.times import from_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.drive import Drive
from supervisor_core.host.logging.excerpts import LAST_OUTPUT, last_lines, lines_of_run
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity, WorkerProcess
from supervisor_core.host.web import MASK
from supervisor_core.processes.drive_needs import LayoutKept, Profiled, watcher_profile
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.launch import LaunchError, LaunchSpec
from supervisor_core.processes.manager import ProcessManager, order
from supervisor_core.processes.output.files import output_path, read_output_end
from supervisor_core.processes.records import TRIAL, WorkerRecord
from supervisor_core.processes.stopping import Ending, StopReport
from supervisor_core.processes.together import Steps, stepwise
from supervisor_core.workers.health import SKEW_SECONDS, Heartbeat
from supervisor_core.workers.heartbeats.files import BeatRead
from supervisor_core.workers.output.runs import own_log_size
from supervisor_core.workers.restarts.policy import exit_in_words

if TYPE_CHECKING:
    from supervisor_core.processes.claims import Claim, Claimant, ProcessProfile

MOST_COPIES = 3
"""The most copies of a worker that one stop ends. A person must find whatever starts more."""

FRESH_SECONDS = 300.0
"""The age up to which a heartbeat counts for a worker without an expected heartbeat."""

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
"""The longest delay of whatever overtakes a start."""

TAIL_LINES = 20
TAIL_BYTES = 8 * 1024
"""The end of a dying worker's output that is shown: enough for a traceback's end."""


def worker_log(config: SupervisorConfig, worker: WorkerSettings) -> Path:
    return output_path(config.state_dir, worker.id)


def check_watcher_process(processes: ProcessManager, worker: WorkerSettings) -> FoundWorker:
    """The worker by the exact identity of its recorded process; true if it runs."""
    return processes.find(worker.id)


class Search(Enum):
    """When to search all processes for one that claims to be a worker."""

    NEVER = "never"
    """Never; but the process in its heartbeat and earlier findings are still checked."""
    IF_STOPPED = "if stopped"
    """Only if no process is on record."""
    ALWAYS = "always"
    """Always, also for copies beside the recorded process."""


class SearchResult(NamedTuple):
    """A worker, found by its record and its last heartbeat."""

    found: FoundWorker
    beat: Heartbeat | None = None
    problem: str = ""
    """Why its heartbeat couldn't be read; a worker that was started by hand may then be missed."""


def find_watcher(
    processes: ProcessManager, drive: Drive, config: SupervisorConfig, worker: WorkerSettings
) -> FoundWorker:
    """The worker by its record, or without a recorded process, by its heartbeat."""
    found = check_watcher_process(processes, worker)
    return look_for_watcher(processes, drive, config, worker).found if is_stopped(found) else found


@stepwise
def look_for_watcher(
    processes: ProcessManager,
    drive: Drive,
    config: SupervisorConfig,
    worker: WorkerSettings,
    search: Search = Search.NEVER,
) -> Steps[SearchResult]:
    """Find the worker by its record and its heartbeat, with the problem if the heartbeat can't be read.

    Before a start or a stop, search all processes.
    """
    beat, problem = yield BeatRead(drive, config, worker.id)
    found = yield from adopt_watcher.steps(processes, drive, config, worker, beat, search)
    return SearchResult(found, beat, problem)


@stepwise
def adopt_watcher(
    processes: ProcessManager,
    drive: Drive,
    config: SupervisorConfig,
    worker: WorkerSettings,
    beat: Heartbeat | None,
    search: Search = Search.NEVER,
) -> Steps[FoundWorker]:
    """Find the worker. Without a recorded process, adopt the one process that claims to be the worker and surely is;
    with any other claim, it's unverifiable. Claims beside a running worker are `others`."""
    found = yield from processes.find_steps(worker.id)
    if found.identity is None and not is_stopped(found):
        return found
    named = _claim(processes, worker, beat, found)
    everywhere = search is Search.ALWAYS or (search is Search.IF_STOPPED and found.identity is None)
    if not (everywhere or named or processes.suspected(worker.id)):
        return found
    claiming = yield from _claimants(processes, drive, config, worker, named, everywhere=everywhere)
    if found.identity is not None:
        return found._replace(others=tuple(each.pid for each in claiming if each.alike))
    if not claiming:
        return found
    if len(claiming) == 1 and not claiming[0].obstacle:
        adopted = processes.adopt(worker.id, watcher_profile(drive, config, worker), claiming[0])
        return found if adopted is None else adopted
    others = tuple(each.pid for each in claiming)
    return FoundWorker(
        worker.id,
        Presence.UNVERIFIABLE,
        found.record,
        Liveness.UNVERIFIABLE,
        reason=_why(worker, claiming),
        others=others,
    )


class StopResult(NamedTuple):
    """A stopped worker, with the copies of it that others had started."""

    report: StopReport
    """The report of the last stopped process; `killed` has those of all."""
    copies: tuple[int, ...] = ()
    left: tuple[Claimant, ...] = ()
    """The processes that still claim to be the worker, so that it isn't certain to be stopped."""
    problem: str = ""
    """Why its heartbeat couldn't be read, which may name another process."""

    def words(self, worker: WorkerSettings) -> str:
        """Why it isn't certain to be stopped; empty if it is."""
        return _why(worker, self.left) if self.left else ""


@stepwise
def end_watcher(
    processes: ProcessManager, drive: Drive, config: SupervisorConfig, worker: WorkerSettings, why: str = ""
) -> Steps[StopResult]:
    """Stop the worker, and then each copy of it that can be adopted. The result names those that are left."""
    before, _ = yield BeatRead(drive, config, worker.id)
    copies: list[int] = []
    killed: tuple[WorkerProcess, ...] = ()
    while True:
        report = yield from stop_watcher_gracefully.steps(processes, worker, why)
        killed = (*killed, *report.killed)
        # Copies write the same file in turn, and either beat may be that of the one that was just stopped.
        now, problem = yield BeatRead(drive, config, worker.id)
        named = tuple(each for beat in (before, now) for each in _claim(processes, worker, beat, None))
        claiming: tuple[Claimant, ...] = ()
        if report.stopped:
            claiming = yield from _claimants(processes, drive, config, worker, named, everywhere=True)
        next_one = next((each for each in claiming if not each.obstacle), None)
        if next_one is None or len(copies) >= MOST_COPIES - 1:
            return StopResult(replace(report, killed=killed), tuple(copies), claiming, problem)
        processes.adopt(worker.id, watcher_profile(drive, config, worker), next_one)
        copies.append(next_one.pid)


def host_name() -> str:
    """The name of this host, as `socket.gethostname` has it."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket

    return socket.gethostname()


def is_stopped(found: FoundWorker) -> bool:
    """True if none of its processes is left, descendants included."""
    return found.presence is Presence.STOPPED and not found.leftovers


@stepwise
def start_watcher(
    processes: ProcessManager,
    drive: Drive,
    config: SupervisorConfig,
    worker: WorkerSettings,
    looked: FoundWorker | None = None,
    trial: str = "",
    waits: bool = True,
    overtaken: Callable[[], str] = lambda: "",
) -> Steps[ProcessIdentity]:
    """Start the worker with its configured command, and check that it's alive after its grace period.

    Leftovers of an earlier run are stopped first. `LaunchError`, with the end of its output, if it ended within its
    grace period. Unless it `waits`, it returns as soon as the process exists, for callers that notice its end; it stops
    waiting once it's `overtaken`. `RefusedError` if another process claims to be the worker.
    `looked` is the result of a search of all processes that the caller just made; an adopted process is on record, so
    the launch refuses a second copy.
    `trial` names the command that tries it out and reports its end, which isn't a problem within the grace period.
    """
    found = looked
    if found is None:
        found = (yield from look_for_watcher.steps(processes, drive, config, worker, Search.IF_STOPPED)).found
    if found.leftovers:
        report = yield from stop_watcher_gracefully.steps(processes, worker, "processes of an earlier start")
        if not report.stopped:
            names = ", ".join(map(str, report.survivors))
            raise LaunchError(f"{worker.id} wasn't started: processes of its last run can't be killed: {names}.")
        found = (yield from look_for_watcher.steps(processes, drive, config, worker, Search.IF_STOPPED)).found
    if found.presence is Presence.UNVERIFIABLE:
        raise RefusedError(f"{worker.id} wasn't started. {found.reason}")
    output = worker_log(config, worker)
    yield from check_places.steps(drive, config, worker)
    spec = LaunchSpec(
        worker_id=worker.id,
        command=config.command_for(worker),
        cwd=worker.cwd,
        env=config.environment_for(worker),
        log_path=output,
        spec_hash=config.spec_hash(worker),
        order=order(TRIAL, trial, worker.start_grace_seconds) if trial else None,
        own_log_before=own_log_size(drive, config, worker),
        looked=found,
    )
    crashpoints.reach("worker.start:before")
    record = yield from processes.start_steps(spec)
    crashpoints.reach("worker.start:after")
    identity = record.identity
    if identity is None:
        raise LaunchError(f"{worker.id} was started, but its process is unknown.")
    left = worker.start_grace_seconds
    while waits and not overtaken():
        if (yield from processes.wait_exit_steps(identity, min(left, LOOK_SECONDS))):
            raise LaunchError(failed_start(config, worker, record, processes.exit_code(identity)))
        left -= LOOK_SECONDS
        waits = left > 0
    if trial:
        with contextlib.suppress(SupervisorError, OSError):  # else the order ends by its own time
            processes.settle(worker.id)
    about = LogEvent.WORKER_STARTED.extra(worker_id=worker.id, pid=identity.pid)
    log.info("%s started (pid %d)", worker.id, identity.pid, extra=about)
    return identity


def failed_start(config: SupervisorConfig, worker: WorkerSettings, record: WorkerRecord, code: int | None) -> str:
    """The end of this launch within its grace period, in words, with its last output."""
    output = _last_output(worker_log(config, worker), record, Masking(config.secrets()))
    return f"{worker.id} {exit_in_words(code)} within {worker.start_grace_seconds:g} s of its start. {output}"


@stepwise
def stop_watcher_gracefully(processes: ProcessManager, worker: WorkerSettings, why: str = "") -> Steps[StopReport]:
    """Stop the worker with its signal, kill it after its timeout, and check again. `why` is recorded first."""
    crashpoints.reach("worker.stop:before")
    report = yield from processes.stop_steps(
        worker.id, stop_signal=worker.stop_signal, timeout=worker.stop_timeout_seconds, why=why
    )
    crashpoints.reach("worker.stop:after")
    if not report.stopped:
        survivors = ", ".join(map(str, report.survivors))
        about = LogEvent.WORKER_STUCK.extra(worker_id=worker.id, survivors=survivors)
        log.error("%s is stuck: %s can't be stopped", worker.id, survivors, extra=about)
    elif report.ending is not Ending.NOTHING:
        about = LogEvent.WORKER_STOPPED.extra(worker_id=worker.id, ending=str(report.ending))
        log.info("%s stopped (%s)", worker.id, report.ending, extra=about)
    return report


@stepwise
def check_places(drive: Drive, config: SupervisorConfig, worker: WorkerSettings) -> Steps[None]:
    """Raise `DriveUnavailable` where its folder or program lies on a drive that is away: a start would hang.

    Also while the drive has folders of another layout: a pause there can't be read.
    """
    yield LayoutKept(drive)
    places = (worker.cwd, Path(config.command_for(worker)[0]))
    if any(place.is_relative_to(drive.root) for place in places):
        drive.check()


def masked(text: str, secrets: Collection[str]) -> str:
    """The text with these values masked, longest first, since one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _claim(
    processes: ProcessManager, worker: WorkerSettings, beat: Heartbeat | None, found: FoundWorker | None
) -> tuple[Claim, ...]:
    """The live process in a heartbeat of this host, unless it's the found worker."""
    if beat is None or beat.pid is None or beat.at is None or beat.hostname.casefold() != host_name().casefold():
        return ()
    if found is not None and found.identity is not None and found.identity.pid == beat.pid:
        return ()
    try:
        if processes.identify(beat.pid) is None:  # nearly always: the last beat of a worker that has ended
            return ()
    except PermissionError:
        pass  # there is one, which the system hides
    from supervisor_core.processes.claims import Claim

    age = (datetime.now(UTC) - beat.at).total_seconds()
    return (Claim(beat.pid, beat.at, -SKEW_SECONDS <= age < (worker.heartbeat_max_age_seconds or FRESH_SECONDS)),)


def _claimants(
    processes: ProcessManager,
    drive: Drive,
    config: SupervisorConfig,
    worker: WorkerSettings,
    named: Sequence[Claim],
    *,
    everywhere: bool,
) -> Steps[tuple[Claimant, ...]]:
    """The processes that claim to be the worker. Only a heartbeat tells workers with the same command apart."""
    profile: ProcessProfile = yield Profiled(drive, config, worker)
    pids = {claim.pid for claim in named}
    claiming = yield from processes.claimants_steps(worker.id, profile, named, search=everywhere)
    if not claiming:
        return ()
    twins = [
        each.id
        for each in config.workers.values()
        if each.id != worker.id and each.cwd == worker.cwd and config.command_for(each) == profile.command
    ]
    if not twins:
        return claiming
    either = f"it could also be {' or '.join(twins)}, with the same command"
    return tuple(each if each.obstacle or each.pid in pids else each._replace(obstacle=either) for each in claiming)


def _why(worker: WorkerSettings, claiming: Sequence[Claimant]) -> str:
    """Why it's unknown whether the worker runs, and what to do."""
    who = " and ".join(str(each) for each in claiming)
    if len(claiming) > 1:
        why = " ".join(f"{each}: {each.obstacle}." for each in claiming if each.obstacle)
        return f"{who} all look like {worker.id}. {why}{' ' if why else ''}Stop all but one."
    if claiming[0].alike:
        why = claiming[0].obstacle or f"more than {MOST_COPIES} copies were started"
        return f"{who} looks like {worker.id}, but can't be adopted: {why}. Stop it."
    return (
        f"The heartbeat of {worker.id} names {who}, which can't be adopted: {claiming[0].obstacle}. "
        f"If it is {worker.id}, stop it. Otherwise delete the heartbeat file."
    )


def _last_output(log: Path, record: WorkerRecord, masking: Masking) -> str:
    """The end of the output captured since this launch."""
    try:
        lines = last_lines(read_output_end(log, TAIL_BYTES), TAIL_BYTES, masking).lines
    except FileNotFoundError:
        lines = []
    except (UnreadableFileError, OSError) as error:
        return f"Its last output can't be read: {error}"
    of_run = lines_of_run(lines, from_text(record.started_at)) if record.started_at else []
    own = "\n".join(of_run).strip().splitlines()[-TAIL_LINES:]
    return f"{LAST_OUTPUT}\n" + "\n".join(own) if own else f"No output in {log}."
