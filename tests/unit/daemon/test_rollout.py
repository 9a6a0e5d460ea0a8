"""A configuration that restarts several workers is announced once, and halts where the first does not live with it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from supervisor_core.daemon.configuration.service import Rollout
from supervisor_core.workers.planning import Action, ActionKind, Why

NOW = datetime(2026, 2, 5, tzinfo=UTC)
CHANGED = Action(ActionKind.RESTART, Why.CHANGED, NOW)
NONE = Action(ActionKind.NONE, Why.AS_WANTED, NOW)
STOP = Action(ActionKind.STOP, Why.NOT_ENABLED, NOW)


def test_it_is_announced_once_with_all_names(caplog: pytest.LogCaptureFixture) -> None:
    rollout = Rollout()
    with caplog.at_level(logging.WARNING):
        rollout.held_back(2, {"A": CHANGED, "B": CHANGED, "C": NONE}, {"A", "B", "C"})
        rollout.held_back(2, {"A": CHANGED, "B": CHANGED}, {"A", "B"})
        rollout.held_back(2, {"A": NONE, "B": CHANGED}, {"A", "B"})
    assert [record.getMessage() for record in caplog.records] == [
        "configuration version 2 restarts 2 workers, one at a time: A, B"
    ]


def test_where_the_first_does_not_live_the_others_keep_what_they_have(caplog: pytest.LogCaptureFixture) -> None:
    rollout = Rollout()
    rollout.held_back(2, {"A": CHANGED, "B": CHANGED, "C": CHANGED}, "ABC")
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        held = rollout.held_back(2, {"A": NONE, "B": CHANGED, "C": CHANGED, "D": STOP}, "BCD")
        rollout.held_back(2, {"B": CHANGED}, "BCD")
    assert held == {"A": NONE, "D": STOP}
    assert [record.getMessage() for record in caplog.records] == [
        "A fails with configuration version 2, so these keep their older settings: B, C"
    ]
    assert "B" in rollout.held_back(2, {"A": NONE, "B": CHANGED}, "ABCD"), "it lives now, so the others follow"


def test_one_that_is_down_for_another_reason_holds_nobody_back() -> None:
    rollout = Rollout()
    assert rollout.held_back(2, {"A": CHANGED}, {"A"}) == {"A": CHANGED}


def test_the_next_version_begins_anew() -> None:
    rollout = Rollout()
    rollout.held_back(2, {"A": CHANGED, "B": CHANGED}, "AB")
    assert rollout.held_back(2, {"B": CHANGED}, "B") == {}
    assert rollout.held_back(3, {"A": CHANGED, "B": CHANGED}, "B") == {"A": CHANGED, "B": CHANGED}


def test_one_that_somebody_paused_since_holds_nobody_back() -> None:
    rollout = Rollout()
    rollout.held_back(2, {"A": CHANGED, "B": CHANGED}, "AB")
    paused = Action(ActionKind.NONE, Why.PAUSED, NOW)
    assert "B" in rollout.held_back(2, {"A": paused, "B": CHANGED}, "B")


def test_a_look_at_the_one_alone_that_does_not_live_has_the_others_wait_on_for_it() -> None:
    rollout = Rollout()
    rollout.held_back(2, {"A": CHANGED, "B": CHANGED}, "AB")
    rollout.held_back(2, {"B": CHANGED}, "B")
    rollout.held_back(2, {"A": Action(ActionKind.START, Why.NOT_RUNNING, NOW)}, "B")
    assert rollout.waits_for == {"A"}
    rollout.held_back(2, {"A": NONE}, "AB")
    assert not rollout.waits_for
