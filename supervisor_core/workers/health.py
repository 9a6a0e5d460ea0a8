"""The health of a worker, decided purely from its status and one `now`; only known facts count against it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from supervisor_core.common.text import one_line
from supervisor_core.common.times import format_span, require_aware

if TYPE_CHECKING:
    from supervisor_core.workers.status import WorkerStatus

HEARTBEAT_EXAMPLE = '{"status": "running", "utc": "2026-02-05T14:30:00Z"}'
"""The least that a heartbeat file must have; `utc` is the time of writing."""

GOOD_WORDS = frozenset({"running", "healthy", "ok", "idle", "busy"})
LONGEST_SAID = 300
"""The most characters of a worker's own words that people are shown."""

SKEW_SECONDS = 5.0
"""The time by which a heartbeat may be in the future; synchronized clocks differ by less."""

FROZEN_SECONDS = 10.0
"""The time after which a process stopped by a signal is frozen. A debugger, or a stop by us, is shorter."""

LARGEST_PID = 2**31 - 1
"""The limit of the tables' column; no system has larger ones."""


class Health(StrEnum):
    """The words of `status`."""

    HEALTHY = "healthy"
    """Running, with a fresh heartbeat if one is expected, and passing probes."""
    STALE = "stale"
    """The heartbeat is older than `heartbeat_max_age_seconds`."""
    DEGRADED = "degraded"
    """The heartbeat reports an error or an unknown status, or a probe fails."""
    MISSING = "missing"
    """Not running although it should be, or running and still without a heartbeat after `heartbeat_max_age_seconds`."""
    UNKNOWN = "unknown"
    """Paused, disabled, starting or stopping; or it can't be told, such as while the drive is away."""
    FROZEN = "frozen"
    """The process has been stopped by a signal, such as SIGSTOP, for 10 s."""


class WorkerState(StrEnum):
    """The state in a worker's life cycle."""

    STOPPED = "stopped"
    """No process of the worker exists."""
    STARTING = "starting"
    """The worker is being started."""
    RUNNING = "running"
    """The worker runs."""
    STOPPING = "stopping"
    """The worker is being stopped."""
    STUCK = "stuck"
    """A process can't be stopped, or may be a second copy. Somebody must look."""
    BACKING_OFF = "backing_off"
    """The worker waits for its next automatic restart."""
    QUARANTINED = "quarantined"
    """The worker isn't restarted automatically, after too many restarts or by its configuration."""


class Heartbeat(NamedTuple):
    """A worker's last heartbeat. `at` is None if its time is unknown."""

    status: str
    at: datetime | None
    error: str = ""
    pid: int | None = None
    hostname: str = ""
    poll_seconds: float | None = None
    progress: datetime | None = None
    """The time of its last progress; None if it has no work or doesn't report it."""


class Verdict(NamedTuple):
    """A word for programs, a reason for people, and whether it needs attention."""

    health: Health
    reason: str
    fine: bool
    stalled: bool = False
    """It sends heartbeats without progress."""


SILENT = frozenset({Health.STALE, Health.MISSING})


def read_heartbeat(document: Mapping[str, Any], file_time: datetime | None = None) -> Heartbeat:
    """The content of a heartbeat file as a value. Its time is `utc`, else `timestamp`, else the file's."""
    at = _parse_time(document, "utc", "timestamp") or file_time
    progress = _parse_time(document, "progress_utc") if isinstance(document.get("progress_utc"), str) else None
    if progress and (at is None or (progress - at).total_seconds() > SKEW_SECONDS):
        progress = None
    error = ""
    for value in map(document.get, ("error", "last_error", "errors")):
        entries = value if isinstance(value, list) else [value]
        texts = [_one_line(entry) for entry in entries if (entry.strip() if isinstance(entry, str) else entry)]
        error = error or one_line("; ".join(texts), LONGEST_SAID)
    pid, poll = document.get("pid"), document.get("poll_seconds")
    has_pid = isinstance(pid, int) and not isinstance(pid, bool) and 0 < pid <= LARGEST_PID
    has_poll = isinstance(poll, int | float) and not isinstance(poll, bool) and 0 <= poll < LARGEST_PID  # nor a NaN
    return Heartbeat(
        status=_one_line(document.get("status") or ""),
        at=at,
        error=error,
        pid=pid if has_pid else None,
        hostname=_one_line(document.get("hostname") or ""),
        poll_seconds=float(poll) if has_poll and poll is not None else None,
        progress=progress,
    )


def health(status: WorkerStatus, now: datetime) -> Verdict:
    """The health of a worker, decided here alone."""
    if status.state is not WorkerState.RUNNING:
        return _not_running(status)
    verdict = _running(status, now)
    if status.others:
        known = verdict.health in (Health.HEALTHY, Health.UNKNOWN)  # else it has worse than copies
        pids = " and ".join(f"pid {pid}" for pid in status.others)
        reason = f"{verdict.reason}; running more than once (also {pids}); pause stops every copy"
        verdict = verdict._replace(health=Health.DEGRADED if known else verdict.health, reason=reason, fine=False)
    if status.quarantined:
        verdict = verdict._replace(reason=f"{verdict.reason}; quarantined in the configuration, so not restarted")
    if status.quarantine:  # it would not come back if it ended now
        verdict = verdict._replace(reason=f"{verdict.reason}; {status.quarantine}", fine=False)
    return verdict._replace(reason=f"paused; {verdict.reason}") if status.paused else verdict


def progressed_at(status: WorkerStatus) -> datetime | None:
    """The time from which missing progress counts; None if it has no work or doesn't report progress.

    The time before its start and during a pause doesn't count.
    """
    last = status.heartbeat.progress if status.heartbeat else None
    if last is None or status.paused:
        return None
    return max(time for time in (last, status.started_at, status.resumed_at) if time is not None)


def is_watcher_healthy(
    heartbeat: Heartbeat | Mapping[str, Any] | None, now: datetime, max_age_seconds: float = 300.0
) -> bool:
    """True if a running worker with this heartbeat, as a value or as it was read, is healthy."""
    beat = heartbeat if heartbeat is None or isinstance(heartbeat, Heartbeat) else read_heartbeat(heartbeat)
    from supervisor_core.config.worker_settings import WorkerSettings  # late: a status knows its health
    from supervisor_core.processes.finding import FoundWorker, Presence
    from supervisor_core.workers.status import WorkerStatus

    worker = WorkerSettings(command=("",), heartbeat_max_age_seconds=max_age_seconds)
    status = WorkerStatus(worker, now, WorkerState.RUNNING, FoundWorker("", Presence.RUNNING), heartbeat=beat)
    return _by_heartbeat(status, now).health is Health.HEALTHY


def _not_running(status: WorkerStatus) -> Verdict:
    if status.state is WorkerState.STUCK:
        return Verdict(Health.UNKNOWN, status.unverifiable or "some of its processes can't be killed", False)
    if status.state in (WorkerState.STARTING, WorkerState.STOPPING):
        return Verdict(Health.UNKNOWN, str(status.state), True)
    if status.state is WorkerState.QUARANTINED:
        prefix = "paused; " if status.paused else ""
        if status.quarantine:
            return Verdict(Health.MISSING, f"{prefix}{status.quarantine}", False)
        return Verdict(Health.UNKNOWN, f"{prefix}quarantined in the configuration", True)
    if status.paused:
        return Verdict(Health.UNKNOWN, "paused", True)
    if not status.enabled:
        return Verdict(Health.UNKNOWN, "not enabled in the configuration", True)
    return Verdict(Health.MISSING, "not running, but should be", False)


def _running(status: WorkerStatus, now: datetime) -> Verdict:
    frozen = status.frozen_seconds
    if frozen is not None and frozen >= FROZEN_SECONDS:
        reason = f"stopped by a signal for {frozen:.0f} s; SIGCONT resumes it"
        return Verdict(Health.FROZEN, reason, False)
    if status.max_age_seconds == 0:
        verdict = Verdict(Health.HEALTHY, "running", True)
    elif not status.heartbeat_known:
        verdict = Verdict(Health.UNKNOWN, "running, but its heartbeat can't be read: the drive is unreachable", False)
    else:
        verdict = _by_heartbeat(status, now)
    if status.probe_failing:
        # A stale worker keeps its verdict, which says more; any other is degraded.
        reason = status.probe_failing if verdict.fine else f"{verdict.reason}; {status.probe_failing}"
        condition = verdict.health if verdict.health in SILENT else Health.DEGRADED
        verdict = verdict._replace(health=condition, reason=reason, fine=False)
    if frozen is None:
        return verdict
    return verdict._replace(reason=f"{verdict.reason}; stopped by a signal for {frozen:.0f} s")


def _by_heartbeat(status: WorkerStatus, now: datetime) -> Verdict:
    beat, limit = status.heartbeat, status.max_age_seconds
    if beat is None or beat.at is None:
        return _without_beat(status, now, "no heartbeat")
    age = (now - beat.at).total_seconds()
    if age < -SKEW_SECONDS:
        return Verdict(
            Health.UNKNOWN,
            f"its heartbeat is {-age:.0f} s in the future; check the clock of the host that writes it",
            False,
        )
    if not _is_its_own(status, beat, beat.at, now):
        return _without_beat(status, now, "no heartbeat of its own")
    lag = max(status.lag_seconds, 0.0)
    off = f", without {lag:.0f} s in which this host was suspended or busy" if lag else ""
    if age - lag >= limit:
        reason = f"last heartbeat {format_span(age)} ago{off} (limit {format_span(limit)})"
        return Verdict(Health.STALE, reason, False)
    if beat.error:
        return Verdict(Health.DEGRADED, f"reports an error: {beat.error}", False)
    says_paused = beat.status.lower() == "paused"
    # One that is paused, or was at that time, reports it rightly: its next heartbeat will differ.
    is_paused = status.paused or (status.resumed_at is not None and beat.at <= status.resumed_at)
    if beat.status.lower() not in GOOD_WORDS and not (says_paused and is_paused):
        hint = ", but isn't paused; check its pause flag on the drive, or remove it with resume" if says_paused else ""
        return Verdict(Health.DEGRADED, f"reports the status {beat.status!r}{hint}", False)
    progressed = progressed_at(status)
    idle = (now - progressed).total_seconds() if progressed else 0.0
    if progressed and idle - lag >= limit:
        reason = f"made no progress for {format_span(idle)}{off} (limit {format_span(limit)})"
        return Verdict(Health.DEGRADED, reason, False, stalled=True)
    excused = f"; this host was suspended or busy for {lag:.0f} s" if age >= limit else ""
    return Verdict(Health.HEALTHY, f"running, heartbeat {max(age, 0):.0f} s ago{excused}", True)


def _without_beat(status: WorkerStatus, now: datetime, missing: str) -> Verdict:
    """The verdict without a heartbeat: it has as much time as a heartbeat may be old."""
    if status.started_at is None:
        return Verdict(Health.MISSING, missing, False)
    age = (now - status.started_at).total_seconds()
    if age < -SKEW_SECONDS:
        return Verdict(Health.UNKNOWN, f"{missing}, and it started {-age:.0f} s in the future; check the clock", False)
    if age - max(status.lag_seconds, 0.0) < status.max_age_seconds:
        return Verdict(Health.HEALTHY, "waiting for its first heartbeat", True)
    return Verdict(Health.MISSING, f"{missing} since it started {format_span(age)} ago", False)


def _is_its_own(status: WorkerStatus, beat: Heartbeat, at: datetime, now: datetime) -> bool:
    """True if this process wrote the heartbeat, and not an earlier one. The time decides.

    A different PID proves nothing: a child may write it (on Windows, we start the launcher of a venv, and Python is its
    child), or a process in a container, where PIDs differ. An equal PID helps: a heartbeat whose time has whole seconds
    may seem to be written slightly before the start.
    """
    start = status.started_at
    if start is None or at >= start or (now - start).total_seconds() < -SKEW_SECONDS:
        return True
    same = beat.pid is not None and beat.pid == status.pid
    return same and at.microsecond == 0 and at == start.replace(microsecond=0)


def _parse_time(document: Mapping[str, Any], *keys: str) -> datetime | None:
    for key in keys:
        try:
            time = datetime.fromisoformat(str(document[key]))
            return require_aware(time if time.tzinfo else time.replace(tzinfo=UTC))
        except (KeyError, ValueError, RecursionError):
            continue
    return None


def _one_line(value: object) -> str:
    """The worker's words in one line. They may be any JSON."""
    try:
        return one_line(str(value), LONGEST_SAID)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list in a list in a list
        return "something that can't be shown"
