"""Flapping: a worker that changes so often within so long that a change is no news any more. Pure, from its flips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from supervisor_core.domain.conditions import FLAPPING, WORKER, Condition, Reading, Severity, Target
from supervisor_core.domain.flips import Flip
from supervisor_core.domain.phrases import span

_NO_CHANGE = (Condition.UNKNOWN, Condition.PAUSED)
"""From one of these, or to one: nobody knew, or somebody wanted it so."""


@dataclass(frozen=True, slots=True)
class FlapRules:
    """So many changes within so long; and without a change for as long it is over."""

    flips: int
    within: timedelta


def target_of(worker_id: str) -> Target:
    """What is in trouble when this worker flaps."""
    return Target(FLAPPING, worker_id)


def worker_of(worker_id: str) -> Target:
    """The worker itself."""
    return Target(WORKER, worker_id)


def flaps(past: Sequence[Flip], now: datetime, rules: FlapRules, since: datetime | None = None) -> Reading | None:
    """Whether a worker whose newest flips these are, in their order, flaps; None where it does not, and did not before.
    `since`: when its flapping began, where that is known already."""
    begun = since if since is not None else now - rules.within
    counted = [flip for flip in past if _counts(flip) and (flip.at >= begun if since is not None else flip.at > begun)]
    if since is None and len(counted) < rules.flips:
        return None
    if past and past[-1].new is Condition.PAUSED:
        return Reading(Condition.WELL, f"it rests: {past[-1].reason}", past[-1].at)
    if not counted:
        return calm(past[-1].new if past else Condition.WELL, now, rules)
    critical = any(flip.new.severity is Severity.CRITICAL for flip in counted)
    severity = Severity.CRITICAL if critical else Severity.WARNING
    return Reading(Condition.FLAPPING, _words(counted), counted[0].at, severity=severity)


def calm(condition: Condition, now: datetime, rules: FlapRules) -> Reading:
    """It did not change for long enough, and is as it is."""
    still = span(rules.within.total_seconds())
    return Reading(Condition.WELL, f"it has not changed for {still}, and is {condition} now", now)


def _counts(flip: Flip) -> bool:
    return flip.old not in _NO_CHANGE and flip.new not in _NO_CHANGE


def _words(counted: Sequence[Flip]) -> str:
    lasted = span((counted[-1].at - counted[0].at).total_seconds())
    worst = max((flip.new for flip in counted), key=lambda each: each.rank)
    often = sum(1 for flip in counted if not flip.new.fine)
    return f"it changed {len(counted)} times in {lasted}, {often} of them for the worse, at worst to {worst}"
