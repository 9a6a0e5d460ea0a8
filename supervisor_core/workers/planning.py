"""The plan for each worker, decided purely from its desired and its actual state.

Each plan comes from a fresh observation and replaces the waiting actions of the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from supervisor_core.common.times import require_aware
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.status import DesiredState, WorkerStatus


class ActionKind(StrEnum):
    """The kinds of action on a worker."""

    NONE = "none"
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    REMOVE = "remove"


class Why(StrEnum):
    """The reason for an action, or for no action, in words for people."""

    NOTHING_TO_DO = "nothing to do"
    NOT_RUNNING = "not running, but should be"
    NOT_ENABLED = "not enabled in the configuration"
    NOT_CONFIGURED = "no longer in the configuration"
    CHANGED = "running with an older configuration"
    HUNG = "hung, and restart.on_hang is set"
    PAUSED = "paused"
    QUARANTINED = "quarantined"
    ENDED = "exited, and its restart policy doesn't restart it"
    UNDER_WAY = "another action is in progress"
    STUCK = "stuck: some of its processes can't be killed"
    NOT_OBSERVED = "not checked yet"
    MONITORING_PAUSED = "monitoring is paused"


class Action(NamedTuple):
    """A planned action on one worker. `at` is the `now` of the plan."""

    kind: ActionKind
    why: Why
    at: datetime


def plan(
    desired: Mapping[str, DesiredState],
    actual: Mapping[str, WorkerStatus],
    now: datetime,
    *,
    monitoring_paused: bool = False,
) -> dict[str, Action]:
    """The action for each worker that is configured or exists."""
    at = require_aware(now)
    ids = dict.fromkeys((*desired, *actual))
    if monitoring_paused:
        return {worker_id: Action(ActionKind.NONE, Why.MONITORING_PAUSED, at) for worker_id in ids}
    return {worker_id: Action(*_decide(desired.get(worker_id), actual.get(worker_id)), at) for worker_id in ids}


_LEAVE = {
    WorkerState.STARTING: Why.UNDER_WAY,
    WorkerState.STOPPING: Why.UNDER_WAY,
    WorkerState.BACKING_OFF: Why.UNDER_WAY,
    WorkerState.STUCK: Why.STUCK,
}
"""The states in which a worker is left alone, with the reasons."""


def _decide(desired: DesiredState | None, actual: WorkerStatus | None) -> tuple[ActionKind, Why]:
    if actual is None:  # a start could make it two
        return ActionKind.NONE, Why.NOT_OBSERVED
    state = actual.state
    if state in _LEAVE and not (desired is None and state is WorkerState.BACKING_OFF):
        return ActionKind.NONE, _LEAVE[state]  # who waits for a start that nobody wants any more need not wait
    if desired is None:
        return ActionKind.REMOVE, Why.NOT_CONFIGURED
    is_running = state is WorkerState.RUNNING
    if not desired.enabled and not (is_running and desired.left_alone):
        return ActionKind.STOP if is_running else ActionKind.NONE, Why.NOT_ENABLED
    # A paused or quarantined one that runs was started by a person, who can also stop it.
    if desired.quarantined:
        return ActionKind.NONE, Why.QUARANTINED
    if desired.paused:
        return ActionKind.NONE, Why.PAUSED
    if is_running:
        if desired.spec_hash and actual.spec_hash and desired.spec_hash != actual.spec_hash:
            return ActionKind.RESTART, Why.CHANGED
        return (ActionKind.RESTART, Why.HUNG) if actual.hung else (ActionKind.NONE, Why.NOTHING_TO_DO)
    if state is WorkerState.QUARANTINED:  # a person ends it, and not a plan
        return ActionKind.NONE, Why.QUARANTINED
    return (ActionKind.NONE, Why.ENDED) if actual.finished else (ActionKind.START, Why.NOT_RUNNING)
