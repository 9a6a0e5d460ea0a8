"""The conditions of a host, decided purely from observations of its drive, disk, clock, shared database and peers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from supervisor_core.workers.conditions.rules import (
    CLOCK,
    COMMAND,
    DATABASE,
    DISK,
    DRIVE,
    SUPERVISOR,
    Condition,
    Reading,
    Target,
    TargetReading,
)
from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.status import WorkerStatus

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
    seen_to: bool = False
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
        well = Reading(Condition.WELL, "the shared database responds", at)
        reading = Reading(Condition.DATABASE_UNREACHABLE, away.words, away.since) if away else well
        readings.append(TargetReading(Target(DATABASE, host), reading))
    skewed = len(facts.skewed)
    clock = Reading(Condition.WELL, "the clock agrees with the workers' heartbeats", at)
    if skewed >= SKEWED_LEAST and skewed >= SKEWED_SHARE * facts.running:
        words = "worker heartbeats are in the future: the clock was set back. Turn on time synchronization"
        clock = Reading(Condition.CLOCK_SKEW, words, at)
    readings.append(TargetReading(Target(CLOCK, host), clock))
    return [*readings, *_read_commands(facts), *_read_supervisors(facts)]


def is_skewed(status: WorkerStatus) -> bool:
    return status.state is WorkerState.RUNNING and status.verdict.health is Health.UNKNOWN and status.heartbeat_known


def _disk(room: DiskSpace, where: str, at: datetime, *, low: bool) -> Reading:
    factor = ENOUGH_AGAIN if low else 1.0
    percent = 100.0 * room.free / room.total if room.total else 0.0
    little = percent < LOW_PERCENT * factor and room.free < LOW_BYTES * factor
    if little or room.free < LEAST_BYTES * factor:
        words = f"only {room.free / GIB:.1f} of {room.total / GIB:.1f} GiB free ({where}); free up space"
        return Reading(Condition.DISK_LOW, words, at)
    return Reading(Condition.WELL, f"{room.free / GIB:.1f} GiB free", at)


def _read_commands(facts: HostFacts) -> list[TargetReading]:
    """The interrupted commands, and those that were reported and are acknowledged or older than a day."""
    old = Reading(Condition.WELL, "more than a day ago", facts.at)
    readings = {target: old for target in facts.known if target.kind == COMMAND}
    for command in facts.cut_off:
        reading = old
        if command.seen_to:
            reading = Reading(Condition.WELL, "acknowledged", facts.at)
        elif command.at + INTERRUPTED_FOR > facts.at:
            reading = Reading(Condition.INTERRUPTED, command.words, command.at)
        readings[Target(COMMAND, command.worker_id)] = reading
    return _news(facts, readings)


def _read_supervisors(facts: HostFacts) -> list[TargetReading]:
    silent = facts.silent or {}
    well = "it sends heartbeats again, or was stopped or removed"
    readings = {
        target: Reading(Condition.WELL, silent.get(target.id, well) or "it responds again", facts.at)
        for target in facts.known
        if target.kind == SUPERVISOR and silent.get(target.id, well) is not None
    }
    for name, words in sorted(silent.items()):
        if words:
            readings[Target(SUPERVISOR, name)] = Reading(Condition.SUPERVISOR_SILENT, words, facts.at)
    return _news(facts, readings) if facts.silent is not None else []


def _news(facts: HostFacts, readings: Mapping[Target, Reading]) -> list[TargetReading]:
    return [
        TargetReading(target, reading)
        for target, reading in readings.items()
        if not (reading.condition.fine and facts.known.get(target, Condition.WELL).fine)
    ]
