"""Where a worker's life stands: each move from each place, and any row of moves beside a model that is simpler."""

from __future__ import annotations

import itertools
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

Moves = dict[str, Callable[[Lifecycle], Lifecycle]]
ILLEGAL = "illegal"

# Every place there is to stand, by name.
PLACES = {
    "stopped": Lifecycle(),
    "running": Lifecycle(S.RUNNING),
    "stuck": Lifecycle(S.STUCK),
    "backing off": Lifecycle().wait(WAIT),
    "resting": Lifecycle().wait(REST),
    "quarantined": Lifecycle().give_up(),
    "quarantined, running": Lifecycle(S.RUNNING).give_up(),
    "quarantined, stuck": Lifecycle(S.STUCK).give_up(),
    "starting": Lifecycle().begin("start", S.STARTING),
    "stopping": Lifecycle(S.RUNNING).begin("stop", S.STOPPING),
    "stopping, stuck": Lifecycle(S.STUCK).begin("stop", S.STOPPING),
    "quarantined, starting": Lifecycle().give_up().begin("resume", S.STARTING),
    "looked after, running": Lifecycle(S.RUNNING).begin("diagnostics"),
    "looked after, backing off": Lifecycle().wait(WAIT).begin("diagnostics"),
}
MOVES: Moves = {
    "begin start": lambda at: at.begin("start", S.STARTING),
    "begin stop": lambda at: at.begin("stop", S.STOPPING),
    "begin looking": lambda at: at.begin("diagnostics"),
    "done: stopped": lambda at: at.done(S.STOPPED),
    "done: running": lambda at: at.done(S.RUNNING),
    "done: stuck": lambda at: at.done(S.STUCK),
    "done: stopped, free": lambda at: at.done(S.STOPPED, quarantined=False),
    "see stopped": lambda at: at.see(S.STOPPED),
    "see running": lambda at: at.see(S.RUNNING),
    "see stuck": lambda at: at.see(S.STUCK),
    "think anew": lambda at: at.see(S.STOPPED, anew=True),
    "wait": lambda at: at.wait(WAIT),
    "rest": lambda at: at.wait(REST),
    "give up": lambda at: at.give_up(),
    "release": lambda at: at.release(),
}
BUSY = ("starting", "stopping", "stopping, stuck", "quarantined, starting")
LOOKED_AFTER = ("looked after, running", "looked after, backing off")
HELD = ("quarantined", "quarantined, running", "quarantined, stuck", "quarantined, starting")
AT_REST = ("stopped", "backing off", "resting", "quarantined")


def leads(place: str, move: str) -> str:  # noqa: C901 (a table, in words)
    """Where it leads, in words, written down apart from the code."""
    before = PLACES[place]
    in_hand, held = place in (*BUSY, *LOOKED_AFTER), place in HELD
    seen = {S.STOPPED: "quarantined" if held else "stopped", S.RUNNING: "running", S.STUCK: "stuck"}
    backs_off = place in ("backing off", "looked after, backing off")
    match move:
        case "begin start":
            return ILLEGAL if in_hand else "starting"
        case "begin stop":
            return ILLEGAL if in_hand else "stopping"
        case "begin looking":
            return ILLEGAL if in_hand else before.state
        case "done: stopped":
            after = "backing_off" if place == "looked after, backing off" else seen[S.STOPPED]
            return after if in_hand else ILLEGAL
        case "done: stopped, free":
            after = "backing_off" if place == "looked after, backing off" else "stopped"
            return after if in_hand else ILLEGAL
        case "done: running" | "done: stuck":
            return move.removeprefix("done: ") if in_hand else ILLEGAL
        case "see stopped" | "think anew" | "see running" | "see stuck" if place in BUSY:
            return before.state
        case "see stopped" if backs_off:
            return "backing_off"
        case "see stopped" | "think anew":
            return seen[S.STOPPED]
        case "see running" | "see stuck":
            return move.removeprefix("see ")
        case "wait" | "rest" if place not in AT_REST:
            return ILLEGAL
        case "wait":
            return "quarantined" if held else "backing_off"
        case "rest":
            return seen[S.STOPPED]
        case "give up":
            return ILLEGAL if in_hand else {S.STOPPED: "quarantined"}.get(before.seen, before.seen)
        case "release":
            return "stopped" if place == "quarantined" else before.state
    raise AssertionError(move)


@contextmanager
def refused(standing: Lifecycle) -> Iterator[None]:
    """The move is illegal, and has changed nothing."""
    before = replace(standing)
    with pytest.raises(IllegalLifecycleMove):
        yield
    assert standing == before


@pytest.mark.parametrize(("place", "move"), list(itertools.product(PLACES, MOVES)))
def test_each_move_leads_where_it_should_or_is_refused(place: str, move: str) -> None:
    before, expected = PLACES[place], leads(place, move)
    kept = replace(before)
    if expected == ILLEGAL:
        with refused(before):
            MOVES[move](before)
    else:
        assert str(MOVES[move](before).state) == expected
    assert before == kept


def test_every_state_has_its_place() -> None:
    assert {standing.state for standing in PLACES.values()} == set(WorkerState)


@pytest.mark.parametrize("state", [each for each in WorkerState if each not in SEEN])
def test_what_nobody_can_see_is_not_seen(state: WorkerState) -> None:
    with refused(Lifecycle()):
        Lifecycle().see(state)
    with refused(Lifecycle().begin("stop", S.STOPPING)):
        Lifecycle().begin("stop", S.STOPPING).done(state)


@pytest.mark.parametrize("decision", OTHERS)
def test_only_a_wait_or_a_rest_can_be_waited_for(decision: RestartDecision) -> None:
    with refused(Lifecycle()):
        Lifecycle().wait(decision)


@pytest.mark.parametrize("moving", [state for state in WorkerState if state not in MOVING])
def test_what_begins_starts_or_stops_or_neither_and_has_a_name(moving: WorkerState) -> None:
    with refused(Lifecycle()):
        Lifecycle().begin("start", moving)
    with refused(Lifecycle()):
        Lifecycle().begin("")


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
