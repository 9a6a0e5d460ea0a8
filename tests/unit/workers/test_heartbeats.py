"""What a supervisor says of itself: the keys of its file, and a line that fits its column."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.storage.tables import STATUS_SUMMARY
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.heartbeats.files import LONGEST_SUMMARY, SupervisorHeartbeat
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.status import WorkerStatus

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)


def said(*actions: str, error: str | None = None, state: str = "running, healthy") -> SupervisorHeartbeat:
    return SupervisorHeartbeat("TestHost", "OrionMX", NOW, error is None, error, actions, state)


def test_the_file_has_the_keys_of_the_contract_and_no_other() -> None:
    assert said("pause", "resume").as_json() == {
        "supervisor_id": "TestHost",
        "worker_id": "OrionMX",
        "timestamp": "2026-02-05T14:30:15.000000Z",
        "success": True,
        "error": None,
        "actions": ["pause", "resume"],
    }


@pytest.mark.parametrize(
    ("heartbeat", "line"),
    [
        (said("pause", "verify_db", state="paused"), "Supervisor OK - paused. Actions: pause, verify_db"),
        (said(), "Supervisor OK - running, healthy. Actions: none"),
        (said(error="It is broken."), "Supervisor ERROR - It is broken. State: running, healthy"),
        (said("pause", error="two\nlines"), "Supervisor ERROR - two\\nlines. State: running, healthy"),
        (said(error=""), "Supervisor ERROR - unknown. State: running, healthy"),
    ],
)
def test_the_line_says_state_and_actions_or_the_error(heartbeat: SupervisorHeartbeat, line: str) -> None:
    assert heartbeat.summary() == line


@pytest.mark.parametrize("much", ["x" * 10_000, "\n" * 10_000, "\ud800" * 300])
def test_it_fits_its_column_whatever_was_wrong_and_the_state_stays(much: str) -> None:
    assert LONGEST_SUMMARY == STATUS_SUMMARY
    summary = said(error=much, state="stopped, missing").summary()
    assert len(summary) == LONGEST_SUMMARY
    assert summary.endswith("…. State: stopped, missing")
    assert len(said(*["update_code_deps"] * 99).summary()) <= LONGEST_SUMMARY
    assert len(said(error=much, state=much).summary()) <= LONGEST_SUMMARY


@pytest.mark.parametrize(
    ("state", "max_age", "pause", "words"),
    [
        (WorkerState.RUNNING, 0, None, "running, healthy"),
        (WorkerState.RUNNING, 60, None, "running, missing"),
        (WorkerState.RUNNING, 0, Pause(), "running and paused, healthy"),
        (WorkerState.STOPPED, 0, Pause(), "paused"),
        (WorkerState.STOPPED, 0, None, "stopped, missing"),
        (WorkerState.STARTING, 0, None, "starting"),
        (WorkerState.STUCK, 0, None, "stuck, unknown"),
    ],
)
def test_state_and_health_in_a_word_or_two(state: WorkerState, max_age: float, pause: Pause | None, words: str) -> None:
    worker = WorkerSettings(command=("",), heartbeat_max_age_seconds=max_age)
    assert WorkerStatus(worker, NOW, state, FoundWorker("", Presence.STOPPED), pause).in_words() == words
