"""A configured worker and its processes: find it, start it and see it live, stop it and see it gone."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from supervisor_core.adapters.addresses import MASK
from supervisor_core.adapters.drive import Drive, DriveUnavailable
from supervisor_core.adapters.heartbeats import last_beat
from supervisor_core.adapters.processes import FoundWorker, Presence, ProcessDoor
from supervisor_core.adapters.processes_launch import LaunchError, LaunchSpec
from supervisor_core.adapters.processes_stop import StopReport
from supervisor_core.adapters.processes_values import ProcessIdentity
from supervisor_core.config import SupervisorConfig, Worker
from supervisor_core.domain import crashpoints
from supervisor_core.domain.health import Heartbeat

TAIL_LINES = 20
TAIL_BYTES = 8 * 1024
"""What of a dying worker's output is shown: enough for a traceback's end."""


def worker_log(config: SupervisorConfig, worker: Worker) -> Path:
    """Where this worker's output goes."""
    return config.folder("logs") / "workers" / f"{worker.id}.log"


def check_watcher_process(processes: ProcessDoor, worker: Worker) -> FoundWorker:
    """Whether this worker runs, by the exact identity of its process."""
    return processes.find(worker.id)


class Sighting(NamedTuple):
    """A worker, looked for by its record and by its last beat."""

    found: FoundWorker
    beat: Heartbeat | None = None
    problem: str = ""
    """Why its beat could not be read: one that was started by hand may then run without being seen."""


def find_watcher(processes: ProcessDoor, drive: Drive, config: SupervisorConfig, worker: Worker) -> FoundWorker:
    """The same, for whoever is about to start or stop it: one that was started by hand is found as well."""
    found = check_watcher_process(processes, worker)
    if not is_stopped(found):
        return found
    try:
        beat = drive.call(_last_beat, drive, config, worker)
    except (DriveUnavailable, OSError):
        return found
    return _by_its_beat(processes, config, worker, beat) or found


def look_for_watcher(processes: ProcessDoor, drive: Drive, config: SupervisorConfig, worker: Worker) -> Sighting:
    """The same, for whoever must know whether that look was a whole one."""
    try:
        beat = drive.call(_last_beat, drive, config, worker)
    except (DriveUnavailable, OSError) as error:
        return Sighting(check_watcher_process(processes, worker), problem=str(error))
    return Sighting(adopt_watcher(processes, config, worker, beat), beat)


def adopt_watcher(
    processes: ProcessDoor, config: SupervisorConfig, worker: Worker, beat: Heartbeat | None
) -> FoundWorker:
    """The worker as it is found; where none is, the process that its heartbeat names, if that is surely it.

    The beat must come from this host, the process must have exactly the configured arguments, and must not be younger
    than the beat: else it is somebody else's that has got the PID.
    """
    found = check_watcher_process(processes, worker)
    return _by_its_beat(processes, config, worker, beat) or found if is_stopped(found) else found


def host_name() -> str:
    """What this host calls itself, as `socket.gethostname` says it."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket

    return socket.gethostname()


def is_stopped(found: FoundWorker) -> bool:
    """Whether nothing of it is left, its descendants included."""
    return found.presence is Presence.STOPPED and not found.leftovers


def start_watcher(
    processes: ProcessDoor,
    drive: Drive,
    config: SupervisorConfig,
    worker: Worker,
    looked: FoundWorker | None = None,
) -> ProcessIdentity:
    """Start the worker with its configured command, and see it alive after its grace period.

    What an earlier life left behind is ended first. `LaunchError` with the end of its output where it did not live
    so long. `looked` is what `find_watcher` has just told the caller; that no second copy is started does not hang
    on it: the launch looks for itself.
    """
    # One that somebody started by hand is on record after this, so that the launch refuses.
    found = looked or find_watcher(processes, drive, config, worker)
    if found.leftovers:
        report = stop_watcher_gracefully(processes, worker)
        if not report.stopped:
            names = ", ".join(map(str, report.survivors))
            raise LaunchError(f"{worker.id} is not started: of its last life {names} could not be ended.")
        find_watcher(processes, drive, config, worker)
    log = worker_log(config, worker)
    drive.make_folder(log.parent)
    # Asked through the own door of the drive: one that hangs is noticed here, and not with the lock of the worker held.
    written_before = drive.call(_size, log)
    spec = LaunchSpec(
        worker_id=worker.id,
        command=config.command_for(worker),
        cwd=worker.cwd,
        env=config.environment_for(worker),
        log_path=log,
        spec_hash=config.spec_hash(worker),
    )
    crashpoints.reach("worker.start:before")
    record = processes.start(spec)
    crashpoints.reach("worker.start:after")
    identity = record.identity
    if identity is None:
        raise LaunchError(f"{worker.id} was started, but nobody knows as which process.")
    if processes.wait_exit(identity, worker.start_grace_seconds):
        code = processes.exit_code(identity)
        raise LaunchError(
            f"{worker.id} died within {worker.start_grace_seconds:g} s of its start ({_ended(code)}). "
            f"{masked(_last_words(log, written_before), config.secrets())}"
        )
    return identity


def stop_watcher_gracefully(processes: ProcessDoor, worker: Worker) -> StopReport:
    """Ask the worker to end, wait as long as is configured, make it end, and look again."""
    crashpoints.reach("worker.stop:before")
    report = processes.stop(worker.id, stop_signal=worker.stop_signal, timeout=worker.stop_timeout_seconds)
    crashpoints.reach("worker.stop:after")
    return report


def masked(text: str, secrets: Collection[str]) -> str:
    """The text without these values; the longest first, since one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _last_beat(drive: Drive, config: SupervisorConfig, worker: Worker) -> Heartbeat | None:
    """For the thread of a call to the drive."""
    drive.confirm()
    return last_beat(config.folder("state"), worker.id)


def _by_its_beat(
    processes: ProcessDoor, config: SupervisorConfig, worker: Worker, beat: Heartbeat | None
) -> FoundWorker | None:
    if beat is None or beat.pid is None or beat.at is None or beat.hostname.casefold() != host_name().casefold():
        return None
    from supervisor_core.adapters.processes_adopt import Claim  # seldom needed

    return processes.adopt(worker.id, Claim(beat.pid, config.command_for(worker), beat.at))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _ended(code: int | None) -> str:
    if code is None:
        return "exit code unknown"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _last_words(log: Path, start: int) -> str:
    """What it wrote since then, the end of it."""
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(start, size - TAIL_BYTES) if size >= start else 0)
        lines = file.read(TAIL_BYTES).decode(errors="replace").strip().splitlines()[-TAIL_LINES:]
    if not lines:
        return f"It wrote nothing to {log}."
    return "Its last words:\n" + "\n".join(lines)
