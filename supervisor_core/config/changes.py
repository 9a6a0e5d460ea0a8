"""A configuration that a daemon applies: what it changes, each worker's progress, and the result. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from supervisor_core.commands.labels import Role

APPLIED, REFUSED = "CONFIG_APPLIED", "CONFIG_REFUSED"
"""Actions of the audit trail."""

TARGET = "configuration"
"""The type of their target, whose id is the supervisor's."""


class WorkerProgress(StrEnum):
    """The state of a worker's change to the newest configuration."""

    PENDING = "pending"
    DONE = "done"
    LEFT = "left"
    """Paused or quarantined; the worker gets the configuration at its next start."""
    HELD = "held"
    """It keeps running with its older settings, because another worker failed with the new ones."""
    KEPT = "kept"
    """It keeps running with its older settings, because it can't start with the new ones."""
    FAILED = "failed"


class ChangeResult(StrEnum):
    APPLIED = "applied"
    FAILED = "failed"
    """Workers don't run with it."""
    HALTED = "halted"
    """The same, and others keep their older settings because of that."""
    SUPERSEDED = "superseded"
    INTERRUPTED = "interrupted"

    @property
    def good(self) -> bool:
        return self is ChangeResult.APPLIED


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One configuration that a daemon took over."""

    config_id: str
    version: int
    owner: str
    """The owner of the file, as a person is named in the trail: `file:anna`."""
    path: str
    begun_at: str
    changes: tuple[str, ...]
    """The changed settings by name: `mailer: command, env.TOKEN`."""
    moves: Mapping[str, str] = field(default_factory=dict)
    """The workers that it restarts, starts or stops, each with its role once that is done."""
    pids: Mapping[str, int] = field(default_factory=dict)
    """Those of these workers that ran when it began. One that still runs then wasn't touched."""
    told: str = ""
    """The end that is on record already; a halted one may still come to another."""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ConfigChange:
        known = {name: document[name] for name in cls.__dataclass_fields__ if name != "pids"}
        pids = dict(document.get("pids") or {})
        return cls(**{**known, "changes": tuple(known["changes"]), "moves": dict(known["moves"]), "pids": pids})


def end_of(progress: Mapping[str, WorkerProgress]) -> ChangeResult | None:
    """The result, from the progress of its workers; None while one of them is pending."""
    there = set(progress.values())
    failed = bool(there & {WorkerProgress.FAILED, WorkerProgress.KEPT})
    if failed and WorkerProgress.HELD in there:
        return ChangeResult.HALTED
    if WorkerProgress.PENDING in there or WorkerProgress.HELD in there:
        return None
    return ChangeResult.FAILED if failed else ChangeResult.APPLIED


def roles(change: ConfigChange, progress: Mapping[str, WorkerProgress], pids: Mapping[str, int]) -> dict[str, str]:
    """The role of each worker that the change has touched: its process is another one than when the change began."""
    found = {}
    for worker_id, role in change.moves.items():
        pid, before = pids.get(worker_id), change.pids.get(worker_id)
        match progress.get(worker_id, WorkerProgress.PENDING):
            case WorkerProgress.DONE if pid != before:
                found[worker_id] = str(Role.STARTED if before is None else role)
            case WorkerProgress.FAILED:
                found[worker_id] = str(Role.FAILED)
            case _:
                continue
    return found
