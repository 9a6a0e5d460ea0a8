"""Observes workers: their processes, their pause, their last heartbeat."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.files import read_json, write_json
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.host.process_facts.identity import age_seconds
from supervisor_core.processes.finding import FoundWorker, Presence, Scan, scan_processes
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.health import Heartbeat, WorkerState
from supervisor_core.workers.heartbeats.files import heartbeat_file, last_beats
from supervisor_core.workers.pauses import Pause, read_flags
from supervisor_core.workers.status import WorkerStatus
from supervisor_core.workers.worker import adopt_watcher, check_watcher_process, masked


def frozen_seconds(state_dir: Path, worker_id: str, identity: ProcessIdentity | None) -> float | None:
    """The seconds for which this process is known to be stopped by a signal; None, and no note, without a process.

    The kernel doesn't say since when, so the first observer writes a note into the state folder: most observers (a
    pass, `status`) live for less than ten seconds. The note names the exact process, and its clock counts from boot.
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


def process_state(observed: FoundWorker) -> WorkerState:
    """The state of a worker by its processes alone. Leftover children don't count; a start ends them first."""
    if observed.stuck or observed.presence is Presence.UNVERIFIABLE:
        return WorkerState.STUCK
    return WorkerState.RUNNING if observed.presence is Presence.RUNNING else WorkerState.STOPPED


DRIVE_SECONDS = 1.0
"""The time that an observation waits for the drive: `status` must answer within two seconds."""


def observe_workers(
    host: HostContext,
    workers: Sequence[WorkerSettings],
    *,
    patient: bool = False,
    beside: bool = False,
    lag: Callable[[float], float] | None = None,
    probes: Callable[[str, ProcessIdentity], str] | None = None,
    scan: Scan | None = None,
) -> list[WorkerStatus]:
    """Observe these workers. The drive is asked once for all of them, and isn't waited for if it hangs.

    A patient observation gives the drive its usual time, so that a slow one doesn't count as hanging. `beside` also
    names the processes that look like a running worker. All share one scan of the processes, or use `scan`. The daemon
    passes `lag`, the time in which nothing was scheduled within some seconds, and `probes`, the failing probes of a
    process; both return immediately, in any thread. Other observers pass neither.

    The observation doesn't change workers. It only writes our notes: which process is a worker that was started by
    hand, and since when a process has been stopped by a signal.
    """
    config, now, scan = host.config, datetime.now(UTC), scan or cache(scan_processes)
    ids = [worker.id for worker in workers]
    try:
        beats, flags = host.drive.call(
            _read_drive, host.drive, config.folder("state"), ids, timeout=None if patient else DRIVE_SECONDS
        )
        known = True
    except (DriveUnavailable, OSError):
        beats, flags, known = {}, {}, False
    statuses = []
    for worker in workers:
        flag, beat = flags.get(worker.id), beats.get(worker.id)
        pause = host.pauses.look(worker.id, flag, flag_known=known)
        quarantine = host.quarantines.read(worker.id)
        try:
            observed = adopt_watcher(host, worker, beat, beside=beside, scan=scan, thorough=False)
        except OSError:  # a full disk: what can't be put on record is not taken over, and the look goes on
            observed = check_watcher_process(host.processes, worker)
        state = process_state(observed)
        if state is WorkerState.STOPPED and (worker.quarantined or quarantine):  # one that somebody started is running
            state = WorkerState.QUARANTINED
        if beat is not None:  # a worker may repeat its environment, and its words go to logs, tables and people
            secrets = config.secrets
            status, error, hostname = (masked(text, secrets) for text in (beat.status, beat.error, beat.hostname))
            beat = beat._replace(status=status, error=error, hostname=hostname)
        configured = config.workers.get(worker.id)
        if configured is None:
            inactive_reason = "no longer in the configuration"
        elif pause is not None:
            inactive_reason = str(pause)
        elif not configured.enabled:
            inactive_reason = "not enabled in the configuration"
        else:
            inactive_reason = "quarantined in the configuration" if configured.quarantined else ""
        frozen = observed.identity if observed.life is Liveness.FROZEN else None
        statuses.append(
            WorkerStatus(
                worker,
                now,
                state,
                observed,
                pause,
                quarantine,
                inactive_reason,
                started_at=started_at(observed),
                resumed_at=None if pause else host.pauses.changed_at(worker.id),
                frozen_seconds=frozen_seconds(config.state_dir, worker.id, frozen),
                heartbeat=beat,
                heartbeat_file=heartbeat_file(config, worker) or "",
                heartbeat_known=known,
                probe_failing=probes(worker.id, observed.identity) if probes and observed.identity else "",
                lag_seconds=lag(worker.heartbeat_max_age_seconds) if lag else 0.0,
                pause_differs=known and host.pauses.differs(worker.id, flag),
            )
        )
    return statuses


def started_at(observed: FoundWorker) -> datetime | None:
    """The start of its process; None without one on record."""
    if observed.record and observed.record.started_at:
        return datetime.fromisoformat(observed.record.started_at)
    if observed.identity:  # by the kernel, if the starter ended before recording it
        return datetime.now(UTC) - timedelta(seconds=age_seconds(observed.identity.start))
    return None


def _read_drive(
    drive: Drive, folder: Path, worker_ids: Sequence[str]
) -> tuple[dict[str, Heartbeat], dict[str, Pause | None]]:
    drive.confirm()
    beats = last_beats(drive.root, folder, worker_ids)
    return beats, dict(zip(worker_ids, read_flags(drive.root, folder, worker_ids), strict=True))
