"""The plan for each worker, decided purely from its desired and its actual state, and the worker's life cycle.

Each plan comes from a fresh observation and replaces the waiting actions of the one before.

    stopped ─ begin start ─→ starting ─ done ─→ running ─ begin stop ─→ stopping ─ done ─→ stopped
    running ─ exited ─→ stopped ─ wait ─→ backing off ─ begin start ─→ starting
    stopped ─ quarantine ─→ quarantined ─ release ─→ stopped         stopping ─ done, something is left ─→ stuck

The last observation counts for a worker's processes; an activity takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.times import require_aware
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.restarts.policy import Next, RestartDecision
from supervisor_core.workers.status import ActualState, DesiredState


class ActionKind(StrEnum):
    """The kinds of action on a worker."""

    NONE = "none"
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    REMOVE = "remove"


class Why(StrEnum):
    """The reason for an action, or for no action, in words for people."""

    AS_WANTED = "nothing to do"
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
    NOT_SEEN = "not checked yet"
    RESTING = "monitoring is paused"


class Action(NamedTuple):
    """A planned action on one worker. `at` is the `now` of the plan."""

    kind: ActionKind
    why: Why
    at: datetime


def plan(
    desired: Mapping[str, DesiredState], actual: Mapping[str, ActualState], now: datetime, *, resting: bool = False
) -> dict[str, Action]:
    """The action for each worker that is configured or exists. `resting`: monitoring is paused."""
    at = require_aware(now)
    ids = dict.fromkeys((*desired, *actual))
    if resting:
        return {worker_id: Action(ActionKind.NONE, Why.RESTING, at) for worker_id in ids}
    return {worker_id: Action(*_decide(desired.get(worker_id), actual.get(worker_id)), at) for worker_id in ids}


_LEAVE = {
    WorkerState.STARTING: Why.UNDER_WAY,
    WorkerState.STOPPING: Why.UNDER_WAY,
    WorkerState.BACKING_OFF: Why.UNDER_WAY,
    WorkerState.STUCK: Why.STUCK,
}
"""The states in which a worker is left alone, with the reasons."""


def _decide(desired: DesiredState | None, actual: ActualState | None) -> tuple[ActionKind, Why]:
    if actual is None:  # a start could make it two
        return ActionKind.NONE, Why.NOT_SEEN
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
        return (ActionKind.RESTART, Why.HUNG) if actual.hung else (ActionKind.NONE, Why.AS_WANTED)
    if state is WorkerState.QUARANTINED:  # a person ends it, and not a plan
        return ActionKind.NONE, Why.QUARANTINED
    return (ActionKind.NONE, Why.ENDED) if actual.ended else (ActionKind.START, Why.NOT_RUNNING)


SEEN = frozenset({WorkerState.STOPPED, WorkerState.RUNNING, WorkerState.STUCK})
"""The states that an observation of processes can show."""


class IllegalLifecycleMove(SupervisorError):
    """The worker's state doesn't allow this."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The life cycle of one worker. A move returns the next value, or raises `IllegalLifecycleMove`."""

    seen: WorkerState = WorkerState.STOPPED
    in_hand: str = ""
    moving: WorkerState | None = None
    """Starting or stopping, if the activity does that; None if it leaves the processes alone."""
    waits: RestartDecision | None = None
    """The decision for which it waits or rests after an exit."""
    quarantined: bool = False

    @property
    def state(self) -> WorkerState:
        if self.moving is not None:
            return self.moving
        if self.seen is not WorkerState.STOPPED:
            return self.seen
        if self.quarantined:
            return WorkerState.QUARANTINED
        backs_off = self.waits is not None and self.waits.what is Next.WAIT
        return WorkerState.BACKING_OFF if backs_off else WorkerState.STOPPED

    @property
    def rests(self) -> bool:
        """True if it exited and its policy doesn't restart it."""
        return self.waits is not None and self.waits.what is Next.REST

    def begin(self, what: str, moving: WorkerState | None = None) -> Lifecycle:
        """Begin an activity. A start or a stop ends the wait for a restart."""
        if self.in_hand:
            raise IllegalLifecycleMove(f"{what} can't begin: {self.in_hand} is in progress.")
        if not what or moving not in (None, WorkerState.STARTING, WorkerState.STOPPING):
            raise IllegalLifecycleMove(
                f"an activity needs a name, and moves to starting, to stopping or not at all, but not to {moving}"
            )
        return replace(self, in_hand=what, moving=moving, waits=None if moving else self.waits)

    def done(self, seen: WorkerState, *, quarantined: bool | None = None) -> Lifecycle:
        """End the activity with the state that a fresh observation shows."""
        if not self.in_hand:
            raise IllegalLifecycleMove("no activity is in progress")
        still = self.quarantined if quarantined is None else quarantined
        return replace(self, in_hand="", moving=None, quarantined=still).see(seen)

    def see(self, seen: WorkerState, *, anew: bool = False) -> Lifecycle:
        """Take an observed state. During an activity, it only shows the progress. A worker that stays stopped keeps
        waiting, unless it is reconsidered (`anew`)."""
        if seen not in SEEN:
            raise IllegalLifecycleMove(f"{seen} can't be observed")
        return replace(self, seen=seen, waits=self.waits if seen is WorkerState.STOPPED and not anew else None)

    def wait(self, decision: RestartDecision) -> Lifecycle:
        """Take the decision after an exit: wait for the next start, or rest."""
        if self.in_hand or self.seen is not WorkerState.STOPPED:
            raise IllegalLifecycleMove(f"wait needs a stopped worker, and this one is {self.state}")
        if decision.what not in (Next.WAIT, Next.REST):
            raise IllegalLifecycleMove(f"{decision.what} isn't a decision to wait for")
        return replace(self, waits=decision)

    def give_up(self) -> Lifecycle:
        """Quarantine it until a person ends that. If it runs, it continues."""
        if self.in_hand:
            raise IllegalLifecycleMove(f"quarantine can't begin: {self.in_hand} is in progress")
        return replace(self, quarantined=True, waits=None)

    def release(self) -> Lifecycle:
        return replace(self, quarantined=False)
