"""The state of the workers: `WorkerStatus`, one observed worker, and `Snapshot`, all workers at one moment.

All values are immutable. Planning, status output, alerts and explanations read the same `WorkerStatus`; a snapshot is
replaced by one assignment, so any thread may read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from supervisor_core.common.times import require_aware, to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.workers.health import Health, Observation, Verdict, WorkerState, hangs, health
from supervisor_core.workers.heartbeats.files import in_words
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.restarts.limits import Quarantine
from supervisor_core.workers.restarts.policy import RestartDecision


class ProcessEnd(NamedTuple):
    """The end of a worker's process; `words` are empty if its exit code is unknown."""

    at: datetime
    words: str = ""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One observed worker. The daemon adds the facts that its actor knows."""

    worker: WorkerSettings
    at: datetime
    observation: Observation
    found: FoundWorker
    pause: Pause | None = None
    quarantine: Quarantine | None = None
    pause_differs: bool = False
    """True if somebody changed its pause flag by hand, so that its actor must check it."""
    rests: str = ""
    """Why it shouldn't run, in words; empty if it should."""
    stage: WorkerState | None = None
    """Its state including the current activity; None without an actor."""
    decision: RestartDecision | None = None
    start_error: str = ""
    end: ProcessEnd | None = None
    """The end of its recorded process, if it was noticed."""
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", health(self.observation, self.at))

    @property
    def worker_id(self) -> str:
        return self.worker.id

    @property
    def state(self) -> WorkerState:
        return self.stage or self.observation.state

    @property
    def ended_at(self) -> datetime | None:
        return self.end.at if self.end else None

    @property
    def proven_after_seconds(self) -> float:
        """The age at which its process counts as well: after its start grace, and older than the one that failed."""
        return self.worker.start_grace_seconds + self.observation.failed_after_seconds

    @property
    def died(self) -> bool:
        """True if it exited on its own: its process is gone, and the supervisor didn't stop it or try it out."""
        record = self.found.record
        started = record is not None and record.identity is not None
        return started and self.found.identity is None and not self.found.ordered

    @property
    def hangs(self) -> str:
        """Why it counts as hung; empty if it doesn't."""
        return hangs(self.observation, self.at)

    @property
    def problem(self) -> str:
        """The problem in words; empty for a healthy worker."""
        return "" if self.verdict.fine else f"{self.worker.id} is {self.verdict.health}: {self.verdict.reason}"

    def in_words(self) -> str:
        """Its state and health, in a word or two."""
        return in_words(self.observation.state, self.verdict, paused=self.pause is not None)

    def under_way(self, moving: WorkerState) -> WorkerStatus:
        """The status while the worker is being started or stopped."""
        return replace(self, observation=self.observation._replace(state=moving))

    def as_json(self) -> dict[str, Any]:
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

    def _reason(self) -> str:
        """The verdict's reason, with the person who paused it."""
        bare = self.verdict.reason.removeprefix("paused")
        return f"{self.pause}{bare}" if self.pause and bare != self.verdict.reason else self.verdict.reason


def brief(start_error: str) -> str:
    """The first line of a start error, without the heading of the output below it."""
    first, _, _ = start_error.partition("\n")
    return re.sub(r"(?<=\.) [^.]*:$", "", first).rstrip(".")


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The desired state of a worker, from the configuration and from people.

    `spec_hash` covers all settings that need a restart to take effect; empty if unknown.
    """

    spec_hash: str = ""
    enabled: bool = True
    quarantined: bool = False
    paused: bool = False
    left_alone: bool = False
    """Quarantined in the configuration: not stopped either, even if it isn't enabled."""


@dataclass(frozen=True, slots=True)
class ActualState:
    """The observed state of a worker, for plans and the snapshot."""

    state: WorkerState
    pid: int | None = None
    started_at: datetime | None = None
    health: Health = Health.UNKNOWN
    reason: str = ""
    last_seen: datetime | None = None
    pending: tuple[str, ...] = ()
    """The activity and the planned action, in words."""
    spec_hash: str = ""
    """The settings that it was started with; empty if unknown, as for a worker that was started by hand."""
    ended: bool = False
    """True if it exited and its restart policy doesn't restart it."""
    hung: bool = False
    """True if it counts as hung and its `restart.on_hang` is set."""

    def __post_init__(self) -> None:
        _in_utc(self, "started_at", "last_seen")
        object.__setattr__(self, "pending", tuple(self.pending))


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The version of the configuration that was applied to a worker, and its rounds."""

    desired_version: int = 0
    last_at: datetime | None = None
    count: int = 0

    def __post_init__(self) -> None:
        _in_utc(self, "last_at")

    def next_round(self, version: int, now: datetime, *, applied: bool) -> Reconciliation:
        """The value after one more round. The version counts as applied once nothing is left to do."""
        return Reconciliation(version if applied else self.desired_version, now, self.count + 1)


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """One worker in the snapshot."""

    desired: DesiredState
    actual: ActualState
    reconciliation: Reconciliation = field(default_factory=Reconciliation)
    config: WorkerSettings | None = None

    @property
    def name(self) -> str:
        return self.config.id if self.config else ""

    @property
    def connection_info(self) -> dict[str, Any]:
        """Its process: `pid`, `started_at`, `state`, `health` and `reason`."""
        actual = self.actual
        return {
            "pid": actual.pid,
            "started_at": actual.started_at,
            "state": str(actual.state),
            "health": str(actual.health),
            "reason": actual.reason,
        }

    @property
    def last_seen(self) -> datetime | None:
        return self.actual.last_seen

    @property
    def tool_count(self) -> int:
        """Always 0: a worker is a process without tools."""
        return 0

    @property
    def desired_version(self) -> int:
        return self.reconciliation.desired_version

    @property
    def last_reconcile(self) -> datetime | None:
        return self.reconciliation.last_at

    @property
    def reconcile_count(self) -> int:
        return self.reconciliation.count

    @property
    def enabled(self) -> bool:
        return self.desired.enabled

    @property
    def quarantined(self) -> bool:
        return self.desired.quarantined

    @property
    def connected(self) -> bool:
        return self.actual.state is WorkerState.RUNNING

    def as_json(self) -> dict[str, Any]:
        return {
            "desired": _as_json(self.desired),
            "actual": _as_json(self.actual),
            "reconciliation": _as_json(self.reconciliation),
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All workers at one moment, in the order of their ids. A higher version is later, whatever the clock says."""

    version: int
    taken_at: datetime
    workers: Mapping[str, WorkerSnapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _in_utc(self, "taken_at")
        # A copy of our own: a view of somebody else's dictionary would change with it.
        object.__setattr__(self, "workers", MappingProxyType(dict(sorted(self.workers.items()))))

    @property
    def servers(self) -> Mapping[str, WorkerSnapshot]:
        return self.workers

    def changed(self, workers: Mapping[str, WorkerSnapshot], taken_at: datetime) -> Snapshot:
        """The next snapshot with all these workers; this one if nothing differs."""
        if dict(workers) == self.workers:
            return self
        return Snapshot(self.version + 1, taken_at, workers)


def _in_utc(value: object, *names: str) -> None:
    """Convert these times of a frozen value to UTC, or refuse them."""
    for name in names:
        moment = getattr(value, name)
        if moment is not None:
            object.__setattr__(value, name, require_aware(moment))


def _as_json(part: DesiredState | ActualState | Reconciliation) -> dict[str, Any]:
    values = ((field.name, getattr(part, field.name)) for field in fields(part))
    return {name: to_text(value) if isinstance(value, datetime) else value for name, value in values}
