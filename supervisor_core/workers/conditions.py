"""The conditions of workers and of the parts of their host, decided purely, each with its true beginning.

An observation without information (a worker is started or stopped on purpose, the drive is away) gives no condition,
and the previous one holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from supervisor_core.common.times import format_span
from supervisor_core.workers.health import (
    FROZEN_SECONDS,
    HEARTBEAT_EXAMPLE,
    Health,
    WorkerState,
    progressed_at,
)
from supervisor_core.workers.restarts.policy import HEALTHY_SECONDS, Next, RestartReason, exit_in_words
from supervisor_core.workers.status import WorkerStatus, brief

HEALING_SECONDS = 10.0
"""A worker that ran for long and is restarted at once isn't reported as down if it is well within this time."""

DECIDING_SECONDS = 5.0
"""After a short run, the time for the restart decision, because an exit may be a good end. A crash is reported at once,
since its restart waits for a backoff."""

LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""A later time isn't valid for an observation: a clock was wrong."""

WORKER = "worker"
DRIVE, DATABASE, DISK, CLOCK, COMMAND, SUPERVISOR, LINK = (
    "drive",
    "database",
    "disk",
    "clock",
    "command",
    "supervisor",
    "link",
)
"""Other kinds of targets. An interrupted command has its worker's id, a supervisor its own, and a part of the host the
host's."""

PARTS = (DRIVE, DATABASE, DISK, CLOCK, COMMAND, SUPERVISOR, LINK)
HOST_PARTS = (DRIVE, DISK, DATABASE, CLOCK)
"""Those that only the host itself can see."""

FLAPPING = "flapping"
"""Flapping is a target of its own, under the worker's name."""

ALERTMANAGER = "alertmanager"
"""The kind of an alert that Alertmanager sent; its id is the fingerprint."""


class Target(NamedTuple):
    """A worker, or a part of the host (`drive`, `disk`, `database` …) with the host's name."""

    kind: str
    id: str

    @property
    def worker(self) -> str:
        """The worker's id; empty for a part of the host."""
        return self.id if self.kind in (WORKER, FLAPPING) else ""


class Condition(StrEnum):
    """The condition of a target, in one word."""

    WELL = "well"
    PAUSED = "paused"
    """It shouldn't run: paused, not enabled, quarantined in the configuration, exited with code 0, or removed."""
    DEGRADED = "degraded"
    CLOCK_SKEW = "clock_skew"
    UNKNOWN = "unknown"
    """Unknown whether it runs, as before the first observation."""
    MISSING = "missing"
    STALE = "stale"
    FROZEN = "frozen"
    STUCK = "stuck"
    """Some of its processes can't be stopped, or it sends heartbeats without progress."""
    DOWN = "down"
    RESTART_LIMIT = "restart_limit"
    FLAPPING = "flapping"
    DISK_LOW = "disk_low"
    DRIVE_UNREACHABLE = "drive_unreachable"
    DATABASE_UNREACHABLE = "database_unreachable"
    INTERRUPTED = "interrupted"
    SUPERVISOR_SILENT = "supervisor_silent"
    DEAF = "deaf"
    REFUSED = "refused"
    """A host of the fleet has refused messages that weren't its hub's."""
    FIRING = "firing"
    STORM = "storm"

    @property
    def word(self) -> str:
        """The condition as people read it: `healthy`, `quarantined`, `drive unreachable`."""
        words = {Condition.WELL: "healthy", Condition.RESTART_LIMIT: "quarantined", Condition.DEAF: "disconnected"}
        return words.get(self, self.value.replace("_", " "))

    @property
    def fine(self) -> bool:
        return self in (Condition.WELL, Condition.PAUSED)

    @property
    def severity(self) -> Severity:
        return Severity.WARNING if self in _WARNINGS else Severity.CRITICAL

    @property
    def rank(self) -> int:
        """The rank; the worse of two conditions has the higher one."""
        return _RANKS[self]


class Severity(StrEnum):
    """It may wait until morning."""

    WARNING = "warning"
    CRITICAL = "critical"


_WARNINGS = frozenset(
    {
        Condition.WELL,
        Condition.PAUSED,
        Condition.DEGRADED,
        Condition.CLOCK_SKEW,
        Condition.FLAPPING,
        Condition.DISK_LOW,
        Condition.INTERRUPTED,
        Condition.DEAF,
    }
)
_RANKS: Mapping[Condition, int] = {condition: rank for rank, condition in enumerate(Condition)}


@dataclass(frozen=True, slots=True)
class Reading:
    """The condition of a target in one observation."""

    condition: Condition
    reason: str
    since: datetime
    held_until: datetime | None = None
    """The time until which it isn't reported, since the worker was just started or will be restarted soon."""
    healing: bool = False
    """True if `held_until` waits for its restart policy."""
    restarts_at: datetime | None = None
    severity: Severity | None = None
    """Its severity, if it doesn't follow from the condition."""


class TargetReading(NamedTuple):
    target: Target
    reading: Reading


def read_condition(status: WorkerStatus, grace: timedelta = timedelta(0)) -> Reading | None:
    """The condition of this worker; None if the observation says nothing new. For `grace` after its start, a running
    worker isn't reported. Until its restart holds it isn't well yet, so that a crash loop is one problem."""
    if status.inactive_reason:
        return Reading(Condition.PAUSED, status.inactive_reason, status.at)
    if status.state is WorkerState.RUNNING:
        return _running(status, grace)
    if status.state is WorkerState.STUCK:
        condition = Condition.UNKNOWN if status.unverifiable else Condition.STUCK
        return Reading(condition, status.verdict.reason, status.at)
    if status.state is WorkerState.QUARANTINED:
        return Reading(Condition.RESTART_LIMIT, str(status.quarantine or ""), status.ended_at or status.at)
    return _not_running(status)


def changes_at(status: WorkerStatus) -> datetime | None:
    """The time at which this worker must be observed again, because its condition may change without an event: its
    start counts as holding, its heartbeat becomes stale, its last progress is too long ago, or its stop by a signal
    counts as frozen."""
    if status.state is not WorkerState.RUNNING:
        return None
    moments = []
    if status.started_at is not None and status.started_at <= LATEST:
        moments.append(status.started_at + timedelta(seconds=status.proven_after_seconds))
    if status.frozen_seconds is not None and status.frozen_seconds < FROZEN_SECONDS:
        moments.append(status.at + timedelta(seconds=FROZEN_SECONDS - status.frozen_seconds))
    if status.max_age_seconds > 0 and status.heartbeat_known:
        beat_at = status.heartbeat.at if status.heartbeat else None
        from_when = max((time for time in (beat_at, status.started_at) if time is not None), default=None)
        late = _limit(status)
        moments += [time + late for time in (from_when, progressed_at(status)) if time is not None and time <= LATEST]
    return min((time for time in moments if time > status.at), default=None)


def _limit(status: WorkerStatus) -> timedelta:
    return timedelta(seconds=status.max_age_seconds + max(status.lag_seconds, 0.0))


NO_PROGRESS = "no progress for"
"""The beginning of the reason of a worker that is alive and gets nowhere."""


def shown_as(condition: Condition, reason: str) -> Condition:
    """The condition to name to people. A worker without progress is degraded, as in its status, although its alert is
    as urgent as that of a stuck one. A worker whose flapping ended in quarantine is down."""
    if condition is Condition.STUCK and reason.startswith(NO_PROGRESS):
        return Condition.DEGRADED
    return Condition.DOWN if condition is Condition.FLAPPING and reason.startswith("quarantined") else condition


def word_for(condition: Condition, reason: str) -> str:
    """The condition as people read it. A worker that isn't to run for another reason than a pause is stopped."""
    if condition is Condition.PAUSED and reason and not reason.startswith("paused"):
        return "stopped"
    return shown_as(condition, reason).word


def _running(status: WorkerStatus, grace: timedelta) -> Reading | None:
    """The condition of a running worker, with its beginning by the worker's and the kernel's times. The reasons have no
    numbers that change with each observation, since people read them long after."""
    verdict, at = status.verdict, status.at
    if status.quarantine:
        return Reading(Condition.RESTART_LIMIT, verdict.reason, at)
    beat, started, progressed = status.heartbeat, status.started_at, progressed_at(status)
    beat_at, limit, reason = beat.at if beat else None, _limit(status), verdict.reason
    max_age = format_span(status.max_age_seconds)
    since = at if beat_at is None or status.probe_failing else beat_at
    match verdict.health:
        case Health.HEALTHY:
            if started is not None and started + timedelta(seconds=status.proven_after_seconds) > at:
                return None
            since = started or at if beat_at is None or status.max_age_seconds == 0 else beat_at
            return Reading(Condition.WELL, reason, min(since, at))
        case Health.STALE:
            condition, reason = Condition.STALE, f"no heartbeat for more than {max_age}"
            since = beat_at + limit if beat_at is not None else at
        case Health.MISSING:
            condition, reason = Condition.MISSING, f"no heartbeat within {max_age} of its start"
            since = started + limit if started is not None else since
            if beat is None and status.heartbeat_file:  # else it is of an earlier process
                reason = (
                    f"{reason}. It must replace {status.heartbeat_file} with {HEARTBEAT_EXAMPLE} and the current time"
                )
            if beat is None:
                key = f"workers.{status.worker.id}.heartbeat_max_age_seconds"
                reason = f"{reason}. If it never writes one, set {key} to 0"
        case Health.FROZEN:
            condition, reason = Condition.FROZEN, "stopped by a signal; SIGCONT resumes it"
            since = at - timedelta(seconds=status.frozen_seconds or 0.0)
        case Health.DEGRADED if verdict.stalled and progressed is not None:
            condition, reason = Condition.STUCK, f"{NO_PROGRESS} {max_age}, although it sends heartbeats"
            since = progressed + limit
        case Health.DEGRADED:
            condition = Condition.DEGRADED
        case Health.UNKNOWN:
            if not status.heartbeat_known:
                return None
            condition = Condition.CLOCK_SKEW
            reason = "its heartbeat is in the future; check the clock of the host that writes it"
    young = started is not None and started + grace > at and condition is not Condition.FROZEN
    return Reading(condition, reason, min(since, at), started + grace if young and started else None)


def _not_running(status: WorkerStatus) -> Reading | None:
    decision, at = status.decision, status.at
    if status.state is WorkerState.STOPPING:
        return None
    if decision is not None and decision.what is Next.REST and decision.reason is RestartReason.ENDED_WELL:
        return Reading(Condition.PAUSED, decision.words, status.ended_at or at)
    if status.start_error:
        text = decision.words if decision is not None else brief(status.start_error)
        return Reading(Condition.DOWN, text, status.ended_at or at)
    if decision is not None and decision.what is Next.REST:
        return Reading(Condition.DOWN, decision.words, status.ended_at or at)
    if decision is None and not status.died:  # it is just being started, and nobody has missed it yet
        return None
    succeeded = status.end is not None and status.end.words == exit_in_words(0)
    if decision is None and succeeded and status.worker.restart.policy == "on-failure":
        return None  # its work is done, as the decision will say
    since = status.ended_at or at
    if decision is not None:  # it waits for its backoff: its last run was short
        return Reading(Condition.DOWN, decision.lasting_words, since, restarts_at=decision.due_at)
    began = status.started_at
    short = began is not None and since - began < timedelta(seconds=HEALTHY_SECONDS)
    held_until = since + timedelta(seconds=DECIDING_SECONDS if short else HEALING_SECONDS)
    text = (status.end and status.end.words) or "its process is gone"
    return Reading(Condition.DOWN, text, since, held_until, healing=True)


GIB = 1024**3

LOW_PERCENT, LOW_BYTES = 5.0, 20 * GIB
"""The disk is nearly full below both: 5 % of a large disk is room for months, and 20 GiB of a small one nearly all."""

LEAST_BYTES = GIB // 2
"""Any disk is nearly full below this: one update with its packages, and a day of logs."""

ENOUGH_AGAIN = 1.25
"""The free space must exceed the limit by this factor to recover, so that an alert doesn't flap."""

SKEWED_LEAST, SKEWED_SHARE = 2, 0.5
"""If one worker's heartbeat is in the future, its code is wrong; if half of them are, the host's clock is."""

INTERRUPTED_FOR = timedelta(days=1)
"""The time for which an interrupted command is reported, unless somebody acknowledges it."""


class DiskSpace(NamedTuple):
    free: int
    total: int


class Outage(NamedTuple):
    """A problem in words, and its beginning."""

    words: str
    since: datetime


class InterruptedCommand(NamedTuple):
    worker_id: str
    words: str
    at: datetime
    acknowledged: bool = False
    """True if somebody has acknowledged it, or its day has passed."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """An observation of a host. A part that could not be observed is None, and its last condition holds."""

    host: str
    at: datetime
    drive: Outage | None = None
    drive_room: DiskSpace | None = None
    disk_room: DiskSpace | None = None
    disk: str = ""
    shared_database: bool = False
    """True if one is configured."""
    database: Outage | None = None
    running: int = 0
    skewed: Collection[str] = ()
    cut_off: Collection[InterruptedCommand] = ()
    silent: Mapping[str, str | None] | None = None
    """Other supervisors that are unresponsive, each with a description. Empty: it responds. None: not heard yet, so its
    last condition holds."""
    known: Mapping[Target, Condition] = field(default_factory=dict)


def read_host(facts: HostFacts) -> list[TargetReading]:
    host, at = facts.host, facts.at
    was_low = {kind: facts.known.get(Target(kind, host)) is Condition.DISK_LOW for kind in (DRIVE, DISK)}
    drive = Reading(Condition.WELL, "the drive responds", at)
    if facts.drive is not None:  # being unreachable is worse than being full
        drive = Reading(Condition.DRIVE_UNREACHABLE, facts.drive.words, facts.drive.since)
    elif facts.drive_room is not None:
        drive = _disk(facts.drive_room, "the drive", at, low=was_low[DRIVE])
    readings = [TargetReading(Target(DRIVE, host), drive)]
    if facts.disk_room is not None:
        reading = _disk(facts.disk_room, facts.disk, at, low=was_low[DISK])
        readings.append(TargetReading(Target(DISK, host), reading))
    if facts.shared_database:
        away = facts.database
        responds = Reading(Condition.WELL, "the shared database responds", at)
        reading = Reading(Condition.DATABASE_UNREACHABLE, away.words, away.since) if away else responds
        readings.append(TargetReading(Target(DATABASE, host), reading))
    skewed = len(facts.skewed)
    clock = Reading(Condition.WELL, "the clock agrees with the workers' heartbeats", at)
    if skewed >= SKEWED_LEAST and skewed >= SKEWED_SHARE * facts.running:
        reason = "worker heartbeats are in the future: the clock was set back. Turn on time synchronization"
        clock = Reading(Condition.CLOCK_SKEW, reason, at)
    readings.append(TargetReading(Target(CLOCK, host), clock))
    return readings + _read_commands_and_supervisors(facts)


def is_skewed(status: WorkerStatus) -> bool:
    return status.state is WorkerState.RUNNING and status.verdict.health is Health.UNKNOWN and status.heartbeat_known


def _disk(room: DiskSpace, location: str, at: datetime, *, low: bool) -> Reading:
    factor = ENOUGH_AGAIN if low else 1.0
    percent = 100.0 * room.free / room.total if room.total else 0.0
    little = percent < LOW_PERCENT * factor and room.free < LOW_BYTES * factor
    if little or room.free < LEAST_BYTES * factor:
        text = f"only {room.free / GIB:.1f} of {room.total / GIB:.1f} GiB free ({location}); free up space"
        return Reading(Condition.DISK_LOW, text, at)
    return Reading(Condition.WELL, f"{room.free / GIB:.1f} GiB free", at)


def _read_commands_and_supervisors(facts: HostFacts) -> list[TargetReading]:
    """The readings of interrupted commands and other supervisors, without those that were well and still are."""
    at = facts.at
    old = Reading(Condition.WELL, "more than a day ago", at)
    others = {target: old for target in facts.known if target.kind == COMMAND}
    for command in facts.cut_off:
        reading = old
        if command.acknowledged:
            reading = Reading(Condition.WELL, "acknowledged", at)
        elif command.at + INTERRUPTED_FOR > at:
            reading = Reading(Condition.INTERRUPTED, command.words, command.at)
        others[Target(COMMAND, command.worker_id)] = reading
    if facts.silent is not None:
        for target in facts.known:
            if target.kind == SUPERVISOR and target.id not in facts.silent:
                others[target] = Reading(Condition.WELL, "it sends heartbeats again, or was stopped or removed", at)
        for name, reason in sorted(facts.silent.items()):
            target = Target(SUPERVISOR, name)
            if reason:
                others[target] = Reading(Condition.SUPERVISOR_SILENT, reason, at)
            elif reason is not None and target in facts.known:
                others[target] = Reading(Condition.WELL, "it responds again", at)
    return [
        TargetReading(target, reading)
        for target, reading in others.items()
        if not (reading.condition.fine and facts.known.get(target, Condition.WELL).fine)
    ]
