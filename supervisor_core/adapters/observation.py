"""What there is to see of one worker, put together for the judgement of its health."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from supervisor_core.adapters.drive import Drive
from supervisor_core.adapters.frozen import frozen_seconds
from supervisor_core.adapters.pauses import Pause, Pauses
from supervisor_core.adapters.processes import FoundWorker, Presence, ProcessDoor
from supervisor_core.adapters.processes_identity import platform
from supervisor_core.adapters.processes_values import Life, ProcessIdentity
from supervisor_core.adapters.worker import Search, adopt_watcher, check_watcher_process, masked
from supervisor_core.config import SupervisorConfig, Worker
from supervisor_core.domain.health import Heartbeat, Observation, WorkerState


def observe(
    config: SupervisorConfig,
    processes: ProcessDoor,
    drive: Drive,
    pauses: Pauses,
    worker: Worker,
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


def state_of(found: FoundWorker) -> WorkerState:
    """Where a worker's life stands, by its processes alone. One that has ended and left helpers behind is stopped: who
    starts it ends them first."""
    if found.stuck or found.presence is Presence.UNVERIFIABLE:
        return WorkerState.STUCK
    return WorkerState.RUNNING if found.presence is Presence.RUNNING else WorkerState.STOPPED


def _state(worker: Worker, found: FoundWorker, quarantine: str) -> WorkerState:
    """A quarantined worker that does not run rests there; one that somebody has running all the same runs."""
    state = state_of(found)
    rests = worker.quarantined or bool(quarantine)
    return WorkerState.QUARANTINED if rests and state is WorkerState.STOPPED else state


def _started_at(found: FoundWorker) -> datetime | None:
    """When it was started; by the kernel, where whoever started it did not live to put that on record."""
    record, identity = found.record, found.identity
    if record and record.started_at:
        return datetime.fromisoformat(record.started_at)
    return datetime.now(UTC) - timedelta(seconds=platform.age_seconds(identity.start)) if identity else None


def _find(
    config: SupervisorConfig,
    processes: ProcessDoor,
    drive: Drive,
    worker: Worker,
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
    return found.life is Life.FROZEN
