"""The snapshot: an immutable, versioned picture of all workers, desired and actual, for any thread to read.

Nobody changes one: who knows more makes the next, and swaps it in by one assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from supervisor_core.common.times import require_aware, to_text
from supervisor_core.workers.health import Health, WorkerState


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What is wanted of a worker. `spec_hash` stands for its configuration, as in a plan."""

    spec_hash: str = ""
    enabled: bool = True
    quarantined: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True)
class ActualState:
    """What was seen of a worker, when, and what is in hand and what is planned for it, in words."""

    state: WorkerState
    pid: int | None = None
    started_at: datetime | None = None
    health: Health = Health.UNKNOWN
    reason: str = ""
    last_seen: datetime | None = None
    pending: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _aware(self, "started_at")
        _aware(self, "last_seen")
        object.__setattr__(self, "pending", tuple(self.pending))


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """How far the plan has come with a worker: the version of the configuration that was *applied*, when, how often."""

    desired_version: int = 0
    last_at: datetime | None = None
    count: int = 0

    def __post_init__(self) -> None:
        _aware(self, "last_at")


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """One worker in the picture."""

    desired: DesiredState
    actual: ActualState
    reconciliation: Reconciliation = field(default_factory=Reconciliation)

    def as_json(self) -> dict[str, Any]:
        """The three parts, with their times as text."""
        wanted, seen, done = self.desired, self.actual, self.reconciliation
        return {
            "desired": {
                "spec_hash": wanted.spec_hash,
                "enabled": wanted.enabled,
                "quarantined": wanted.quarantined,
                "paused": wanted.paused,
            },
            "actual": {
                "state": str(seen.state),
                "pid": seen.pid,
                "started_at": _text(seen.started_at),
                "health": str(seen.health),
                "reason": seen.reason,
                "last_seen": _text(seen.last_seen),
                "pending": list(seen.pending),
            },
            "reconciliation": {
                "desired_version": done.desired_version,
                "last_at": _text(done.last_at),
                "count": done.count,
            },
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All workers at one moment, in the order of their ids. A higher version is later, whatever the clock says."""

    version: int
    taken_at: datetime
    workers: Mapping[str, WorkerSnapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _aware(self, "taken_at")
        # A copy of our own: a view of somebody else's dictionary would change with it.
        object.__setattr__(self, "workers", MappingProxyType(dict(sorted(self.workers.items()))))

    def changed(self, workers: Mapping[str, WorkerSnapshot], taken_at: datetime) -> Snapshot:
        """The next version with these workers, all of them; this very snapshot where nothing differs."""
        if dict(workers) == self.workers:
            return self
        return Snapshot(self.version + 1, taken_at, workers)

    def as_json(self) -> dict[str, Any]:
        """A new dictionary for programs, which the caller may do with as it likes."""
        return {
            "version": self.version,
            "taken_at": to_text(self.taken_at),
            "workers": {worker_id: worker.as_json() for worker_id, worker in self.workers.items()},
        }


def _aware(value: object, name: str) -> None:
    """Have a time of a frozen value in UTC, or refuse it."""
    moment = getattr(value, name)
    if moment is not None:
        object.__setattr__(value, name, require_aware(moment))


def _text(moment: datetime | None) -> str | None:
    return to_text(moment) if moment else None
