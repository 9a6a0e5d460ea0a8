"""Looking at workers as they are now: their processes, their pause, their last heartbeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.adapters.drive import Drive, DriveUnavailable
from supervisor_core.adapters.heartbeats import last_beat
from supervisor_core.adapters.observation import observe
from supervisor_core.adapters.pauses import Pause, read_flag
from supervisor_core.adapters.processes import FoundWorker
from supervisor_core.adapters.processes_values import ProcessIdentity
from supervisor_core.adapters.quarantines import Quarantine
from supervisor_core.adapters.worker import Search
from supervisor_core.config import Worker
from supervisor_core.domain.hanging import hangs
from supervisor_core.domain.health import Heartbeat, Observation, Verdict, WorkerState, health
from supervisor_core.domain.heartbeats import in_words
from supervisor_core.domain.times import to_text
from supervisor_core.handlers.context import Host

DRIVE_SECONDS = 1.0
"""How long a look waits for the drive: `status` must answer within two seconds, whatever the drive does."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One worker, as it was found."""

    worker: Worker
    found: FoundWorker
    pause: Pause | None
    quarantine: Quarantine | None
    observation: Observation
    verdict: Verdict
    at: datetime
    pause_differs: bool = False
    """Whether its pause flag was changed by hand, so that whoever has the worker in hand must look at it."""

    def as_json(self) -> dict[str, Any]:
        """For `status --json`."""
        started = self.observation.started_at
        return {
            "id": self.worker.id,
            "state": str(self.observation.state),
            "health": str(self.verdict.health),
            "reason": self._reason(),
            "fine": self.verdict.fine,
            "pid": self.found.identity.pid if self.found.identity else None,
            "paused": self.pause is not None,
            "quarantined": self.worker.quarantined or self.quarantine is not None,
            "muted_until": None,
            "muted_for": None,
            "team": self.worker.team,
            "started_at": to_text(started) if started else None,
            "last_health_at": to_text(self.at),
            "last_error": None,
        }

    def under_way(self, moving: WorkerState) -> Seen:
        """The same worker while it is being started or stopped."""
        observation = self.observation._replace(state=moving)
        return replace(self, observation=observation, verdict=health(observation, self.at))

    @property
    def hangs(self) -> str:
        """Why it counts as hung: alive, and doing nothing. Empty where it does not."""
        return hangs(self.observation, self.at)

    def in_words(self) -> str:
        """How it is, in a word or two."""
        return in_words(self.observation.state, self.verdict, paused=self.pause is not None)

    def _reason(self) -> str:
        """The same as the verdict's, with who paused it."""
        bare = self.verdict.reason.removeprefix("paused")
        return f"{self.pause}{bare}" if self.pause and bare != self.verdict.reason else self.verdict.reason


def look(
    host: Host,
    workers: Sequence[Worker],
    *,
    patient: bool = False,
    search: Search = Search.NEVER,
    lag: Callable[[float], float] | None = None,
    probes: Callable[[str, ProcessIdentity], str] | None = None,
) -> list[Seen]:
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
        found, observation = observe(
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
        seen.append(Seen(worker, found, pause, given_up, observation, health(observation, now), now, differs))
    return seen


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
