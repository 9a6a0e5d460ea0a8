"""Where a worker's life stands: each move from each place, and any row of moves beside a model that is simpler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.planning import SEEN, IllegalLifecycleMove, Lifecycle
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason
from tests.support.sampling import examples

S = WorkerState
MOVING = (None, S.STARTING, S.STOPPING)
WAIT = RestartDecision(Next.WAIT, RestartReason.BACKING_OFF, "started again in 5 s", pause_seconds=5)
REST = RestartDecision(Next.REST, RestartReason.ENDED_WELL, "not started again")
OTHERS = (
    RestartDecision(Next.START, RestartReason.LIVED_LONG, "now"),
    RestartDecision(Next.QUARANTINE, RestartReason.TOO_MANY_STARTS, "no more"),
)


@contextmanager
def refused(standing: Lifecycle) -> Iterator[None]:
    """The move is illegal, and has changed nothing."""
    before = replace(standing)
    with pytest.raises(IllegalLifecycleMove):
        yield
    assert standing == before


class Life(RuleBasedStateMachine):
    """Any row of moves. The model keeps four plain things, and knows when a move may be made."""

    def __init__(self) -> None:
        super().__init__()
        self.standing = Lifecycle()
        self.seen, self.in_hand = S.STOPPED, ""
        self.moving: WorkerState | None = None
        self.waits: RestartDecision | None = None
        self.held = False

    def _make(self, move: Callable[[], Lifecycle], *, legal: bool) -> bool:
        if legal:
            self.standing = move()
        else:
            with refused(self.standing):
                move()
        return legal

    @rule(what=st.sampled_from(("start", "")), moving=st.sampled_from((*MOVING, S.STUCK)))
    def begin(self, what: str, moving: WorkerState | None) -> None:
        legal = not self.in_hand and bool(what) and moving in MOVING
        if self._make(lambda: self.standing.begin(what, moving), legal=legal):
            self.in_hand, self.moving = what, moving
            self.waits = None if moving else self.waits

    @rule(seen=st.sampled_from(WorkerState), held=st.sampled_from((None, True, False)))
    def done(self, seen: WorkerState, held: bool | None) -> None:
        legal = bool(self.in_hand) and seen in SEEN
        if self._make(lambda: self.standing.done(seen, quarantined=held), legal=legal):
            self.in_hand, self.moving = "", None
            self.held = self.held if held is None else held
            self._looked(seen)

    @rule(seen=st.sampled_from(WorkerState), anew=st.booleans())
    def see(self, seen: WorkerState, anew: bool) -> None:
        if self._make(lambda: self.standing.see(seen, anew=anew), legal=seen in SEEN):
            self._looked(seen, anew=anew)

    @rule(decision=st.sampled_from((WAIT, REST, *OTHERS)))
    def wait(self, decision: RestartDecision) -> None:
        legal = not self.in_hand and self.seen is S.STOPPED and decision in (WAIT, REST)
        if self._make(lambda: self.standing.wait(decision), legal=legal):
            self.waits = decision

    @rule()
    def give_up(self) -> None:
        if self._make(self.standing.give_up, legal=not self.in_hand):
            self.held, self.waits = True, None

    @rule()
    def release(self) -> None:
        self._make(self.standing.release, legal=True)
        self.held = False

    def _looked(self, seen: WorkerState, *, anew: bool = False) -> None:
        self.seen = seen
        if seen is not S.STOPPED or anew:
            self.waits = None

    @invariant()
    def they_agree(self) -> None:
        at = self.standing
        assert (at.seen, at.in_hand, at.moving, at.waits) == (self.seen, self.in_hand, self.moving, self.waits)
        assert at.quarantined is self.held
        assert at.rests == (self.waits is REST)

    @invariant()
    def its_state_tells_what_matters_most(self) -> None:
        state = self.standing.state
        if self.moving:
            assert state is self.moving
        elif self.seen is not S.STOPPED:
            assert state is self.seen, "what is there is never hidden by what is wanted"
        elif self.held:
            assert state is S.QUARANTINED
        else:
            assert (state is S.BACKING_OFF) == (self.waits is WAIT)

    @invariant()
    def only_what_is_stopped_waits(self) -> None:
        assert self.standing.waits is None or self.standing.seen is S.STOPPED


Life.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=30)
TestAnyRowOfMoves = Life.TestCase
