"""A worker's condition explained, as values: the facts that were gathered, and the explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from supervisor_core.alerts.flips import Flip
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.phrases import Phrase, WorkerName
from supervisor_core.jobs.model import Job
from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.restarts.policy import WorkerRun
from supervisor_core.workers.status import WorkerStatus

FULL_BYTES = 10_000_000
FULL_PERCENT = 0.5
"""With less free than either, a disk counts as full: programs write in pieces, and can't use root's reserve."""


class Cause(StrEnum):
    WELL = "well"
    UNDER_WAY = "under_way"
    PAUSED = "paused"
    NOT_ENABLED = "not_enabled"
    SET_ASIDE = "set_aside"
    """Quarantined by a person, in the configuration."""
    NOT_KNOWN = "not_known"
    DRIVE_AWAY = "drive_away"
    FROZEN = "frozen"
    STUCK = "stuck"
    CLOCK = "clock"
    DISK_FULL = "disk_full"
    OUT_OF_MEMORY = "out_of_memory"
    KILLED = "killed"
    DEPLOY = "deploy"
    CONFIGURATION = "configuration"
    NOT_STARTABLE = "not_startable"
    QUARANTINED = "quarantined"
    MONITORING_PAUSED = "monitoring_paused"
    ENDED_WELL = "ended_well"
    NOT_RESTARTED = "not_restarted"
    DIED = "died"
    NOT_RUNNING = "not_running"
    PROBE = "probe"
    SAYS_SO = "says_so"
    NO_PROGRESS = "no_progress"
    """It beats, and gets nowhere with the work that it has."""
    HUNG = "hung"
    SILENT = "silent"
    BACK = "back"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class KnownPause:
    """The author of a pause; empty for a flag made by hand."""

    by: Issuer | None = None
    at: datetime | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that the worker or we write to."""

    what: str
    """`the state folder`, `the drive`."""
    path: str
    free_bytes: int
    percent_free: float

    @property
    def free(self) -> str:
        size = self.free_bytes
        return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size} bytes"

    @property
    def full(self) -> bool:
        return self.free_bytes < FULL_BYTES or self.percent_free < FULL_PERCENT


@dataclass(frozen=True, slots=True)
class RecentChange:
    """A command that changed the code that the worker runs from, and what came of watching it after that."""

    job: Job
    at: datetime
    """The time it ended."""
    asked_for: str
    """The worker whose command it was: itself, unless several share a checkout."""
    baked: BakeState | None = None
    reason: str = ""
    undone: bool = False
    undoable: bool = False


@dataclass(frozen=True, slots=True)
class RecentConfiguration:
    """A configuration that restarts, starts or stops the worker."""

    by: Issuer
    begun_at: datetime
    changes: tuple[str, ...]
    """By name, those of this worker first."""
    config_id: str


@dataclass(frozen=True, slots=True)
class Circumstance:
    """A condition and its start; None if unknown."""

    words: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """The known facts about one worker at one moment. Unavailable ones are empty, and `unknown` names them."""

    worker_id: str
    at: datetime
    state: WorkerState
    """As `status` says it, with what is in hand, as the next three."""
    health: Health
    reason: str
    fine: bool
    seen: WorkerStatus
    paused: KnownPause | None = None
    given_up: str = ""
    """The reason of the quarantine, in words."""
    given_up_at: datetime | None = None
    survivors: tuple[str, ...] = ()
    """Processes that could not be ended."""
    start_error: str = ""
    due_at: datetime | None = None
    """The time of the next automatic restart."""
    drive: str = ""
    """Its path."""
    drive_problem: str = ""
    """The reason why it can't be reached; empty if it can."""
    disks: tuple[Disk, ...] = ()
    lives: tuple[WorkerRun, ...] = ()
    """The runs that exited on their own, the newest last."""
    starts: int = 0
    """The number of automatic restarts within the last hour."""
    policy: str = ""
    resting: str = ""
    """The reason why monitoring is paused; empty if it isn't."""
    resting_by: Issuer | None = None
    resting_since: datetime | None = None
    since: datetime | None = None
    """The start of the recorded condition."""
    alerts: tuple[Circumstance, ...] = ()
    """The alerts about it that Alertmanager says are firing."""
    flips: tuple[Flip, ...] = ()
    jobs: tuple[Job, ...] = ()
    change: RecentChange | None = None
    """The newest change of its code."""
    settings: RecentConfiguration | None = None
    """The newest configuration that affected it."""
    lines: tuple[str, ...] = ()
    """The end of what one process of it wrote, the one that the problem is about, without secrets."""
    log: str = ""
    """The path of its log."""
    heartbeat_file: str | None = None
    """The file that it must replace regularly; None if no heartbeat is expected from it."""
    unknown: tuple[str, ...] = ()
    """The facts that are unavailable, with the reason."""

    @property
    def name(self) -> WorkerName:
        return WorkerName(self.worker_id)

    @property
    def bare_reason(self) -> str:
        return self.reason.removeprefix("running, but ")

    @property
    def runs(self) -> bool:
        """True if its process exists."""
        return self.seen.state is WorkerState.RUNNING

    @property
    def last(self) -> WorkerRun | None:
        """Its newest exit, unless it was started since and runs."""
        return self.lives[-1] if self.lives else None

    @property
    def failed_runs(self) -> Sequence[WorkerRun]:
        """The newest runs that ended badly in a row, without a person's start or a good end between them."""
        row: list[WorkerRun] = []
        for run in reversed(self.lives):
            if not run.failed:
                break
            row.insert(0, run)
            if run.start_asked:
                break
        return row

    @property
    def failed_since(self) -> datetime | None:
        """The first of these failures; None without one."""
        row = self.failed_runs
        return row[0].ended_at if row else None

    @property
    def trouble_since(self) -> datetime | None:
        """The start of the problem, as far as known."""
        return self.unwell_since if self.runs else self.failed_since

    @property
    def unwell_since(self) -> datetime | None:
        """The time a running worker became unhealthy: as recorded, else by its heartbeat and the kernel."""
        if self.since is not None:
            return self.since
        seen, limit = self.seen, timedelta(seconds=self.seen.max_age_seconds)
        if self.health is Health.FROZEN and seen.frozen_seconds is not None:
            return self.at - timedelta(seconds=seen.frozen_seconds)
        if self.health is Health.STALE and seen.heartbeat and seen.heartbeat.at:
            return seen.heartbeat.at + limit
        if self.health is Health.MISSING and seen.started_at:
            return seen.started_at + limit
        return seen.heartbeat.at if self.health is Health.DEGRADED and seen.heartbeat else None


@dataclass(frozen=True, slots=True)
class PastEvent:
    at: datetime
    words: Phrase
    """The event with its author and outcome."""


@dataclass(frozen=True, slots=True)
class Finding:
    cause: Cause
    sentence: Phrase
    """Names the cause; without the stop at its end."""
    todo: Phrase = ()
    """The steps for a person, in sentences; empty if there are none."""
    remedies: tuple[Command, ...] = ()
    """Commands that do it, the first first."""
    since: datetime | None = None
    """The start of the problem, as far as known."""
    also: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    worker_id: str
    at: datetime
    fine: bool
    found: Finding
    conditions: tuple[Circumstance, ...] = ()
    before: tuple[PastEvent, ...] = ()
    """Oldest first."""
    lines: tuple[str, ...] = ()
    log: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def cause(self) -> Cause:
        return self.found.cause
