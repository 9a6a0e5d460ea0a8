"""How long a call waits: for its limits, for what Slack asked, and while Slack is away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from bot.outbound.messages import HOME, WHISPER
from bot.outbound.rate_limits import LONGEST_HOLD_SECONDS, MINUTE, PER_MINUTE, Pace, gates, method
from supervisor_core.alerts.messages import NOTICE
from supervisor_core.storage.outbox import FILE, PendingMessage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_call_that_was_pending_does_not_end_the_wait_that_slack_asked_another_for() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.hold("chat.update", 30.0)
    pace.well("chat.update")
    assert pace.wait((), "chat.update") == 30.0
    assert pace.wait((), "chat.postMessage") == 0
    pace.hold("chat.update", 1.0)
    assert pace.wait((), "chat.update") == 30.0, "a shorter wait doesn't cut a longer one"
    clock.now += 30
    assert pace.wait((), "chat.update") == 0


def test_while_slack_is_away_each_wait_is_longer_up_to_a_bound_and_one_success_ends_it() -> None:
    clock = Clock()
    pace = Pace(clock)
    waits = []
    for _ in range(12):
        waits.append(pace.hold("*"))
        clock.now += waits[-1]
    assert waits == sorted(waits)
    assert waits[0] < 1
    assert waits[-1] == LONGEST_HOLD_SECONDS
    pace.hold("*")
    pace.well("*")
    assert pace.wait((), "*") == 0
    assert pace.hold("*") == waits[0]


def a_message(number: int, kind: str, **more: Any) -> PendingMessage:
    """One of many messages, each in a channel and a row of its own."""
    payload, now = {"channel": f"C{number}", "at": "now"}, datetime.now(UTC)
    return PendingMessage(number, 1, kind, str(number), payload, more.get("address", {}), 0, now, now, "")


STORMS: dict[str, Callable[[int], PendingMessage]] = {
    "edits": lambda number: a_message(number, NOTICE, address={"channel": "C", "ts": "1.2"}),
    "whispers": lambda number: a_message(number, WHISPER),
    "files": lambda number: a_message(number, FILE),
    "pages": lambda number: a_message(number, HOME),
}


@pytest.mark.parametrize("kind", STORMS)
def test_in_a_storm_no_minute_has_more_calls_than_slack_allows(kind: str) -> None:
    clock, calls = Clock(), list[float]()
    pace, begun = Pace(clock), clock.now
    while clock.now < begun + 5 * MINUTE:
        message = STORMS[kind](len(calls))
        clock.now += pace.wait(gates(message))
        pace.used(gates(message))
        calls.append(clock.now)
    allowed = PER_MINUTE[method(STORMS[kind](0))]
    most = max(sum(moment <= other < moment + MINUTE for other in calls) for moment in calls)
    assert most <= allowed
    assert most > allowed / 6, "and it isn't needlessly slow"
