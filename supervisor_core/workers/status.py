"""The state of the workers: `WorkerStatus`, one worker at one moment, and `Snapshot`, all of them.

All values are immutable, so any thread may read them. The planner, `status`, Slack, alerts and metrics read the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from supervisor_core.common.times import require_aware, to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.workers.health import SILENT, Health, Heartbeat, Verdict, WorkerState, health
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.restarts.history import Quarantine
from supervisor_core.workers.restarts.policy import Next, RestartDecision


class ProcessEnd(NamedTuple):
    """The end of a worker's process; `words` are empty if its exit code is unknown."""

    at: datetime
    words: str = ""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker as it was seen. In the daemon, its `Worker` adds what it does about it."""

    worker: WorkerSettings
    at: datetime
    state: WorkerState
    found: FoundWorker
    pause: Pause | None = None
    quarantine: Quarantine | None = None
    inactive_reason: str = ""
    """Why it shouldn't run, in words; empty if it should."""
    started_at: datetime | None = None
    resumed_at: datetime | None = None
    """The end of its last pause; None if it was never paused."""
    frozen_seconds: float | None = None
    """The time since when it's known to be stopped by a signal; None if it isn't."""
    heartbeat: Heartbeat | None = None
    heartbeat_file: str = ""
    """The file that it must replace regularly; empty if no heartbeat is expected."""
    heartbeat_known: bool = True
    probe_failing: str = ""
    """The failing probe and its failure, in words; empty if all pass or there are none."""
    lag_seconds: float = 0.0
    """The recent time in which nothing was scheduled here: the host was suspended or too busy, or we were stopped."""
    pause_differs: bool = False
    """True if somebody changed its pause flag by hand."""
    decision: RestartDecision | None = None
    """The decision for which it waits or rests after an exit."""
    start_error: str = ""
    end: ProcessEnd | None = None
    """The end of its recorded process, if it was noticed."""
    failed_after_seconds: float = 0.0
    """The length of the short run that its process follows automatically; 0 if that was a long run, or none."""
    pending: tuple[str, ...] = ()
    """The activity and the planned action, in words."""
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", health(self, self.at))

    @property
    def worker_id(self) -> str:
        return self.worker.id

    @property
    def pid(self) -> int | None:
        return self.found.identity.pid if self.found.identity else None

    @property
    def paused(self) -> bool:
        return self.pause is not None

    @property
    def enabled(self) -> bool:
        return self.worker.enabled

    @property
    def quarantined(self) -> bool:
        """Quarantined in the configuration: if it runs, it continues, and isn't started again."""
        return self.worker.quarantined

    @property
    def max_age_seconds(self) -> float:
        """0 if no heartbeat is expected."""
        return self.worker.heartbeat_max_age_seconds

    @property
    def unverifiable(self) -> str:
        """Why it's unknown whether it runs, and what to do; empty if it's known."""
        return self.found.reason if self.found.presence is Presence.UNVERIFIABLE else ""

    @property
    def others(self) -> tuple[int, ...]:
        """Further processes that look like the same worker."""
        return self.found.others if self.found.identity is not None else ()

    @property
    def spec_hash(self) -> str:
        """The settings that it was started with; empty if unknown, as for a worker that was started by hand."""
        record = self.found.record
        return record.spec_hash if record is not None and self.state is WorkerState.RUNNING else ""

    @property
    def finished(self) -> bool:
        """True if it exited and its restart policy doesn't restart it."""
        return self.decision is not None and self.decision.what is Next.REST

    @property
    def hung(self) -> bool:
        """True if it counts as hung and its `restart.on_hang` is set."""
        return self.worker.restart.on_hang and bool(self.hangs)

    @property
    def ended_at(self) -> datetime | None:
        return self.end.at if self.end else None

    @property
    def proven_after_seconds(self) -> float:
        """The age at which its process counts as well: after its start grace, and older than the one that failed."""
        return self.worker.start_grace_seconds + self.failed_after_seconds

    @property
    def died(self) -> bool:
        """True if it exited on its own: its process is gone, and the supervisor didn't stop it or try it out."""
        record = self.found.record
        started = record is not None and record.identity is not None
        return started and self.found.identity is None and not self.found.ordered

    @property
    def hangs(self) -> str:
        """Why it counts as hung, in words; empty if it doesn't, or if that's unknown.

        A paused worker never counts as hung. While the drive is away, only a process that is stopped by a signal does:
        the heartbeat can't be read, and a failing probe may wait for the drive, as a new start would.
        """
        if self.state is not WorkerState.RUNNING or self.paused:
            return ""
        is_silent = self.heartbeat_known and (self.verdict.health in SILENT or self.probe_failing)
        return self.verdict.reason if is_silent or self.verdict.health is Health.FROZEN else ""

    @property
    def problem(self) -> str:
        """The problem in words; empty for a healthy worker."""
        return "" if self.verdict.fine else f"{self.worker.id} is {self.verdict.health}: {self.verdict.reason}"

    def in_words(self) -> str:
        """Its state and health, in a word or two: `running, healthy` · `paused` · `stopped, missing`."""
        if self.paused and self.state is WorkerState.STOPPED:
            return "paused"
        state = f"{self.state} and paused" if self.paused else str(self.state)
        inactive = self.verdict.fine and self.verdict.health is Health.UNKNOWN
        return state if inactive else f"{state}, {self.verdict.health}"

    def under_way(self, state: WorkerState) -> WorkerStatus:
        """The status while the worker is being started or stopped."""
        return replace(self, state=state)

    def as_json(self) -> dict[str, Any]:
        reason = self.verdict.reason
        bare = reason.removeprefix("paused")
        return {
            "id": self.worker.id,
            "state": str(self.state),
            "health": str(self.verdict.health),
            "reason": f"{self.pause}{bare}" if self.pause and bare != reason else reason,
            "fine": self.verdict.fine,
            "pid": self.pid,
            "paused": self.paused,
            "quarantined": self.quarantined or self.quarantine is not None,
            "muted_until": None,
            "muted_for": None,
            "team": self.worker.team,
            "started_at": to_text(self.started_at) if self.started_at else None,
            "last_health_at": to_text(self.at),
            "last_error": None,
        }


def brief(start_error: str) -> str:
    """The first line of a start error, without the heading of the output below it."""
    first, _, _ = start_error.partition("\n")
    return re.sub(r"(?<=\.) [^.]*:$", "", first).rstrip(".")


class DesiredState(NamedTuple):
    """The desired state of a worker, from the configuration and from people."""

    spec_hash: str = ""
    """Covers all settings that need a restart to take effect; empty if unknown."""
    enabled: bool = True
    quarantined: bool = False
    paused: bool = False
    left_alone: bool = False
    """Quarantined in the configuration: not stopped either, even if it isn't enabled."""


class WorkerSnapshot(NamedTuple):
    """One worker in the snapshot, with the version of the configuration that was applied to it, and its rounds."""

    desired: DesiredState
    actual: WorkerStatus
    desired_version: int = 0
    last_reconcile: datetime | None = None
    reconcile_count: int = 0

    @property
    def name(self) -> str:
        return self.actual.worker_id

    @property
    def config(self) -> WorkerSettings:
        return self.actual.worker

    @property
    def enabled(self) -> bool:
        return self.desired.enabled

    @property
    def quarantined(self) -> bool:
        return self.desired.quarantined

    @property
    def connected(self) -> bool:
        return self.actual.state is WorkerState.RUNNING

    @property
    def last_seen(self) -> datetime:
        return self.actual.at

    @property
    def connection_info(self) -> dict[str, Any]:
        """Its process: `pid`, `started_at`, `state`, `health` and `reason`."""
        actual = self.actual
        return {
            "pid": actual.pid,
            "started_at": actual.started_at,
            "state": str(actual.state),
            "health": str(actual.verdict.health),
            "reason": actual.verdict.reason,
        }

    @property
    def tool_count(self) -> int:
        """Always 0: a worker is a process without tools."""
        return 0

    def as_json(self) -> dict[str, Any]:
        actual = self.actual
        started = to_text(actual.started_at) if actual.started_at else None
        return {
            "desired": self.desired._asdict(),
            "actual": {
                **self.connection_info,
                "started_at": started,
                "last_seen": to_text(actual.at),
                "pending": actual.pending,
                "spec_hash": actual.spec_hash,
                "ended": actual.finished,
                "hung": actual.hung,
            },
            "reconciliation": {
                "desired_version": self.desired_version,
                "last_at": to_text(self.last_reconcile) if self.last_reconcile else None,
                "count": self.reconcile_count,
            },
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All workers at one moment, in the order of their ids. A higher version is later, whatever the clock says."""

    version: int
    taken_at: datetime
    workers: Mapping[str, WorkerSnapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "taken_at", require_aware(self.taken_at))
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
