"""Conditions in words, and what may help with them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from supervisor_core.workers.conditions.rules import Condition

WORDS: Mapping[Condition, str] = {
    Condition.WELL: "is healthy",
    Condition.PAUSED: "is paused",
    Condition.DEGRADED: "is degraded",
    Condition.CLOCK_SKEW: "has a wrong clock",
    Condition.UNKNOWN: "can't be checked",
    Condition.MISSING: "hasn't sent a heartbeat",
    Condition.STALE: "is stale",
    Condition.FROZEN: "is frozen",
    Condition.STUCK: "is stuck",
    Condition.DOWN: "is down",
    Condition.RESTART_LIMIT: "is quarantined",
    Condition.FLAPPING: "is flapping",
    Condition.DISK_LOW: "is almost full",
    Condition.DRIVE_UNREACHABLE: "can't be reached",
    Condition.DATABASE_UNREACHABLE: "can't be reached",
    Condition.INTERRUPTED: "was interrupted",
    Condition.SUPERVISOR_SILENT: "is unresponsive",
    Condition.DEAF: "was disconnected from Slack",
    Condition.REFUSED: "carried messages that were refused",
    Condition.FIRING: "is firing",
    Condition.STORM: "isn't over",
}
"""The condition of a target, in words."""

STORM_WORDS = {
    Condition.DEGRADED: "degraded",
    Condition.CLOCK_SKEW: "with a wrong clock",
    Condition.UNKNOWN: "that can't be checked",
    Condition.MISSING: "without a heartbeat",
    Condition.STALE: "stale",
    Condition.FROZEN: "frozen",
    Condition.STUCK: "stuck",
    Condition.DOWN: "down",
    Condition.RESTART_LIMIT: "quarantined",
    Condition.FLAPPING: "flapping",
    Condition.SUPERVISOR_SILENT: "unresponsive",
    Condition.FIRING: "firing",
}
"""The condition of several workers or hosts, in words."""

RESTARTABLE = frozenset(
    {
        Condition.DEGRADED,
        Condition.MISSING,
        Condition.STALE,
        Condition.FROZEN,
        Condition.STUCK,
        Condition.DOWN,
        Condition.RESTART_LIMIT,
        Condition.FLAPPING,
        Condition.FIRING,
    }
)
"""Conditions that a restart may fix."""

STOPPED = frozenset({Condition.DOWN, Condition.RESTART_LIMIT})
"""Conditions in which no process runs, so that a restart ends nothing."""
