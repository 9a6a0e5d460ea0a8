"""Health: one table of what was seen, with the word and whether somebody should look."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.workers.health import (
    Health,
    Heartbeat,
    WorkerState,
    health,
    is_watcher_healthy,
    read_heartbeat,
)
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.status import WorkerStatus
from tests.support.daemon.worker_statuses import worker_status
from tests.support.sampling import examples

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def beat(seconds: float, status: str = "running", error: str = "", progress: float | None = None) -> Heartbeat:
    """What it said so many seconds ago; `progress`: how long ago it last got somewhere."""
    return Heartbeat(status, ago(seconds), error, progress=None if progress is None else ago(progress))


def status(state: WorkerState, **facts: Any) -> WorkerStatus:
    return worker_status("North", NOW, state, **facts)


def running(**facts: Any) -> WorkerStatus:
    return status(**{"state": WorkerState.RUNNING, "started_at": ago(3600), "heartbeat": beat(10), **facts})


@pytest.mark.parametrize(
    ("seen", "word", "fine", "said"),
    [
        (running(), Health.HEALTHY, True, "10 s ago"),
        (running(heartbeat=beat(300)), Health.STALE, False, "heartbeat 5 min ago"),
        (running(heartbeat=beat(-5)), Health.HEALTHY, True, "0 s ago"),
        (running(heartbeat=beat(-5.1)), Health.UNKNOWN, False, "check the clock"),
        (running(heartbeat=None), Health.MISSING, False, "no heartbeat"),
        (running(heartbeat=None, started_at=ago(10)), Health.HEALTHY, True, "first heartbeat"),
        (running(heartbeat=None, started_at=ago(300)), Health.MISSING, False, "no heartbeat"),
        (running(heartbeat=None, started_at=None), Health.MISSING, False, "no heartbeat"),
        (running(heartbeat=beat(9999), started_at=ago(10)), Health.HEALTHY, True, "first heartbeat"),
        (
            running(heartbeat=beat(9999), started_at=ago(301)),
            Health.MISSING,
            False,
            "of its own since it started 5 min 1 s ago",
        ),
        (running(heartbeat=beat(9999), started_at=ago(10000)), Health.STALE, False, "2 h 46 min ago (limit 5 min)"),
        (running(heartbeat=beat(3601, "broken", "disk full")), Health.MISSING, False, "no heartbeat of its own"),
        (running(heartbeat=beat(20), started_at=ago(-3600)), Health.HEALTHY, True, "heartbeat 20 s ago"),
        (running(heartbeat=None, started_at=ago(-3600)), Health.UNKNOWN, False, "clock"),
        (
            running(heartbeat=beat(350), lag_seconds=60),
            Health.HEALTHY,
            True,
            "350 s ago; this host was suspended or busy",
        ),
        (running(heartbeat=beat(360), lag_seconds=60), Health.STALE, False, "6 min ago, without 60 s"),
        (running(heartbeat=None, started_at=ago(350), lag_seconds=60), Health.HEALTHY, True, "first heartbeat"),
        (running(probe_failing="its probe x fails"), Health.DEGRADED, False, "its probe x fails"),
        (running(probe_failing="its probe x", paused=True), Health.DEGRADED, False, "paused; its probe x"),
        (running(probe_failing="its probe x", max_age_seconds=0), Health.DEGRADED, False, "its probe x"),
        (running(probe_failing="its probe x", heartbeat=beat(400)), Health.STALE, False, "(limit 5 min); its probe x"),
        (
            running(probe_failing="its probe x", heartbeat_known=False),
            Health.DEGRADED,
            False,
            "unreachable; its probe x",
        ),
        (running(probe_failing="its probe x", heartbeat=beat(-99)), Health.DEGRADED, False, "writes it; its probe x"),
        (status(WorkerState.STOPPED, paused=True, probe_failing="its probe x"), Health.UNKNOWN, True, "paused"),
        (running(heartbeat=beat(10, "error")), Health.DEGRADED, False, "'error'"),
        (running(heartbeat=beat(10, "RUNNING")), Health.HEALTHY, True, "heartbeat"),
        (running(heartbeat=beat(10, "running", "disk full")), Health.DEGRADED, False, "disk full"),
        (running(heartbeat=beat(400, "running", "disk full")), Health.STALE, False, "6 min 40 s ago"),
        (running(heartbeat=beat(10, "paused")), Health.DEGRADED, False, "'paused'"),
        (running(heartbeat=beat(10, "paused"), paused=True), Health.HEALTHY, True, "paused; running, heartbeat"),
        (running(heartbeat=beat(10, "running"), paused=True), Health.HEALTHY, True, "paused; running, heartbeat"),
        (running(heartbeat=beat(400, "paused"), paused=True), Health.STALE, False, "paused; last heartbeat"),
        (running(heartbeat=beat(10, "paused"), resumed_at=ago(9)), Health.HEALTHY, True, "heartbeat 10 s ago"),
        (running(heartbeat=beat(10, "paused"), resumed_at=ago(11)), Health.DEGRADED, False, "'paused'"),
        (
            running(heartbeat=beat(10, progress=412)),
            Health.DEGRADED,
            False,
            "made no progress for 6 min 52 s (limit 5 min)",
        ),
        (running(heartbeat=beat(10, progress=350), lag_seconds=60), Health.HEALTHY, True, "10 s ago"),
        (
            running(heartbeat=beat(10, progress=360), lag_seconds=60),
            Health.DEGRADED,
            False,
            "6 min, without 60 s",
        ),
        (running(heartbeat=beat(400, progress=500)), Health.STALE, False, "heartbeat 6 min 40 s ago"),
        (running(heartbeat=beat(10, "running", "disk full", 500)), Health.DEGRADED, False, "disk full"),
        (running(heartbeat=beat(10, progress=500), paused=True), Health.HEALTHY, True, "paused; running, heartbeat"),
        (running(heartbeat=beat(10, progress=500), resumed_at=ago(299)), Health.HEALTHY, True, "10 s ago"),
        (running(heartbeat=beat(10, progress=500), resumed_at=ago(301)), Health.DEGRADED, False, "for 5 min 1 s"),
        (running(heartbeat=beat(10, progress=9999), started_at=ago(299)), Health.HEALTHY, True, "10 s ago"),
        (running(heartbeat=beat(10, progress=500), max_age_seconds=0), Health.HEALTHY, True, "running"),
        (running(frozen_seconds=10), Health.FROZEN, False, "signal for 10 s"),
        (running(frozen_seconds=9.9), Health.HEALTHY, True, "heartbeat 10 s ago; stopped by a signal"),
        (running(frozen_seconds=0.0, heartbeat=beat(400)), Health.STALE, False, "stopped by a signal for 0 s"),
        (running(frozen_seconds=60, heartbeat_known=False), Health.FROZEN, False, "signal"),
        (running(heartbeat=None, max_age_seconds=0), Health.HEALTHY, True, "running"),
        (running(heartbeat_known=False), Health.UNKNOWN, False, "drive"),
        (status(WorkerState.STOPPED), Health.MISSING, False, "should"),
        (status(WorkerState.STOPPED, paused=True), Health.UNKNOWN, True, "paused"),
        (status(WorkerState.STOPPED, enabled=False), Health.UNKNOWN, True, "not enabled"),
        (status(WorkerState.QUARANTINED), Health.UNKNOWN, True, "quarantined in the configuration"),
        (status(WorkerState.QUARANTINED, paused=True), Health.UNKNOWN, True, "paused; quarantined in"),
        (status(WorkerState.STARTING), Health.UNKNOWN, True, "starting"),
        (status(WorkerState.STOPPING), Health.UNKNOWN, True, "stopping"),
        (status(WorkerState.STUCK), Health.UNKNOWN, False, "can't be killed"),
    ],
)
def test_what_was_seen_becomes_a_word_and_a_reason(seen: WorkerStatus, word: Health, fine: bool, said: str) -> None:
    verdict = health(seen, NOW)
    assert (verdict.health, verdict.fine) == (word, fine)
    assert said in verdict.reason


def test_a_worker_that_rests_without_a_pause_has_its_flag_named() -> None:
    reason = health(running(heartbeat=beat(1, status="paused")), NOW).reason
    assert reason.endswith("but isn't paused; check its pause flag on the drive, or remove it with resume")


@pytest.mark.parametrize(
    ("at", "pid", "own"),
    [
        ("14:29:58.400", 4711, True),
        ("14:29:59", None, True),
        ("14:29:58", 4711, True),
        ("14:29:58", 4712, False),
        ("14:29:58", None, False),
        ("14:29:57", 4711, False),
        ("14:29:58.399", 4711, False),
        ("14:29:59", 4712, True),
    ],
    ids=str,
)
def test_a_heartbeat_in_the_second_of_the_start_is_its_own_where_its_pid_says_so(
    at: str, pid: int | None, own: bool
) -> None:
    """Another PID alone is nothing against it: a child of the process that was started may write the heartbeat."""
    started = datetime.fromisoformat("2026-02-05T14:29:58.400Z")
    word = Heartbeat("broken", datetime.fromisoformat(f"2026-02-05T{at}Z"), pid=pid)
    verdict = health(running(heartbeat=word, started_at=started, pid=4711), NOW)
    assert (verdict.health is Health.DEGRADED) is own
    assert own or "first heartbeat" in verdict.reason


@pytest.mark.parametrize(
    ("document", "moment"),
    [
        ({"utc": "2026-02-05T14:30:00Z"}, NOW),
        ({"utc": "2026-02-05T14:30:00"}, NOW),
        ({"utc": "2026-02-05T15:30:00+01:00"}, NOW),
        ({"utc": "2026-02-05T14:30:00Z", "timestamp": "1999-01-01T00:00:00Z"}, NOW),
        ({"utc": "yesterday", "timestamp": "2026-02-05T14:30:00Z"}, NOW),
        ({"utc": None}, None),
        ({"utc": 1770301800}, None),
        ({"utc": "0001-01-01T00:00:00+14:00"}, None),
        ({"utc": "9999-12-31T23:59:59-14:00"}, None),
        ({}, None),
    ],
)
def test_the_time_of_a_heartbeat_is_utc_else_timestamp(document: dict[str, Any], moment: datetime | None) -> None:
    assert read_heartbeat(document).at == moment


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        ("2026-02-05T14:29:00Z", ago(60)),
        ("2026-02-05T15:29:00+01:00", ago(60)),
        ("2026-02-05T14:29:00", ago(60)),
        ("2026-02-05T14:30:04Z", ago(-4)),
        ("2026-02-05T14:30:06Z", None),
        ("9999-12-31T23:59:59Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday", None),
        (None, None),
        (["2026-02-05T14:29:00Z"], None),
    ],
    ids=str,
)
def test_a_progress_that_can_not_be_so_tells_nothing(told: object, moment: datetime | None) -> None:
    document = {"status": "running", "utc": "2026-02-05T14:30:00Z", "progress_utc": told}
    found = read_heartbeat(document)
    assert (found.at, found.progress) == (NOW, moment)
    assert health(running(heartbeat=found), NOW).fine


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


def test_a_heartbeat_alone_is_well_or_not() -> None:
    for time in ("2026-02-05T14:29:00Z", "2026-02-05T14:25:00.001Z"):
        assert is_watcher_healthy({"status": "running", "utc": time}, NOW)
    for time in ("2026-02-05T14:25:00Z", "2026-02-05T14:31:00Z"):
        assert not is_watcher_healthy({"status": "running", "utc": time}, NOW)
    good = {"status": "Idle", "timestamp": "2026-02-05T14:29:00"}
    assert is_watcher_healthy(good, NOW)
    for bad in ({"status": "broken"}, {"errors": ["disk full"]}, {"progress_utc": "2026-02-05T14:25:00Z"}):
        assert not is_watcher_healthy({**good, **bad}, NOW)
    assert is_watcher_healthy(beat(10), NOW)
    assert not any(is_watcher_healthy(missing, NOW) for missing in (None, {}, {"status": "running"}))


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"error": "disk full"}, "disk full"),
        ({"last_error": "disk full"}, "disk full"),
        ({"errors": ["a", 7]}, "a; 7"),
        ({"error": None, "last_error": "", "errors": []}, ""),
        ({"error": {"code": 7}}, "{'code': 7}"),
        ({"error": "two\nlines\ttab\x1b[31m"}, r"two\nlines\ttab\x1b[31m"),
        ({"error": "\ud800"}, r"\ud800"),
        ({"error": [""], "last_error": "boom"}, "boom"),
        ({"error": " ", "last_error": [None, " \t"], "errors": ["boom"]}, "boom"),
        ({"errors": [None, "", "boom", False, " "]}, "boom"),
        ({"error": "disk full", "last_error": "boom"}, "disk full"),
    ],
)
def test_an_error_is_told_in_one_printable_line(document: dict[str, Any], error: str) -> None:
    assert read_heartbeat(document).error == error


def test_nothing_that_json_can_hold_breaks_the_reader() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    huge = json.loads("9" * 4300) * 10**300
    for key in ("status", "error", "errors", "utc", "progress_utc"):
        for value in (nested, huge, [huge], {"x": huge}):
            found = read_heartbeat({key: value})
            assert found.at is None
            health(running(heartbeat=found), NOW).reason.encode()


@given(
    st.dictionaries(
        st.sampled_from(["status", "utc", "timestamp", "error", "last_error", "errors", "progress_utc"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.lists(st.text(max_size=5)),
    )
)
@settings(max_examples=examples(150))
def test_any_heartbeat_gives_a_verdict_in_one_line(document: dict[str, Any]) -> None:
    verdict = health(running(heartbeat=read_heartbeat(document)), NOW)
    assert verdict.reason.isprintable()
    assert verdict.reason


SECONDS = st.floats(0, 10_000, allow_nan=False)
BEATS = st.builds(
    beat,
    st.floats(-100, 10_000),
    st.sampled_from(["running", "broken", "paused"]),
    st.sampled_from(["", "x"]),
    st.none() | st.floats(-5, 10_000),
)
SIGHTS = st.builds(
    status,
    state=st.sampled_from(WorkerState),
    paused=st.booleans(),
    enabled=st.booleans(),
    frozen_seconds=st.none() | SECONDS,
    started_at=st.none() | st.floats(-100, 10_000).map(ago),
    resumed_at=st.none() | SECONDS.map(ago),
    pid=st.none() | st.just(4711),
    heartbeat=st.none() | BEATS,
    heartbeat_known=st.booleans(),
    max_age_seconds=st.sampled_from([0.0, 20.0, 300.0]),
    probe_failing=st.sampled_from(["", "its probe x fails"]),
    lag_seconds=SECONDS,
)


@given(SIGHTS)
def test_a_running_worker_whose_probe_fails_is_never_fine_and_its_probe_is_named(
    seen: WorkerStatus,
) -> None:
    verdict = health(replace(seen, state=WorkerState.RUNNING, probe_failing="its probe x fails"), NOW)
    assert not verdict.fine
    assert verdict.health not in (Health.HEALTHY, Health.UNKNOWN)
    assert verdict.health is Health.FROZEN or "its probe x fails" in verdict.reason


@given(SIGHTS, SECONDS)
def test_lag_only_ever_excuses(seen: WorkerStatus, more: float) -> None:
    excused = health(replace(seen, lag_seconds=seen.lag_seconds + more), NOW)
    silent = (Health.STALE, Health.MISSING)
    if health(seen, NOW).health not in silent:
        assert excused.health not in silent
    if health(seen, NOW).fine:
        assert not excused.stalled


@given(SIGHTS)
def test_without_progress_it_is_worse_only_where_all_else_is_well(seen: WorkerStatus) -> None:
    silent = replace(seen, heartbeat=seen.heartbeat and seen.heartbeat._replace(progress=None))
    verdict, otherwise = health(seen, NOW), health(silent, NOW)
    if verdict.stalled:
        assert verdict.health is Health.DEGRADED
        assert otherwise.fine or seen.probe_failing
    else:
        assert verdict == otherwise


@given(SIGHTS, BEATS, BEATS, SECONDS)
def test_what_a_dead_process_said_last_makes_no_difference(
    seen: WorkerStatus, one: Heartbeat, other: Heartbeat, earlier: float
) -> None:
    start = ago(earlier)
    before = [word._replace(at=start - timedelta(seconds=0.5), pid=7) for word in (one, other)]
    seen = replace(seen, started_at=start)
    verdicts = {health(replace(seen, heartbeat=word), NOW)[::2] for word in before}
    silent = health(replace(seen, heartbeat=None), NOW)
    assert len({health(replace(seen, heartbeat=word), NOW) for word in before}) == 1
    assert verdicts == {silent[::2]}


def test_a_running_worker_that_does_nothing_hangs_and_one_that_is_paused_or_unknown_does_not() -> None:
    for seen, words in (
        (running(heartbeat=beat(400)), "heartbeat 6 min 40 s ago"),
        (running(heartbeat=None), "no heartbeat"),
        (running(heartbeat=beat(4000)), "no heartbeat of its own"),
        (running(frozen_seconds=10, heartbeat_known=False), "stopped by a signal"),
        (running(probe_failing="its probe x fails", max_age_seconds=0), "its probe x fails"),
        (running(heartbeat=beat(-100), probe_failing="its probe x fails"), "its probe x fails"),
    ):
        assert words in seen.hangs
        assert replace(seen, pause=Pause()).hangs == ""
        for state in WorkerState:
            assert state is WorkerState.RUNNING or replace(seen, state=state).hangs == ""
    for seen in (
        running(),
        running(heartbeat=None, max_age_seconds=0),
        running(heartbeat=None, started_at=NOW),
        running(heartbeat=beat(350), lag_seconds=60),
        running(heartbeat=beat(-100)),
        running(heartbeat=beat(1, "broken", "disk full")),
        running(frozen_seconds=9),
        running(heartbeat=beat(400), heartbeat_known=False),
        running(heartbeat_known=False, probe_failing="its probe x fails"),
    ):
        assert seen.hangs == ""


@given(SIGHTS)
def test_what_is_hung_runs_is_not_paused_and_is_not_well(seen: WorkerStatus) -> None:
    if seen.hangs:
        assert seen.state is WorkerState.RUNNING
        assert not seen.paused
        assert not health(seen, NOW).fine
