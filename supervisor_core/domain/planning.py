"""What to do about a worker, decided purely from what is wanted and what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from supervisor_core.domain.health import WorkerState


class ActionKind(StrEnum):
    """What can be done about a worker."""

    NONE = "none"
    START = "start"


class Wanted(NamedTuple):
    """What is wanted of one worker."""

    enabled: bool
    quarantined: bool
    paused: bool


def plan(desired: Mapping[str, Wanted], actual: Mapping[str, WorkerState]) -> dict[str, ActionKind]:
    """An action for each configured worker. A paused one is neither started nor stopped."""
    return {worker_id: _action(wanted, actual.get(worker_id)) for worker_id, wanted in desired.items()}


def _action(wanted: Wanted, state: WorkerState | None) -> ActionKind:
    rests = wanted.paused or wanted.quarantined or not wanted.enabled
    return ActionKind.START if state is WorkerState.STOPPED and not rests else ActionKind.NONE
