"""Observes workers: their processes, their pause, their last heartbeat."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.files import read_json, write_json
from supervisor_core.host.process_facts import linux as platform
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.manager import ProcessManager
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.health import Heartbeat, Observation, WorkerState
from supervisor_core.workers.heartbeats.files import last_beat
from supervisor_core.workers.pauses import Pause, Pauses, read_flag
from supervisor_core.workers.status import WorkerStatus
from supervisor_core.workers.worker import Search, adopt_watcher, check_watcher_process, masked


def frozen_seconds(state_dir: Path, worker_id: str, identity: ProcessIdentity | None) -> float | None:
    """The seconds since this process is known to be stopped by a signal; None, and no note, without a process.

    The kernel does not tell, so the first observer writes a note into the state folder: most observers (a pass,
    `status`) do not live for ten seconds. The note names the exact process, and its clock is the kernel's since boot.
    """
    path = state_dir / "workers" / f"{worker_id}.frozen"
    if identity is None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    now = time.monotonic()
    with contextlib.suppress(OSError):  # who may not write here sees it each time for the first time
        note = read_json(path, tolerant=True) or {}
        since = note.get("since")
        if note.get("process") == list(identity) and isinstance(since, float):
            return max(0.0, now - since)
        write_json(path, {"process": list(identity), "since": now})
    return 0.0


def observe_worker(
    config: SupervisorConfig,
    processes: ProcessManager,
    drive: Drive,
    pauses: Pauses,
    worker: WorkerSettings,
    beat: Heartbeat | None,
    pause: Pause | None,
    *,
    search: Search = Search.NEVER,
    drive_known: bool = True,
    quarantine: str = "",
    lag_seconds: float = 0.0,
    probes: Callable[[str, ProcessIdentity], str] | None = None,
) -> tuple[FoundWorker, Observation]:
    """Look at its processes, and put them together with what the drive said of it: its last beat, its pause.

    `search` says when all processes are searched for one that claims to be it, and `probes` what is wrong with the
    probes of exactly this process of a worker.
    """
    found = _find(config, processes, drive, worker, beat, search=search)
    identity = found.identity
    return found, Observation(
        state=_state(worker, found, quarantine),
        quarantined=worker.quarantined,
        quarantine=quarantine,
        unverifiable=found.reason if found.presence is Presence.UNVERIFIABLE else "",
        others=found.others if found.identity is not None else (),
        paused=pause is not None,
        enabled=worker.enabled,
        frozen_seconds=frozen_seconds(config.state_dir, worker.id, identity if _is_frozen(found) else None),
        started_at=_started_at(found),
        resumed_at=None if pause else pauses.changed_at(worker.id),
        heartbeat=_masked(beat, config),
        heartbeat_known=drive_known,
        max_age_seconds=worker.heartbeat_max_age_seconds,
        pid=identity.pid if identity else None,
        probe_failing=probes(worker.id, identity) if probes and identity else "",
        lag_seconds=lag_seconds,
    )


def process_state(found: FoundWorker) -> WorkerState:
    """Where a worker's life stands, by its processes alone. One that has ended and left helpers behind is stopped: who
    starts it ends them first."""
    if found.stuck or found.presence is Presence.UNVERIFIABLE:
        return WorkerState.STUCK
    return WorkerState.RUNNING if found.presence is Presence.RUNNING else WorkerState.STOPPED


def _state(worker: WorkerSettings, found: FoundWorker, quarantine: str) -> WorkerState:
    """A quarantined worker that does not run rests there; one that somebody has running all the same runs."""
    state = process_state(found)
    rests = worker.quarantined or bool(quarantine)
    return WorkerState.QUARANTINED if rests and state is WorkerState.STOPPED else state


def _started_at(found: FoundWorker) -> datetime | None:
    """The time at which it was started; by the kernel, where whoever started it did not live to put that on record."""
    record, identity = found.record, found.identity
    if record and record.started_at:
        return datetime.fromisoformat(record.started_at)
    return datetime.now(UTC) - timedelta(seconds=platform.age_seconds(identity.start)) if identity else None


def _find(
    config: SupervisorConfig,
    processes: ProcessManager,
    drive: Drive,
    worker: WorkerSettings,
    beat: Heartbeat | None,
    *,
    search: Search,
) -> FoundWorker:
    try:
        return adopt_watcher(processes, drive, config, worker, beat, search)
    except OSError:  # a full disk: what can't be put on record is not taken over, and the look goes on
        return check_watcher_process(processes, worker)


def _masked(beat: Heartbeat | None, config: SupervisorConfig) -> Heartbeat | None:
    """A worker may repeat what it was given in its environment; its words go to logs, tables and people from here."""
    if beat is None:
        return None
    secrets = config.secrets()
    status, error, hostname = (masked(words, secrets) for words in (beat.status, beat.error, beat.hostname))
    return beat._replace(status=status, error=error, hostname=hostname)


def _is_frozen(found: FoundWorker) -> bool:
    return found.life is Liveness.FROZEN


DRIVE_SECONDS = 1.0
"""An observation waits so long for the drive: `status` must answer within two seconds, whatever the drive does."""


def observe_workers(
    host: HostContext,
    workers: Sequence[WorkerSettings],
    *,
    patient: bool = False,
    search: Search = Search.NEVER,
    lag: Callable[[float], float] | None = None,
    probes: Callable[[str, ProcessIdentity], str] | None = None,
) -> list[WorkerStatus]:
    """Look at these workers; the drive is asked once for all of them, and not waited for if it hangs.

    A patient look gives the drive the time that all else gives it: a slow one does not count as hanging. `search` says
    when all processes are searched for one that claims to be a worker. The daemon knows how long nothing was scheduled
    of late (`lag` within so many seconds), and what is wrong with the probes of a process (`probes`); both answer at
    once, in any thread. Whoever else looks gives none.

    It changes nothing of theirs. What it writes are notes of ours: that a worker which was started by hand is this
    process, and since when one has been stopped by a signal.
    """
    now = datetime.now(UTC)
    ids = [worker.id for worker in workers]
    try:
        folder = host.config.folder("state")
        beats, flags = host.drive.call(_on_drive, host.drive, folder, ids, timeout=None if patient else DRIVE_SECONDS)
        known = True
    except (DriveUnavailable, OSError):
        beats, flags, known = {}, {}, False
    seen = []
    for worker in workers:
        pause = host.pauses.look(worker.id, flags.get(worker.id), flag_known=known)
        beat = beats.get(worker.id)
        late = lag(worker.heartbeat_max_age_seconds) if lag else 0.0
        given_up = host.quarantines.read(worker.id)
        found, observation = observe_worker(
            host.config,
            host.processes,
            host.drive,
            host.pauses,
            worker,
            beat,
            pause,
            search=search,
            drive_known=known,
            quarantine=given_up.words if given_up else "",
            lag_seconds=late,
            probes=probes,
        )
        differs = known and host.pauses.differs(worker.id, flags.get(worker.id))
        rests = _rest_reason(host.config, worker.id, pause)
        seen.append(WorkerStatus(worker, now, observation, found, pause, given_up, differs, rests))
    return seen


def _rest_reason(config: SupervisorConfig, worker_id: str, pause: Pause | None) -> str:
    """Why nobody wants it to run; empty where somebody does."""
    worker = config.workers.get(worker_id)
    if worker is None:
        return "no longer in the configuration"
    if pause is not None:
        return str(pause)
    if not worker.enabled:
        return "not enabled in the configuration"
    return "quarantined in the configuration" if worker.quarantined else ""


def _on_drive(
    drive: Drive, folder: Path, worker_ids: Sequence[str]
) -> tuple[dict[str, Heartbeat], dict[str, Pause | None]]:
    """The heartbeats and pause flags of these workers, in one call."""
    drive.confirm()
    beats = {}
    for worker_id in worker_ids:
        beat = last_beat(drive.root, folder, worker_id)
        if beat is not None:
            beats[worker_id] = beat
    return beats, {worker_id: read_flag(drive.root, folder, worker_id) for worker_id in worker_ids}
