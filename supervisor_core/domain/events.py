"""The event: something has happened, as a frozen value. A hint to look, never the only place where a thing is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from supervisor_core.domain.times import require_aware, to_text


class EventType(StrEnum):
    """What can happen. The subject is a worker's id, of a `supervisor.` event the supervisor's."""

    WORKER_ADDED = "worker.added"
    WORKER_REMOVED = "worker.removed"
    WORKER_UPDATED = "worker.updated"
    WORKER_STARTED = "worker.started"
    WORKER_STOPPED = "worker.stopped"
    WORKER_STATE_CHANGED = "worker.state_changed"
    RECONCILE_COMPLETED = "reconcile.completed"
    RECONCILE_FAILED = "reconcile.failed"
    SUPERVISOR_STARTED = "supervisor.started"
    SUPERVISOR_STOPPED = "supervisor.stopped"
    SUPERVISOR_PAUSED = "supervisor.paused"
    SUPERVISOR_RESUMED = "supervisor.resumed"
    COMMAND_FILED = "command.filed"
    COMMAND_STARTED = "command.started"
    COMMAND_DONE = "command.done"
    COMMAND_INTERRUPTED = "command.interrupted"

    @property
    def family(self) -> str:
        """What stands before the dot."""
        return self.partition(".")[0]


def family(name: str) -> frozenset[EventType]:
    """All types of one family: `worker`, `reconcile`, `supervisor` or `command`."""
    found = frozenset(each for each in EventType if each.family == name)
    if not found:
        known = ", ".join(dict.fromkeys(each.family for each in EventType))
        raise ValueError(f"{name!r} is no family of events; there are {known}")
    return found


@dataclass(frozen=True, slots=True)
class Event:
    """What happened, to whom, when, and what else there is to say: JSON of any shape, which nobody changes."""

    type: EventType
    subject: str
    at: datetime
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", EventType(self.type))
        object.__setattr__(self, "at", require_aware(self.at))
        object.__setattr__(self, "payload", _frozen(dict(self.payload), "payload"))

    def as_json(self) -> dict[str, Any]:
        """A new dictionary for programs, which the caller may do with as it likes."""
        return {
            "type": str(self.type),
            "subject": self.subject,
            "at": to_text(self.at),
            "payload": _thawed(self.payload),
        }


def _frozen(value: object, where: str) -> object:
    """A copy that nobody can change, all the way down."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return require_aware(value)
    if isinstance(value, Mapping):
        return MappingProxyType({str(key): _frozen(each, f"{where}.{key}") for key, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_frozen(each, f"{where}[{place}]") for place, each in enumerate(value))
    raise TypeError(f"{where} is a {type(value).__name__}; an event holds text, numbers, times, lists and mappings")


def _thawed(value: object) -> object:
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, Mapping):
        return {key: _thawed(each) for key, each in value.items()}
    return [_thawed(each) for each in value] if isinstance(value, tuple) else value
