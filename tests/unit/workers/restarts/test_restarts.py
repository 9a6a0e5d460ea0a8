"""What comes after a worker has ended by itself: at once, after a pause, not at all, or quarantine.

The histories here are lived on a clock of numbers: `live` asks for each end what comes next, and does it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import repeat

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from supervisor_core.config.worker_settings import RestartSettings
from supervisor_core.workers.restarts.policy import (
    HEALTHY_SECONDS,
    LONGEST_PAUSE_SECONDS,
    WINDOW,
    Next,
    RestartDecision,
    RestartReason,
    WorkerRun,
    automatic_starts,
    decide,
    failures_in_a_row,
    pause_seconds,
)
from tests.support.sampling import examples

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
POLICIES = ("never", "on-failure", "always")
DEFAULT = RestartSettings()
ALWAYS = RestartSettings(policy="always")
STARTED = (Next.START, Next.WAIT)

chances = st.floats(0, 1)
lengths = st.floats(0, 7200) | st.sampled_from((0.0, 2.0, 59.9, 60.0, 660.0, 1800.0))
backoffs = st.sampled_from((0.0, 0.001, 5.0, 299.0, 301.0, 604800.0)) | st.floats(0, 400)


def rules_of(policy: str, **more: float) -> RestartSettings:
    """The rules as a configuration has them."""
    return msgspec.convert({"policy": str(policy), **more}, RestartSettings)


def life(seconds: float, exit_code: int | None = 1, *, ended_at: datetime = NOW, **more: bool) -> WorkerRun:
    """A life of so many seconds that ended then."""
    return WorkerRun(ended_at - timedelta(seconds=seconds), ended_at, exit_code, **more)


def lives(*seconds: float) -> list[WorkerRun]:
    """Lives that all failed."""
    return [life(each) for each in seconds]


def live(
    rules: RestartSettings, lengths: Iterable[float], chance: float = 0.5, exit_code: int = 1
) -> tuple[list[datetime], list[RestartDecision]]:
    """The automatic starts of a worker that a person started first, and the decision after each of its lives."""
    started, past, starts, decisions = NOW, list[WorkerRun](), list[datetime](), list[RestartDecision]()
    for seconds in lengths:
        ended = started + timedelta(seconds=seconds)
        past.append(WorkerRun(started, ended, exit_code, start_asked=not past))
        decision = decide(rules, past, automatic_starts(starts, ended), ended, chance)
        decisions.append(decision)
        if decision.due_at is None:
            break
        started = decision.due_at
        starts.append(started)
    return starts, decisions


def most_within_an_hour(starts: list[datetime]) -> int:
    """How many starts the fullest hour has: one of those that begin with a start."""
    return max((sum(1 for each in starts if begin <= each < begin + WINDOW) for begin in starts), default=0)


@given(st.lists(lengths, max_size=60), st.integers(0, 12), backoffs, chances, st.sampled_from(["on-failure", "always"]))
@settings(max_examples=examples(200))
@example([0.0] * 60, 5, 0.0, 0.0, "always")
@example([720.0] * 60, 5, 5.0, 0.0, "always")
def test_no_hour_has_more_automatic_starts_than_are_allowed(
    seconds: list[float], limit: int, backoff: float, chance: float, policy: str
) -> None:
    rules = rules_of(policy, max_per_hour=limit, backoff_seconds=backoff)
    starts, decisions = live(rules, seconds, chance)
    assert most_within_an_hour(starts) <= limit
    assert all(each.what in STARTED for each in decisions[:-1])


@given(
    st.lists(lengths, max_size=8), st.integers(0, 12), backoffs, chances, st.integers(0, 12), st.sampled_from(POLICIES)
)
def test_a_decision_is_never_in_the_past_and_has_a_moment_exactly_where_it_starts_something(
    seconds: list[float], limit: int, backoff: float, chance: float, starts: int, policy: str
) -> None:
    rules = rules_of(policy, max_per_hour=limit, backoff_seconds=backoff)
    decision = decide(rules, lives(*seconds), starts, NOW, chance)
    assert (decision.due_at is not None) == (decision.what in STARTED)
    if decision.due_at is not None:
        assert starts < limit
        assert decision.due_at == NOW + timedelta(seconds=decision.pause_seconds)
        assert (decision.pause_seconds > 0) == (decision.what is Next.WAIT)
        assert 0 <= decision.pause_seconds <= LONGEST_PAUSE_SECONDS
    assert decision.words
    assert decision == decide(rules, lives(*seconds), starts, NOW, chance), "nothing else decides"


@given(backoffs, st.integers(1, 5000), chances)
def test_a_pause_lies_within_a_quarter_of_its_middle_and_never_shrinks_with_more_failures(
    backoff: float, failures: int, chance: float
) -> None:
    pause = pause_seconds(backoff, failures, chance)
    middle = min(backoff * 2.0 ** min(failures - 1, 64), LONGEST_PAUSE_SECONDS)
    assert middle * 0.75 <= pause <= min(middle * 1.25, LONGEST_PAUSE_SECONDS)
    assert pause <= pause_seconds(backoff, failures + 1, chance)
    assert pause_seconds(backoff, failures, 0) <= pause <= pause_seconds(backoff, failures, 1)


def test_the_pauses_double_from_the_configured_one_up_to_five_minutes() -> None:
    many = msgspec.structs.replace(DEFAULT, max_per_hour=100)
    _, decisions = live(many, [600.0, *repeat(2.0, 9)])
    assert [each.pause_seconds for each in decisions] == [0, 5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert [each.reason for each in decisions] == [RestartReason.LIVED_LONG, *repeat(RestartReason.BACKING_OFF, 9)]


@pytest.mark.parametrize(("seconds", "what"), [(HEALTHY_SECONDS, Next.START), (HEALTHY_SECONDS - 0.01, Next.WAIT)])
def test_the_restart_after_a_minute_of_life_is_immediate(seconds: float, what: Next) -> None:
    assert decide(DEFAULT, lives(2, 2, seconds), 0, NOW, 0.5).what is what


def test_a_worker_that_lives_two_seconds_for_ever_is_quarantined_within_minutes() -> None:
    starts, decisions = live(DEFAULT, repeat(2.0))
    assert len(starts) == DEFAULT.max_per_hour
    assert starts[-1] - NOW < timedelta(minutes=5)
    last = decisions[-1]
    assert (last.what, last.reason) == (Next.QUARANTINE, RestartReason.TOO_MANY_STARTS)
    assert "5 restarts in an hour" in last.words
    assert "exited (code 1) after 2.0 s" in last.words
    assert "resume or restart" in last.words


def test_a_worker_that_lives_eleven_minutes_has_its_five_starts_and_is_quarantined_at_the_sixth() -> None:
    """Started at 11, 22, 33, 44 and 55 minutes; at 66 all five lie within the hour, since 66 - 11 is 55."""
    starts, decisions = live(DEFAULT, repeat(660.0))
    assert [(each - NOW).total_seconds() / 60 for each in starts] == [11, 22, 33, 44, 55]
    assert decisions[-1].what is Next.QUARANTINE


@pytest.mark.parametrize(
    ("policy", "exit_code", "reason"),
    [
        ("never", 1, RestartReason.POLICY_NEVER),
        ("never", 0, RestartReason.POLICY_NEVER),
        ("never", None, RestartReason.POLICY_NEVER),
        ("on-failure", 0, RestartReason.ENDED_WELL),
        ("on-failure", 1, RestartReason.LIVED_LONG),
        ("on-failure", -9, RestartReason.LIVED_LONG),
        ("on-failure", None, RestartReason.LIVED_LONG),
        ("always", 0, RestartReason.LIVED_LONG),
        ("always", None, RestartReason.LIVED_LONG),
    ],
)
def test_the_policy_says_after_which_end_it_is_started(
    policy: str, exit_code: int | None, reason: RestartReason
) -> None:
    decision = decide(rules_of(policy), [life(100, exit_code)], 0, NOW, 0.5)
    assert decision.reason is reason
    assert (decision.what is Next.REST) == (reason is not RestartReason.LIVED_LONG)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_somebody_stopped_rests_whatever_the_policy_and_however_often_it_was_started(policy: str) -> None:
    decision = decide(rules_of(policy), [life(2, end_asked=True)], 99, NOW, 0.5)
    assert (decision.what, decision.reason) == (Next.REST, RestartReason.ASKED_FOR)


def test_one_that_ends_well_at_once_under_always_waits_each_time_and_ends_in_quarantine() -> None:
    _, decisions = live(ALWAYS, repeat(0.0), exit_code=0)
    assert [each.pause_seconds for each in decisions[:-1]] == [5.0] * 5
    assert decisions[-1].what is Next.QUARANTINE


def test_a_start_or_a_stop_by_a_person_begins_the_row_anew() -> None:
    assert failures_in_a_row(lives(2, 2, 2)) == 3
    assert failures_in_a_row([*lives(2, 2, 2), life(2, start_asked=True)]) == 1
    assert failures_in_a_row([*lives(2, 2, 2), life(2, end_asked=True), *lives(2)]) == 1
    assert failures_in_a_row([*lives(2, 2, 2), life(2, 0), *lives(2)]) == 1
    assert failures_in_a_row([*lives(2, 2), life(61), *lives(2, 2)]) == 2
    assert failures_in_a_row([]) == 0


def test_without_a_configured_pause_there_is_none() -> None:
    decision = decide(RestartSettings(backoff_seconds=0), lives(2, 2), 0, NOW, 1)
    assert (decision.what, decision.reason, decision.due_at) == (Next.START, RestartReason.NO_BACKOFF, NOW)


@given(st.integers(-(10**8), 10**8), st.integers(-(10**8), 10**8))
def test_a_clock_that_is_set_during_a_life_does_not_matter_where_its_length_was_measured(one: int, other: int) -> None:
    ended = NOW + timedelta(seconds=one)
    now = NOW + timedelta(seconds=other)
    past = [WorkerRun(NOW, ended, 1, lived_seconds=2.0)]
    decision = decide(DEFAULT, past, 0, now, 0.5)
    assert (decision.what, decision.due_at) == (Next.WAIT, now + timedelta(seconds=5))


@given(st.integers(-(10**8), 10**8), chances)
def test_a_kept_decision_blocks_for_no_longer_than_its_pause_wherever_the_clock_is_set(
    jump: int, chance: float
) -> None:
    decision = decide(DEFAULT, lives(2, 2, 2), 0, NOW, chance)
    later = NOW + timedelta(seconds=jump)
    read = decision.at(later)
    assert read.due_at is not None
    assert decision.due_at is not None
    assert read.due_at <= later + timedelta(seconds=decision.pause_seconds)
    assert read.due_at == decision.due_at or jump < 0, "while the clock goes on it stays where it is"
    assert read.at(later + timedelta(seconds=1)) == read
    if jump < 0:
        assert read.due_at > later, "and it does not start without a pause"


@pytest.mark.parametrize(
    ("minutes", "counted"),
    [(0, True), (59, True), (60, False), (100, False), (-1, True), (-59, True), (-60, False), (-(10**6), False)],
)
def test_a_start_counts_for_an_hour_also_one_from_before_the_clock_was_set_back(minutes: int, counted: bool) -> None:
    assert automatic_starts([NOW - timedelta(minutes=minutes)], NOW) == counted


def test_a_clock_set_back_again_and_again_gives_no_endless_starts() -> None:
    """Each time by ten minutes: what was started shortly before still counts."""
    starts = list[datetime]()
    now = NOW
    for _ in range(100):
        if decide(DEFAULT, lives(2), automatic_starts(starts, now), now, 0.5).what is Next.QUARANTINE:
            break
        starts.append(now)
        now -= timedelta(minutes=10)
    assert len(starts) <= 6


def test_restarts_that_do_not_count_never_quarantine_and_always_wait() -> None:
    """With the shared drive away, a worker without a backoff isn't restarted in a loop either."""
    rules = RestartSettings(backoff_seconds=0, max_per_hour=1)
    decision = decide(rules, lives(*repeat(2.0, 9)), None, NOW, 0.5)
    assert (decision.what, decision.pause_seconds) == (Next.WAIT, 256.0)
    assert decision.words.endswith("(not counted while the shared drive is away)")
    assert decide(rules, lives(2.0), None, NOW, 0.5).pause_seconds == 1.0
    assert decide(rules, lives(600.0), None, NOW, 0.5).what is Next.START, "a long run is no loop"
