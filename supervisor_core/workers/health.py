"""The health of a worker, decided purely from an observation and one `now`; only known facts count against it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from supervisor_core.common.text import one_line
from supervisor_core.common.times import require_aware

GOOD_WORDS = frozenset({"running", "healthy", "ok", "idle", "busy"})
LONGEST_SAID = 300
"""So many characters of what a worker says about itself are repeated to people."""

SKEW_SECONDS = 5.0
"""A heartbeat may be this far in the future: clocks that are kept in step differ by less."""

FROZEN_SECONDS = 10.0
"""A process that is stopped by a signal for so long is frozen; a debugger, or a stop of ours, is done before."""

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
    """A worker's last word about itself. `at` is None where nobody knows when that was."""

    status: str
    at: datetime | None
    error: str = ""
    pid: int | None = None
    hostname: str = ""
    poll_seconds: float | None = None
    progress: datetime | None = None
    """The time at which it last got somewhere with the work that it has; None where it has none, or does not tell."""


class Observation(NamedTuple):
    """The facts about a worker that its health is decided from."""

    state: WorkerState
    paused: bool = False
    enabled: bool = True
    quarantined: bool = False
    """By the configuration: one that runs goes on, and is not started again."""
    quarantine: str = ""
    """Why it was given up after it could not live; empty where it was not."""
    unverifiable: str = ""
    """Why nobody can tell whether it runs, and what to do; empty where somebody can."""
    frozen_seconds: float | None = None
    """For how long it is known to be stopped by a signal; None where it is not."""
    started_at: datetime | None = None
    resumed_at: datetime | None = None
    """Since when it is no longer paused; None where it never was."""
    heartbeat: Heartbeat | None = None
    heartbeat_known: bool = True
    """False while the drive can't be asked."""
    max_age_seconds: float = 300.0
    """0: none is expected."""
    pid: int | None = None
    """The running process."""
    others: tuple[int, ...] = ()
    """Further processes that look like the same worker, beside the running one."""
    probe_failing: str = ""
    """Which probe fails and how, in words; empty where all are fine, or none is asked."""
    lag_seconds: float = 0.0
    """For how long of late nothing was scheduled here: the host was suspended, or too busy, or we were stopped."""


class Verdict(NamedTuple):
    """A word for programs, a reason for people, and whether somebody should look."""

    health: Health
    reason: str
    fine: bool
    stalled: bool = False
    """It is alive and says so, and gets nowhere."""


def read_heartbeat(document: Mapping[str, Any], file_time: datetime | None = None) -> Heartbeat:
    """A heartbeat file's content as a value. Its time is `utc`, else `timestamp`, else that of the file."""
    told = (_error(document.get(key)) for key in ("error", "last_error", "errors"))
    at = _moment(document, "utc", "timestamp") or file_time
    return Heartbeat(
        status=_said(document.get("status") or ""),
        at=at,
        error=next((words for words in told if words), ""),
        pid=_pid(document.get("pid")),
        hostname=_said(document.get("hostname") or ""),
        poll_seconds=_seconds(document.get("poll_seconds")),
        progress=_progress(document, at),
    )


def health(seen: Observation, now: datetime) -> Verdict:
    """The one place that says how a worker is."""
    if seen.state is not WorkerState.RUNNING:
        return _not_running(seen)
    verdict = _running(seen, now)
    if seen.others:
        known = verdict.health in (Health.HEALTHY, Health.UNKNOWN)  # else it has worse than copies
        worse = Health.DEGRADED if known else verdict.health
        verdict = verdict._replace(health=worse, reason=f"{verdict.reason}; {_copies(seen)}", fine=False)
    if seen.quarantined:
        verdict = verdict._replace(reason=f"{verdict.reason}; quarantined in the configuration, so not restarted")
    if seen.quarantine:  # it would not come back if it ended now
        verdict = verdict._replace(reason=f"{verdict.reason}; {seen.quarantine}", fine=False)
    return verdict._replace(reason=f"paused; {verdict.reason}") if seen.paused else verdict


def progressed_at(seen: Observation) -> datetime | None:
    """From when on its time without progress counts; None where it has nothing to do, or does not tell.

    Before its start and while it was paused it could not get anywhere.
    """
    last = seen.heartbeat.progress if seen.heartbeat else None
    if last is None or seen.paused:
        return None
    return max(each for each in (last, seen.started_at, seen.resumed_at) if each is not None)


def is_watcher_healthy(
    heartbeat: Heartbeat | Mapping[str, Any] | None, now: datetime, max_age_seconds: float = 300.0
) -> bool:
    """True if a running worker with this heartbeat, as a value or as it was read, is healthy."""
    beat = heartbeat if heartbeat is None or isinstance(heartbeat, Heartbeat) else read_heartbeat(heartbeat)
    seen = Observation(WorkerState.RUNNING, heartbeat=beat, max_age_seconds=max_age_seconds)
    return _by_heartbeat(seen, now).health is Health.HEALTHY


def _not_running(seen: Observation) -> Verdict:
    if seen.state is WorkerState.STUCK:
        return Verdict(Health.UNKNOWN, seen.unverifiable or "some of its processes can't be killed", False)
    if seen.state in (WorkerState.STARTING, WorkerState.STOPPING):
        return Verdict(Health.UNKNOWN, str(seen.state), True)
    if seen.state is WorkerState.QUARANTINED:
        both = "paused; " if seen.paused else ""
        if seen.quarantine:
            return Verdict(Health.MISSING, f"{both}{seen.quarantine}", False)
        return Verdict(Health.UNKNOWN, f"{both}quarantined in the configuration", True)
    if seen.paused:
        return Verdict(Health.UNKNOWN, "paused", True)
    if not seen.enabled:
        return Verdict(Health.UNKNOWN, "not enabled in the configuration", True)
    return Verdict(Health.MISSING, "not running, but should be", False)


def _copies(seen: Observation) -> str:
    pids = " and ".join(f"pid {pid}" for pid in seen.others)
    return f"running more than once (also {pids}); pause stops every copy"


def _running(seen: Observation, now: datetime) -> Verdict:
    frozen = seen.frozen_seconds
    if frozen is not None and frozen >= FROZEN_SECONDS:
        reason = f"stopped by a signal for {frozen:.0f} s; SIGCONT continues it"
        return Verdict(Health.FROZEN, reason, False)
    if seen.max_age_seconds == 0:
        verdict = Verdict(Health.HEALTHY, "running", True)
    elif not seen.heartbeat_known:
        verdict = Verdict(Health.UNKNOWN, "running, but its heartbeat can't be read: the drive is unreachable", False)
    else:
        verdict = _by_heartbeat(seen, now)
    if seen.probe_failing:
        verdict = _with_probe(verdict, seen.probe_failing)
    if frozen is None:
        return verdict
    return verdict._replace(reason=f"{verdict.reason}; stopped by a signal for {frozen:.0f} s")


def _with_probe(verdict: Verdict, words: str) -> Verdict:
    """A silent worker keeps its word, which says more; any other is degraded."""
    silent = verdict.health in (Health.STALE, Health.MISSING)
    reason = words if verdict.fine else f"{verdict.reason}; {words}"
    return verdict._replace(health=verdict.health if silent else Health.DEGRADED, reason=reason, fine=False)


def _by_heartbeat(seen: Observation, now: datetime) -> Verdict:
    beat, limit = seen.heartbeat, seen.max_age_seconds
    if beat is None or beat.at is None:
        return _without_beat(seen, now, "no heartbeat")
    age = (now - beat.at).total_seconds()
    if age < -SKEW_SECONDS:
        return Verdict(
            Health.UNKNOWN,
            f"its heartbeat is {-age:.0f} s in the future; check the clock of the host that writes it",
            False,
        )
    if not _is_its_own(seen, beat, beat.at, now):
        return _without_beat(seen, now, "no heartbeat of its own")
    lag = max(seen.lag_seconds, 0.0)
    off = f", without {lag:.0f} s in which this host was suspended or busy" if lag else ""
    if age - lag >= limit:
        reason = f"last heartbeat {age:.0f} s ago{off} (limit {limit:.0f} s)"
        return Verdict(Health.STALE, reason, False)
    if beat.error:
        return Verdict(Health.DEGRADED, f"reports an error: {beat.error}", False)
    if beat.status.lower() not in GOOD_WORDS and not _rests_rightly(seen, beat.status, beat.at):
        return Verdict(Health.DEGRADED, f"reports the status {beat.status!r}{_why_paused(beat.status)}", False)
    progressed = progressed_at(seen)
    idle = (now - progressed).total_seconds() if progressed else 0.0
    if progressed and idle - lag >= limit:
        reason = f"made no progress for {idle:.0f} s{off} (limit {limit:.0f} s)"
        return Verdict(Health.DEGRADED, reason, False, stalled=True)
    excused = f"; this host was suspended or busy for {lag:.0f} s" if age >= limit else ""
    return Verdict(Health.HEALTHY, f"running, heartbeat {max(age, 0):.0f} s ago{excused}", True)


def _without_beat(seen: Observation, now: datetime, missing: str) -> Verdict:
    """It has said nothing yet: that is waited for as long as a heartbeat may be old."""
    if seen.started_at is None:
        return Verdict(Health.MISSING, missing, False)
    lived = (now - seen.started_at).total_seconds()
    if lived < -SKEW_SECONDS:
        return Verdict(
            Health.UNKNOWN, f"{missing}, and it started {-lived:.0f} s in the future; check the clock", False
        )
    if lived - max(seen.lag_seconds, 0.0) < seen.max_age_seconds:
        return Verdict(Health.HEALTHY, "waiting for its first heartbeat", True)
    return Verdict(Health.MISSING, f"{missing} since it started {lived:.0f} s ago", False)


def _is_its_own(seen: Observation, beat: Heartbeat, at: datetime, now: datetime) -> bool:
    """True if this process said it, and not one that was there before it: the time decides.

    Another PID alone proves nothing. The beat is often written by a child (the launcher of a venv on Windows is the
    process that we started, and Python its child), or comes from within a container, where PIDs are others. So a PID
    can only help: a beat whose time has whole seconds may lie in the second of the start, a little before it.
    """
    start = seen.started_at
    if start is None or at >= start or (now - start).total_seconds() < -SKEW_SECONDS:
        return True
    same = beat.pid is not None and beat.pid == seen.pid
    return same and at.microsecond == 0 and at == start.replace(microsecond=0)


def _rests_rightly(seen: Observation, status: str, at: datetime) -> bool:
    """True if it says that it is paused, and is, or was when it said so: its next beat tells that it works again."""
    return status.lower() == "paused" and (seen.paused or (seen.resumed_at is not None and at <= seen.resumed_at))


def _why_paused(status: str) -> str:
    """A hint for a worker that rests without a pause: something may lie in the place of its pause flag."""
    return (
        ", but isn't paused; check its pause flag on the drive, or remove it with resume"
        if status.lower() == "paused"
        else ""
    )


def _progress(document: Mapping[str, Any], said: datetime | None) -> datetime | None:
    """When it last got somewhere. What nobody can have known when the heartbeat was written tells nothing."""
    if not isinstance(document.get("progress_utc"), str):
        return None
    moment = _moment(document, "progress_utc")
    known = moment is not None and said is not None and (moment - said).total_seconds() <= SKEW_SECONDS
    return moment if known else None


def _moment(document: Mapping[str, Any], *keys: str) -> datetime | None:
    for key in keys:
        try:
            moment = datetime.fromisoformat(str(document[key]))
            return require_aware(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except (KeyError, ValueError, RecursionError):
            continue
    return None


def _said(value: object) -> str:
    """The worker's words in one line: they may be anything that JSON can hold."""
    try:
        return one_line(str(value), LONGEST_SAID)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list in a list in a list
        return "something that can't be shown"


def _error(value: object) -> str:
    """The error by one of its keys; empty without one."""
    entries = value if isinstance(value, list) else [value]
    told = (entry for entry in entries if (entry.strip() if isinstance(entry, str) else entry))
    return one_line("; ".join(map(_said, told)), LONGEST_SAID)


def _pid(value: object) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_PID
    return value if right and isinstance(value, int) else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if 0 <= value < LARGEST_PID else None  # a NaN is neither
    except OverflowError:
        return None


SILENT = frozenset({Health.STALE, Health.MISSING})


def hangs(seen: Observation, now: datetime) -> str:
    """Why this running worker counts as hung, in words; empty where it does not, or nobody knows.

    A paused one never does. With the drive away only a process that is stopped by a signal does: the heartbeat can't
    be read, and a probe that fails may itself wait for the drive, as the start of a successor would.
    """
    if seen.state is not WorkerState.RUNNING or seen.paused:
        return ""
    verdict = health(seen, now)
    if verdict.health is Health.FROZEN:
        return verdict.reason
    if not seen.heartbeat_known:
        return ""
    return verdict.reason if verdict.health in SILENT or seen.probe_failing else ""
