"""How a worker is, decided purely: from what was observed and one `now`, to a word and its reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from supervisor_core.domain.texts import one_line
from supervisor_core.domain.times import require_aware

GOOD_WORDS = frozenset({"running", "healthy", "ok", "idle", "busy"})
LONGEST_SAID = 300
"""So many characters of what a worker says about itself are repeated to people."""

SKEW_SECONDS = 5.0
"""A heartbeat may be this far in the future: clocks that are kept in step differ by less."""

FROZEN_SECONDS = 10.0
"""A process that is stopped by a signal for so long is frozen; a debugger, or a stop of ours, is done before."""

LARGEST_PID = 2**31 - 1
"""What a column of the tables holds; no system has larger ones."""


class Health(StrEnum):
    """The words of `status`."""

    HEALTHY = "healthy"
    STALE = "stale"
    DEGRADED = "degraded"
    MISSING = "missing"
    UNKNOWN = "unknown"
    FROZEN = "frozen"


class WorkerState(StrEnum):
    """Where a worker's life stands."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STUCK = "stuck"
    BACKING_OFF = "backing_off"
    QUARANTINED = "quarantined"


class Heartbeat(NamedTuple):
    """A worker's last word about itself. `at` is None where nobody knows when that was."""

    status: str
    at: datetime | None
    error: str = ""
    pid: int | None = None
    hostname: str = ""
    poll_seconds: float | None = None


class Observation(NamedTuple):
    """What was seen of a worker."""

    state: WorkerState
    paused: bool = False
    enabled: bool = True
    quarantine: str = ""
    """Why it was given up after it could not live; empty where it was not."""
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


class Verdict(NamedTuple):
    """A word for programs, a reason for people, and whether somebody should look."""

    health: Health
    reason: str
    fine: bool


def read_heartbeat(document: Mapping[str, Any], file_time: datetime | None = None) -> Heartbeat:
    """A heartbeat file's content as a value. Its time is `utc`, else `timestamp`, else that of the file."""
    told = (_error(document.get(key)) for key in ("error", "last_error", "errors"))
    return Heartbeat(
        status=_said(document.get("status") or ""),
        at=_moment(document) or file_time,
        error=next((words for words in told if words), ""),
        pid=_pid(document.get("pid")),
        hostname=_said(document.get("hostname") or ""),
        poll_seconds=_seconds(document.get("poll_seconds")),
    )


def health(seen: Observation, now: datetime) -> Verdict:
    """The one place that says how a worker is."""
    if seen.state is not WorkerState.RUNNING:
        return _not_running(seen)
    verdict = _running(seen, now)
    return verdict._replace(reason=f"paused; {verdict.reason}") if seen.paused else verdict


def is_watcher_healthy(
    heartbeat: Heartbeat | Mapping[str, Any] | None, now: datetime, max_age_seconds: float = 300.0
) -> bool:
    """Whether a running worker with this heartbeat, as it was read or as a value, is well."""
    beat = heartbeat if heartbeat is None or isinstance(heartbeat, Heartbeat) else read_heartbeat(heartbeat)
    seen = Observation(WorkerState.RUNNING, heartbeat=beat, max_age_seconds=max_age_seconds)
    return _by_heartbeat(seen, now).health is Health.HEALTHY


def _not_running(seen: Observation) -> Verdict:
    if seen.state is WorkerState.STUCK:
        return Verdict(Health.UNKNOWN, "processes of it could not be ended", False)
    if seen.state in (WorkerState.STARTING, WorkerState.STOPPING):
        return Verdict(Health.UNKNOWN, f"{seen.state}, this is under way", True)
    if seen.state is WorkerState.QUARANTINED:
        both = "paused; " if seen.paused else ""
        if seen.quarantine:
            return Verdict(Health.MISSING, f"{both}{seen.quarantine}", False)
        return Verdict(Health.UNKNOWN, f"{both}quarantined in the configuration", True)
    if seen.paused:
        return Verdict(Health.UNKNOWN, "paused", True)
    if not seen.enabled:
        return Verdict(Health.UNKNOWN, "not enabled in the configuration", True)
    return Verdict(Health.MISSING, "not running, though it should", False)


def _running(seen: Observation, now: datetime) -> Verdict:
    frozen = seen.frozen_seconds
    if frozen is not None and frozen >= FROZEN_SECONDS:
        reason = f"alive but stopped by a signal for {frozen:.0f} s: it does nothing until it is continued"
        return Verdict(Health.FROZEN, reason, False)
    if seen.max_age_seconds == 0:
        verdict = Verdict(Health.HEALTHY, "running; no heartbeat is expected", True)
    elif not seen.heartbeat_known:
        verdict = Verdict(Health.UNKNOWN, "running; the drive with its heartbeat can't be reached", False)
    else:
        verdict = _by_heartbeat(seen, now)
    if frozen is None:
        return verdict
    return verdict._replace(reason=f"{verdict.reason}; stopped by a signal for {frozen:.0f} s")


def _by_heartbeat(seen: Observation, now: datetime) -> Verdict:
    beat, limit = seen.heartbeat, seen.max_age_seconds
    young = seen.started_at is not None and (now - seen.started_at).total_seconds() < limit
    if beat is None or beat.at is None:
        if young:
            return Verdict(Health.HEALTHY, "running; its first heartbeat is awaited", True)
        return Verdict(Health.MISSING, "running, but there is no heartbeat", False)
    age = (now - beat.at).total_seconds()
    if age < -SKEW_SECONDS:
        return Verdict(Health.UNKNOWN, f"its heartbeat is {-age:.0f} s in the future: compare the clocks", False)
    if seen.started_at is not None and beat.at < seen.started_at and young:
        return Verdict(Health.HEALTHY, "running; its first heartbeat is awaited", True)
    if age >= limit:
        return Verdict(Health.STALE, f"running, but its heartbeat is {age:.0f} s old (limit {limit:.0f} s)", False)
    if beat.error:
        return Verdict(Health.DEGRADED, f"it reports an error: {beat.error}", False)
    if beat.status.lower() not in GOOD_WORDS and not _rests_rightly(seen, beat.status, beat.at):
        return Verdict(Health.DEGRADED, f"it reports the status {beat.status!r}", False)
    return Verdict(Health.HEALTHY, f"running, heartbeat {max(age, 0):.0f} s ago", True)


def _rests_rightly(seen: Observation, status: str, at: datetime) -> bool:
    """Whether it says that it is paused, and is, or was when it said so: its next beat tells that it works again."""
    return status.lower() == "paused" and (seen.paused or (seen.resumed_at is not None and at <= seen.resumed_at))


def _moment(document: Mapping[str, Any]) -> datetime | None:
    for key in ("utc", "timestamp"):
        try:
            moment = datetime.fromisoformat(str(document[key]))
            return require_aware(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except (KeyError, ValueError, RecursionError):
            continue
    return None


def _said(value: object) -> str:
    """What a worker wrote, as one line: it may be anything that JSON can hold."""
    try:
        return one_line(str(value), LONGEST_SAID)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list in a list in a list
        return "something that can't be shown"


def _error(value: object) -> str:
    """What is wrong, by one of the keys that may say it; empty where nothing stands there."""
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
