"""Health: one table of what was seen, with the word and whether somebody should look."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.domain.health import (
    LONGEST_SAID,
    Health,
    Heartbeat,
    Observation,
    WorkerState,
    health,
    is_watcher_healthy,
    read_heartbeat,
)

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def beat(seconds: float, status: str = "running", error: str = "") -> Heartbeat:
    return Heartbeat(status, ago(seconds), error)


def running(**facts: Any) -> Observation:
    return Observation(**{"state": WorkerState.RUNNING, "started_at": ago(3600), "heartbeat": beat(10), **facts})


@pytest.mark.parametrize(
    ("seen", "word", "fine", "said"),
    [
        (running(), Health.HEALTHY, True, "10 s ago"),
        (running(heartbeat=beat(299.9)), Health.HEALTHY, True, "heartbeat"),
        (running(heartbeat=beat(300)), Health.STALE, False, "300 s old"),
        (running(heartbeat=beat(-5)), Health.HEALTHY, True, "0 s ago"),
        (running(heartbeat=beat(-5.1)), Health.UNKNOWN, False, "clocks"),
        (running(heartbeat=beat(-1e9)), Health.UNKNOWN, False, "future"),
        (running(heartbeat=None), Health.MISSING, False, "no heartbeat"),
        (running(heartbeat=Heartbeat("running", None)), Health.MISSING, False, "no heartbeat"),
        (running(heartbeat=None, started_at=ago(10)), Health.HEALTHY, True, "first heartbeat"),
        (running(heartbeat=None, started_at=ago(300)), Health.MISSING, False, "no heartbeat"),
        (running(heartbeat=None, started_at=None), Health.MISSING, False, "no heartbeat"),
        (running(heartbeat=beat(60), started_at=ago(10)), Health.HEALTHY, True, "first heartbeat"),
        (running(heartbeat=beat(9999), started_at=ago(10)), Health.HEALTHY, True, "first heartbeat"),
        (running(heartbeat=beat(9999), started_at=ago(301)), Health.STALE, False, "9999 s old"),
        (running(heartbeat=beat(10, "error")), Health.DEGRADED, False, "'error'"),
        (running(heartbeat=beat(10, "")), Health.DEGRADED, False, "''"),
        (running(heartbeat=beat(10, "RUNNING")), Health.HEALTHY, True, "heartbeat"),
        (running(heartbeat=beat(10, "running", "disk full")), Health.DEGRADED, False, "disk full"),
        (running(heartbeat=beat(400, "running", "disk full")), Health.STALE, False, "old"),
        (running(heartbeat=beat(10, "paused")), Health.DEGRADED, False, "'paused'"),
        (running(heartbeat=beat(10, "paused"), paused=True), Health.HEALTHY, True, "heartbeat"),
        (running(heartbeat=beat(10, "paused"), paused=True), Health.HEALTHY, True, "paused; running, heartbeat"),
        (running(heartbeat=beat(10, "running"), paused=True), Health.HEALTHY, True, "paused; running"),
        (running(heartbeat=beat(400, "paused"), paused=True), Health.STALE, False, "paused; running, but"),
        (running(heartbeat=beat(10, "paused"), resumed_at=ago(9)), Health.HEALTHY, True, "heartbeat 10 s ago"),
        (running(heartbeat=beat(10, "paused"), resumed_at=ago(11)), Health.DEGRADED, False, "'paused'"),
        (running(heartbeat=beat(10, "broken"), resumed_at=ago(9)), Health.DEGRADED, False, "'broken'"),
        (running(frozen_seconds=10), Health.FROZEN, False, "signal for 10 s"),
        (running(frozen_seconds=9.9), Health.HEALTHY, True, "heartbeat 10 s ago; stopped by a signal"),
        (running(frozen_seconds=0.0, heartbeat=beat(400)), Health.STALE, False, "stopped by a signal for 0 s"),
        (running(frozen_seconds=3600, max_age_seconds=0), Health.FROZEN, False, "signal"),
        (running(frozen_seconds=3, max_age_seconds=0), Health.HEALTHY, True, "signal for 3 s"),
        (running(frozen_seconds=60, heartbeat_known=False), Health.FROZEN, False, "signal"),
        (running(heartbeat=None, max_age_seconds=0), Health.HEALTHY, True, "no heartbeat is expected"),
        (running(heartbeat_known=False), Health.UNKNOWN, False, "drive"),
        (Observation(WorkerState.STOPPED), Health.MISSING, False, "should"),
        (Observation(WorkerState.STOPPED, paused=True), Health.UNKNOWN, True, "paused"),
        (Observation(WorkerState.STOPPED, enabled=False), Health.UNKNOWN, True, "not enabled"),
        (Observation(WorkerState.QUARANTINED), Health.UNKNOWN, True, "quarantined in the configuration"),
        (Observation(WorkerState.QUARANTINED, paused=True), Health.UNKNOWN, True, "paused; quarantined in"),
        (Observation(WorkerState.STARTING), Health.UNKNOWN, True, "starting"),
        (Observation(WorkerState.STARTING, paused=True), Health.UNKNOWN, True, "starting"),
        (Observation(WorkerState.STOPPING), Health.UNKNOWN, True, "stopping"),
        (Observation(WorkerState.STOPPED, frozen_seconds=60), Health.MISSING, False, "not running"),
        (Observation(WorkerState.STUCK), Health.UNKNOWN, False, "could not be ended"),
        (Observation(WorkerState.STUCK, paused=True), Health.UNKNOWN, False, "could not be ended"),
        (Observation(WorkerState.STOPPED, heartbeat=beat(1)), Health.MISSING, False, "not running"),
    ],
)
def test_what_was_seen_becomes_a_word_and_a_reason(seen: Observation, word: Health, fine: bool, said: str) -> None:
    verdict = health(seen, NOW)
    assert (verdict.health, verdict.fine) == (word, fine)
    assert said in verdict.reason


@pytest.mark.parametrize(
    ("document", "moment"),
    [
        ({"utc": "2026-02-05T14:30:00Z"}, NOW),
        ({"utc": "2026-02-05T14:30:00"}, NOW),
        ({"utc": "2026-02-05T15:30:00+01:00"}, NOW),
        ({"timestamp": "2026-02-05T14:30:00Z"}, NOW),
        ({"utc": "2026-02-05T14:30:00Z", "timestamp": "1999-01-01T00:00:00Z"}, NOW),
        ({"utc": "yesterday", "timestamp": "2026-02-05T14:30:00Z"}, NOW),
        ({"utc": None}, None),
        ({"utc": 1770301800}, None),
        ({"utc": ["2026-02-05T14:30:00Z"]}, None),
        ({"utc": "0001-01-01T00:00:00+14:00"}, None),
        ({"utc": "9999-12-31T23:59:59-14:00"}, None),
        ({}, None),
    ],
)
def test_the_time_of_a_heartbeat_is_utc_else_timestamp(document: dict[str, Any], moment: datetime | None) -> None:
    assert read_heartbeat(document).at == moment


@pytest.mark.parametrize("document", [{}, {"utc": "yesterday"}, {"utc": None, "timestamp": 7}])
def test_one_that_says_no_time_has_that_of_its_file(document: dict[str, Any]) -> None:
    assert read_heartbeat(document, NOW).at == NOW
    assert read_heartbeat({**document, "timestamp": "2026-02-05T14:00:00Z"}, NOW).at == ago(1800)


@pytest.mark.parametrize(
    ("document", "who"),
    [
        ({"pid": 4711, "hostname": "orion", "poll_seconds": 30}, (4711, "orion", 30.0)),
        ({"pid": "4711", "hostname": None, "poll_seconds": "30"}, (None, "", None)),
        ({"pid": True, "hostname": 7, "poll_seconds": True}, (None, "7", None)),
        ({"pid": 0, "poll_seconds": -1}, (None, "", None)),
        ({"pid": 2**31, "poll_seconds": float("nan")}, (None, "", None)),
        ({"pid": 10**400, "poll_seconds": 10**400}, (None, "", None)),
        ({}, (None, "", None)),
    ],
)
def test_who_beats_is_read_or_left_open(document: dict[str, Any], who: tuple[int | None, str, float | None]) -> None:
    found = read_heartbeat(document)
    assert (found.pid, found.hostname, found.poll_seconds) == who


@pytest.mark.parametrize(
    ("heartbeat", "well"),
    [
        ({"status": "running", "utc": "2026-02-05T14:29:00Z"}, True),
        ({"status": "Idle", "timestamp": "2026-02-05T14:29:00"}, True),
        ({"status": "running", "utc": "2026-02-05T14:25:00.001Z"}, True),
        ({"status": "running", "utc": "2026-02-05T14:25:00Z"}, False),
        ({"status": "running", "utc": "2026-02-05T14:31:00Z"}, False),
        ({"status": "broken", "utc": "2026-02-05T14:29:00Z"}, False),
        ({"status": "running", "utc": "2026-02-05T14:29:00Z", "errors": ["disk full"]}, False),
        ({"status": "running"}, False),
        ({}, False),
        (None, False),
        (beat(10), True),
    ],
)
def test_a_heartbeat_alone_is_well_or_not(heartbeat: Any, well: bool) -> None:
    assert is_watcher_healthy(heartbeat, NOW) is well


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"error": "disk full"}, "disk full"),
        ({"last_error": "disk full"}, "disk full"),
        ({"errors": ["a", 7]}, "a; 7"),
        ({"error": None, "last_error": "", "errors": []}, ""),
        ({"error": False}, ""),
        ({"error": {"code": 7}}, "{'code': 7}"),
        ({"error": "two\nlines\ttab\x1b[31m"}, r"two\nlines\ttab\x1b[31m"),
        ({"error": "\ud800"}, r"\ud800"),
        ({"error": [""], "last_error": "boom"}, "boom"),
        ({"error": " ", "last_error": [None, " \t"], "errors": ["boom"]}, "boom"),
        ({"errors": [None, "", "boom", False, " "]}, "boom"),
        ({"errors": [None]}, ""),
        ({"errors": [0, {}, []]}, ""),
        ({"error": "disk full", "last_error": "boom"}, "disk full"),
    ],
)
def test_an_error_is_told_in_one_printable_line(document: dict[str, Any], error: str) -> None:
    assert read_heartbeat(document).error == error


def test_megabytes_of_error_are_cut() -> None:
    found = read_heartbeat({"status": "s" * 10**6, "errors": ["\n" * 10**6] * 3})
    assert len(found.error) <= LONGEST_SAID
    assert len(found.status) <= LONGEST_SAID


def test_nothing_that_json_can_hold_breaks_the_reader() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    huge = json.loads("9" * 4300) * 10**300
    for key in ("status", "error", "errors", "utc"):
        for value in (nested, huge, [huge], {"x": huge}):
            found = read_heartbeat({key: value})
            assert found.at is None
            health(running(heartbeat=found), NOW).reason.encode()


@given(
    st.dictionaries(
        st.sampled_from(["status", "utc", "timestamp", "error", "last_error", "errors"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.lists(st.text(max_size=5)),
    )
)
@settings(max_examples=150, deadline=None)
def test_any_heartbeat_gives_a_verdict_in_one_line(document: dict[str, Any]) -> None:
    verdict = health(running(heartbeat=read_heartbeat(document)), NOW)
    assert verdict.reason.isprintable()
    assert verdict.reason
