"""The questions of a hub to its hosts, and the values in their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from supervisor_core.common.errors import SupervisorError, TemporaryError
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import from_text, to_text
from supervisor_core.fleet.reports import POSITION, PRESENCE, InvalidReport, decode
from supervisor_core.workers.conditions.rules import Condition, Reading, Severity, Target, TargetReading

USUAL_SECONDS = 5.0
"""The interval of a host that doesn't say at which one it speaks."""

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 300.0

LONGEST_PRESENCE = 4_096
"""Bytes of a presence message, which each host sends all the time."""


class Question(StrEnum):
    ROWS = "rows"
    """The rows of the ledger after a position."""
    SNAPSHOT = "snapshot"
    """The workers, their status and their conditions."""
    PREVIEW = "preview"
    """The effect that a command would have."""
    COMMITS = "commits"
    FIND = "find"
    LOGS = "logs"
    WHY = "why"
    USAGE = "usage"
    """The commit, memory and CPU time of each worker."""


class HostError(SupervisorError):
    """A host's refusal to answer."""


class HostAway(TemporaryError):
    """A host that doesn't answer now."""


@dataclass(frozen=True, slots=True)
class PresenceMessage:
    """A host's report of itself, every few seconds and at each change."""

    host: str
    at: datetime
    ledger: str
    """The id of its ledger."""
    position: Mapping[str, int]
    """Its newest rows."""
    snapshot: int
    """The number of its newest snapshot."""
    life: str
    """The id of this run of its daemon: snapshots are numbered anew in each."""
    version: str
    every: float = USUAL_SECONDS
    """The seconds between two of these messages when nothing changes."""

    def encode(self) -> bytes:
        document = {name: getattr(self, name) for name in self.__slots__}
        return canonical_json({**document, "at": to_text(self.at), "position": dict(self.position)}).encode()


def read_presence(host: str, data: bytes) -> PresenceMessage | None:
    """The presence in a message on this host's subject; None for any other bytes."""
    if len(data) > LONGEST_PRESENCE:
        return None
    try:
        presence = decode("presence", json.loads(data), PRESENCE)
        position = decode("position", presence["position"], POSITION)
    except (ValueError, RecursionError, InvalidReport):
        return None
    if presence["host"] != host:
        return None
    every = USUAL_SECONDS if presence["every"] is None else presence["every"]
    every = float(min(LONGEST_SECONDS, max(SHORTEST_SECONDS, every)))
    ledger, life, version = (presence[name] for name in ("ledger", "life", "version"))
    return PresenceMessage(
        host, from_text(presence["at"]), ledger, position, presence["snapshot"], life, version, every
    )


def reading_document(seen: TargetReading) -> dict[str, Any]:
    target, reading = seen
    return {
        "kind": target.kind,
        "id": target.id,
        "condition": str(reading.condition),
        "reason": reading.reason,
        "since": to_text(reading.since),
        "held_until": to_text(reading.held_until) if reading.held_until else None,
        "healing": reading.healing,
        "restarts_at": to_text(reading.restarts_at) if reading.restarts_at else None,
        "severity": str(reading.severity) if reading.severity else None,
    }


def read_reading(document: Mapping[str, Any]) -> TargetReading:
    held, severity = document["held_until"], document["severity"]
    restarts = document.get("restarts_at")  # an older host doesn't say it
    reading = Reading(
        Condition(document["condition"]),
        str(document["reason"]),
        from_text(document["since"]),
        held_until=from_text(held) if held else None,
        healing=bool(document["healing"]),
        restarts_at=from_text(restarts) if restarts else None,
        severity=Severity(severity) if severity else None,
    )
    return TargetReading(Target(str(document["kind"]), str(document["id"])), reading)


def error_answer(error: SupervisorError) -> dict[str, Any]:
    return {"error": str(error), "retryable": error.retryable}
