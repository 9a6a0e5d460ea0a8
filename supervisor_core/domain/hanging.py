"""When a worker hangs, decided purely: its process is there and does nothing. Only what is known counts against it."""

from __future__ import annotations

from datetime import datetime

from supervisor_core.domain.health import Health, Observation, WorkerState, health

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
