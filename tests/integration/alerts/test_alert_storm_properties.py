"""Whatever happens in whatever order: each trouble is told, by its own message or by that of another, and nobody gets
more messages than a storm allows."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.grouping.rules import STORM
from supervisor_core.alerts.rules import LIVE, Alert, AlertState
from supervisor_core.storage import outbox
from supervisor_core.workers.conditions import Condition, Target
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.sampling import examples

NAMES = tuple(f"W{number}" for number in range(12))
THRESHOLD, WINDOW = 2, 30.0
RULES = {"storm_threshold": THRESHOLD, "storm_window_seconds": WINDOW}
DRIVE = Target("drive", "TestHost")

SOME = st.sets(st.sampled_from(NAMES), min_size=1, max_size=4).map(sorted)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["down", "down", "well", "stale", "degraded"]), SOME),
        st.tuples(st.just("drive"), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 0.7, 1.0, 1.0, 1.5, 4.0, 20.0, 45.0, 4000.0])),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("acknowledge"), st.integers(0, 20)),
    ),
    max_size=25,
)


@given(STEPS)
@settings(deadline=None, max_examples=examples(40))
def test_nothing_is_lost_and_never_more_is_posted_than_a_storm_allows(steps: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder, an_alert_desk(Path(folder), *NAMES, alerts=RULES) as desk:
        desk.well(*NAMES)
        for what, how in steps:
            do(desk, what, how)
            each_is_told(desk)
        never_too_many(desk)
        desk.observe(DRIVE, Condition.WELL, "the drive answers")
        desk.well(*NAMES)
        desk.wait(3 * WINDOW)
        assert desk.ledger.read(lambda connection: alerts.in_states(connection, LIVE)) == []


def do(desk: AlertDesk, what: str, how: object) -> None:
    if what == "wait":
        assert isinstance(how, float)
        desk.wait(how)
    elif what == "restart":
        desk.restart()
    elif what == "drive":
        desk.observe(DRIVE, Condition.DRIVE_UNREACHABLE if how else Condition.WELL, "it hangs" if how else "it answers")
    elif what == "acknowledge":
        assert isinstance(how, int)
        shown = [each for each in desk.alerts.shown() if each.parent_id is None]
        if shown:
            desk.alerts.acknowledge(shown[how % len(shown)].alert_id, desk.request(), desk.now)
            desk.work()
    else:
        assert isinstance(how, list)
        getattr(desk, what)(*how)


def each_is_told(desk: AlertDesk) -> None:
    """Every trouble that is not about to pass by itself, or being gathered, stands in a message; and only those."""

    def look(connection: Connection) -> None:
        standings = flips.current_conditions(connection, "TestHost")
        live = {each.alert_id: each for each in alerts.in_states(connection, LIVE)}
        for alert in live.values():
            if alert.target.kind != STORM:
                assert standings[alert.target].condition is alert.condition or alert.cleared_at is not None
                assert (alert.cleared_at is None) == (not standings[alert.target].condition.fine)
            if alert.state is AlertState.PENDING:
                assert alert.due_at is not None
                assert alert.decided in ("gathered", "grace", "waiting_for_restart")
                continue
            one = live[alert.parent_id] if alert.parent_id else alert
            assert stands(connection, one), (alert, one)
        unwell = {target for target, each in standings.items() if not each.condition.fine}
        assert unwell == {
            each.target for each in live.values() if each.cleared_at is None and each.target.kind != STORM
        }

    desk.ledger.read(look)


def stands(connection: Connection, alert: Alert) -> bool:
    """Whether its message is in Slack."""
    place = outbox.message_place(connection, alerts.ALERT, alert.alert_id)
    return bool(place and place.get("ts"))


def never_too_many(desk: AlertDesk) -> None:
    """In any window: as many as the threshold, one digest, and what the host itself has to say."""
    posts = [moment for moment, line in desk.times if line.startswith("post:") and "The drive" not in line]
    for begin in posts:
        within = [each for each in posts if begin <= each < begin + timedelta(seconds=WINDOW)]
        assert len(within) <= THRESHOLD + 1, desk.seen
