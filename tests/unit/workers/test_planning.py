"""The plan: what is done about a worker in each combination of what is wanted and what is there."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.config.worker_settings import RestartSettings
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.planning import Action, ActionKind, Why, plan
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason
from supervisor_core.workers.status import DesiredState, WorkerStatus
from tests.support.daemon.worker_statuses import worker_status

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
HASHES = ("", "old", "new")
BUSY = (WorkerState.STARTING, WorkerState.STOPPING, WorkerState.BACKING_OFF, WorkerState.STUCK)
FLAGS = (True, False)


def desired_state(enabled: bool, quarantined: bool, paused: bool, spec_hash: str = "") -> DesiredState:
    return DesiredState(spec_hash, enabled, quarantined, paused)


def actual_state(state: WorkerState, spec_hash: str = "", *, ended: bool = False, hung: bool = False) -> WorkerStatus:
    """A worker that hangs is stopped by a signal."""
    frozen, rests = 60.0 if hung else None, RestartDecision(Next.REST, RestartReason.ENDED_WELL, "exited")
    decision, restart = rests if ended else None, RestartSettings(on_hang=hung)
    return worker_status(
        "W", NOW, state, spec_hash=spec_hash, decision=decision, frozen_seconds=frozen, restart=restart
    )


WANTED = [None, *(desired_state(*given) for given in product(FLAGS, FLAGS, FLAGS, HASHES))]
ACTUAL = [
    None,
    *(
        actual_state(state, spec_hash, ended=ended, hung=hung)
        for state, spec_hash, ended, hung in product(WorkerState, HASHES, FLAGS, FLAGS)
    ),
]

wanted_ones = st.builds(DesiredState, st.sampled_from(HASHES), st.booleans(), st.booleans(), st.booleans())
actual_ones = st.builds(
    actual_state, st.sampled_from(WorkerState), st.sampled_from(HASHES), ended=st.booleans(), hung=st.booleans()
)
ids = st.sampled_from("ABCDE")


def planned(wanted: DesiredState | None, actual: WorkerStatus | None, *, resting: bool = False) -> Action:
    """The action for one worker."""
    desired = {} if wanted is None else {"W": wanted}
    return plan(desired, {} if actual is None else {"W": actual}, NOW, monitoring_paused=resting)["W"]


def expected(wanted: DesiredState | None, actual: WorkerStatus | None) -> ActionKind:
    """The same decision, written down as a list of the cases in which something is done."""
    if actual is None:
        return ActionKind.NONE
    if wanted is None and actual.state is WorkerState.BACKING_OFF:
        return ActionKind.REMOVE
    if actual.state in BUSY:
        return ActionKind.NONE
    if wanted is None:
        return ActionKind.REMOVE
    kept = wanted.paused or wanted.quarantined
    match actual.state:
        case WorkerState.RUNNING if not wanted.enabled:
            return ActionKind.STOP
        case WorkerState.RUNNING if not kept and {wanted.spec_hash, actual.spec_hash} == {"old", "new"}:
            return ActionKind.RESTART
        case WorkerState.RUNNING if not kept and actual.hung:
            return ActionKind.RESTART
        case WorkerState.STOPPED if wanted.enabled and not kept and not actual.finished:
            return ActionKind.START
    return ActionKind.NONE


def applied(action: Action, wanted: DesiredState | None, actual: WorkerStatus | None) -> WorkerStatus | None:
    """What is there after the action was carried out."""
    match action.kind:
        case ActionKind.START | ActionKind.RESTART:
            assert wanted is not None, "nobody knows how to start it"
            return actual_state(WorkerState.RUNNING, wanted.spec_hash)
        case ActionKind.STOP:
            return actual_state(WorkerState.STOPPED)
        case ActionKind.REMOVE:
            return None
    return actual


def test_every_combination_is_decided_as_it_is_written_down() -> None:
    seen = set()
    for wanted, actual in product(WANTED, ACTUAL):
        if wanted or actual:
            action = planned(wanted, actual)
            assert action.kind is expected(wanted, actual), (wanted, actual)
            seen.add(action.kind)
    assert seen == set(ActionKind), "each action was wanted somewhere"


def test_applying_the_plan_leaves_nothing_to_plan_in_any_combination() -> None:
    for wanted, actual in product(WANTED, ACTUAL):
        if wanted or actual:
            after = applied(planned(wanted, actual), wanted, actual)
            if wanted or after:
                assert planned(wanted, after).kind is ActionKind.NONE, (wanted, actual)


@given(st.dictionaries(ids, wanted_ones), st.dictionaries(ids, actual_ones))
def test_neither_the_order_nor_the_other_workers_matter_and_nothing_is_changed(
    desired: dict[str, DesiredState], actual: dict[str, WorkerStatus]
) -> None:
    before = (dict(desired), dict(actual))
    actions = plan(desired, actual, NOW)
    assert (desired, actual) == before
    assert set(actions) == {*desired, *actual}, "each worker has its action"
    turned = plan(dict(reversed(desired.items())), dict(reversed(actual.items())), NOW)
    assert turned == actions == plan(desired, actual, NOW)
    for each, action in actions.items():
        assert (
            action
            == plan(
                {each: desired[each]} if each in desired else {}, {each: actual[each]} if each in actual else {}, NOW
            )[each]
        ), "a worker's action is its own"


@pytest.mark.parametrize(
    ("wanted", "actual", "why"),
    [
        (desired_state(True, False, False), actual_state(WorkerState.STOPPED), Why.NOT_RUNNING),
        (desired_state(True, False, False), actual_state(WorkerState.RUNNING), Why.NOTHING_TO_DO),
        (desired_state(True, False, False, "new"), actual_state(WorkerState.RUNNING, "old"), Why.CHANGED),
        (desired_state(False, False, False), actual_state(WorkerState.RUNNING), Why.NOT_ENABLED),
        (desired_state(False, True, True), actual_state(WorkerState.STOPPED), Why.NOT_ENABLED),
        (desired_state(True, False, True), actual_state(WorkerState.STOPPED), Why.PAUSED),
        (desired_state(True, False, True, "new"), actual_state(WorkerState.RUNNING, "old"), Why.PAUSED),
        (desired_state(True, True, True), actual_state(WorkerState.RUNNING), Why.QUARANTINED),
        (desired_state(True, False, False), actual_state(WorkerState.QUARANTINED), Why.QUARANTINED),
        (desired_state(True, False, False), actual_state(WorkerState.STOPPED, ended=True), Why.ENDED),
        (desired_state(True, False, False), actual_state(WorkerState.BACKING_OFF), Why.UNDER_WAY),
        (desired_state(True, False, False), actual_state(WorkerState.STUCK), Why.STUCK),
        (desired_state(True, False, False), None, Why.NOT_OBSERVED),
        (desired_state(True, False, False), actual_state(WorkerState.RUNNING, hung=True), Why.HUNG),
        (desired_state(True, False, False, "new"), actual_state(WorkerState.RUNNING, "old", hung=True), Why.CHANGED),
        (desired_state(True, False, True), actual_state(WorkerState.RUNNING, hung=True), Why.PAUSED),
        (desired_state(True, True, False), actual_state(WorkerState.RUNNING, hung=True), Why.QUARANTINED),
        (desired_state(False, False, False), actual_state(WorkerState.RUNNING, hung=True), Why.NOT_ENABLED),
        (desired_state(True, False, False), actual_state(WorkerState.STOPPED, hung=True), Why.NOT_RUNNING),
        (None, actual_state(WorkerState.RUNNING, hung=True), Why.NOT_CONFIGURED),
        (None, actual_state(WorkerState.RUNNING), Why.NOT_CONFIGURED),
        (None, actual_state(WorkerState.STOPPING), Why.UNDER_WAY),
    ],
)
def test_an_action_says_why(wanted: DesiredState | None, actual: WorkerStatus | None, why: Why) -> None:
    assert planned(wanted, actual).why is why


@pytest.mark.parametrize("state", WorkerState)
@pytest.mark.parametrize("wanted", [None, desired_state(False, False, False), desired_state(True, False, False, "new")])
def test_while_all_monitoring_is_paused_nothing_is_done_even_to_what_is_not_configured(
    wanted: DesiredState | None, state: WorkerState
) -> None:
    action = planned(wanted, actual_state(state, "old"), resting=True)
    assert (action.kind, action.why) == (ActionKind.NONE, Why.MONITORING_PAUSED)


def test_an_action_carries_the_time_of_its_plan_so_that_a_newer_one_is_known() -> None:
    assert planned(None, actual_state(WorkerState.STOPPED)).at == NOW
    with pytest.raises(ValueError, match="no time zone"):
        plan({}, {}, NOW.replace(tzinfo=None))
