"""Histories to be looked at: a quiet week, a flapping day, a deploy and its rollback, many workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from supervisor_core.alerts.flips import Flip, condition_spans, uptime
from supervisor_core.commands.command import Issuer
from supervisor_core.diagnosis.history import History, Mark
from supervisor_core.workers.conditions import WORKER, Condition, Target

UNTIL = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
ANNA, NIGHTLY = Issuer("slack:T1/U0ANNA", "Anna"), Issuer("schedule:nightly", "nightly")

Change = tuple[float, Condition]
"""Hours before the end, and what held from then on."""


def history(hours: float, changes: Sequence[Change], marks: Sequence[Mark] = (), worker_id: str = "OrionMX") -> History:
    """One that was well until the first of these changes."""
    since, flips, old = UNTIL - timedelta(hours=hours), [], Condition.WELL
    for number, (ago, new) in enumerate([(hours, Condition.WELL), *changes], 1):
        at = UNTIL - timedelta(hours=ago)
        flips.append(Flip(number, Target(WORKER, worker_id), old, new, "because", at, at))
        old = new
    held = tuple(condition_spans(flips, since, UNTIL))
    return History(worker_id, since, UNTIL, held, uptime(flips, since, UNTIL), tuple(marks))


def mark(ago: float, name: str, issuer: Issuer = ANNA, came: str = ": done") -> Mark:
    """Something that was asked for so many hours before the end."""
    return Mark(UNTIL - timedelta(hours=ago), name, (f"{name} by ", issuer, came))


W, DOWN, STALE, PAUSED, BAD, GONE = (
    Condition.WELL,
    Condition.DOWN,
    Condition.STALE,
    Condition.PAUSED,
    Condition.DEGRADED,
    Condition.RESTART_LIMIT,
)


def quiet_week() -> History:
    """Nothing but a restart each night, and one pause."""
    nights = [mark(24 * day + 11.5, "restart", NIGHTLY) for day in range(6, -1, -1)]
    pauses = [mark(76, "pause"), mark(74, "resume")]
    marks = sorted([*nights, *pauses], key=lambda each: each.at)
    return history(168, [(76, PAUSED), (74, W)], marks)


def flapping_day() -> History:
    """It hangs and comes back, again and again, and is given up."""
    changes: list[Change] = []
    for number in range(14):
        begun = 19 - number * 1.1
        changes += [(begun, STALE if number % 3 else DOWN), (begun - 0.1 - 0.03 * (number % 5), W)]
    changes += [(2.4, GONE), (1.2, W)]
    return history(24, changes, [mark(9.4, "restart"), mark(5.0, "restart"), mark(1.2, "restart")])


def deploy_and_rollback() -> History:
    """An update that degrades and then breaks it; the rollback mends it."""
    return history(
        24,
        [(6.0, BAD), (5.2, DOWN), (4.1, W)],
        [mark(15.0, "restart"), mark(6.1, "update"), mark(4.1, "rollback")],
    )


def many(count: int = 20) -> list[History]:
    """A row for each."""
    kinds: list[Sequence[Change]] = [
        [],
        [(10, STALE), (9, W)],
        [(20, PAUSED)],
        [(6, BAD), (5, DOWN), (4, W)],
        [(3, GONE)],
    ]
    return [
        history(24, kinds[number % len(kinds)], [mark(4 + number / 2, "restart")], f"Worker-{number:02d}")
        for number in range(count)
    ]
