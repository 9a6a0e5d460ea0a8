"""Flapping: a worker that changes too often, decided from its flips.

Flapping is a condition of a target of its own, with flips and an alert. The worker's single alerts are folded into that
alert until it closes: when the worker hasn't changed for a while. Quarantine isn't calm, so it keeps the alert open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.flips import CurrentCondition, Flip
from supervisor_core.common.times import format_span
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.workers.conditions import (
    FLAPPING,
    WORKER,
    Condition,
    Reading,
    Severity,
    Target,
    TargetReading,
)

_NO_CHANGE = (Condition.UNKNOWN, Condition.PAUSED)
"""A change from or to one of these doesn't count: it is unknown or intended."""


@dataclass(frozen=True, slots=True)
class FlapRules:
    """A worker flaps with so many flips within this time, and recovers after the same time without one."""

    flips: int
    within: timedelta


def target_of(worker_id: str) -> Target:
    return Target(FLAPPING, worker_id)


def worker_of(worker_id: str) -> Target:
    return Target(WORKER, worker_id)


def flaps(past: Sequence[Flip], now: datetime, rules: FlapRules, since: datetime | None = None) -> Reading | None:
    """Read the flapping of a worker from its newest flips, in order; None if it isn't and wasn't flapping.

    `since` is the start of its flapping, if known. A worker that is well after a person ended its quarantine starts
    over.
    """
    begun = since if since is not None else now - rules.within
    counted = [
        flip
        for flip, following in zip_longest(past, past[1:])
        if _counts(flip, following) and (flip.at >= begun if since is not None else flip.at > begun)
    ]
    if since is None and len(counted) < rules.flips:
        return None
    if past and past[-1].new is Condition.PAUSED:
        return Reading(Condition.WELL, f"no longer expected to run: {past[-1].reason}", past[-1].at)
    if since is not None and past and past[-1].old is Condition.RESTART_LIMIT and past[-1].new is Condition.WELL:
        return Reading(Condition.WELL, "healthy since its quarantine ended", past[-1].at)
    if not counted:
        return calm(past[-1].new if past else Condition.WELL, now, rules)
    critical = any(flip.new.severity is Severity.CRITICAL for flip in counted)
    severity = Severity.CRITICAL if critical else Severity.WARNING
    return Reading(Condition.FLAPPING, _words(counted), counted[0].at, severity=severity)


def calm(condition: Condition, now: datetime, rules: FlapRules) -> Reading:
    """The reading of a worker that has not changed for long enough."""
    still = format_span(rules.within.total_seconds())
    return Reading(Condition.WELL, f"no changes for {still}, now {condition.word}", now)


def _counts(flip: Flip, following: Flip | None) -> bool:
    """Whether a change counts. A job that has done its work is down for a moment, until its restart policy says so."""
    intended = following is not None and following.new is Condition.PAUSED
    return not intended and flip.old not in _NO_CHANGE and flip.new not in _NO_CHANGE


def _words(counted: Sequence[Flip]) -> str:
    minutes = math.ceil((counted[-1].at - counted[0].at) / timedelta(minutes=1))
    lasted = format_span(max(minutes, 1) * 60)
    last = counted[-1].new
    if last is Condition.RESTART_LIMIT:
        return (
            f"quarantined after {len(counted)} state changes in {lasted}. "
            "It stays down until somebody restarts or resumes it"
        )
    return f"{len(counted)} {'change' if len(counted) == 1 else 'changes'} in {lasted}, now {last.word}"


AN_INSTANT = timedelta(microseconds=1)


class FlappingMonitor:
    """The workers that flap, read from the ledger once and followed from then on."""

    def __init__(self, supervisor_id: str, config: Callable[[], SupervisorConfig]) -> None:
        self._host = supervisor_id
        self._config = config
        self._since: dict[str, datetime] = {}
        """The begin of each worker's flapping."""
        self._last: dict[str, CurrentCondition] = {}
        """The current condition of each of them."""

    def begin(self, conditions: Mapping[Target, CurrentCondition]) -> None:
        self._since, self._last = {}, {}
        self.follow(conditions.values())
        self.follow(conditions[worker_of(each)] for each in self._since if worker_of(each) in conditions)

    def follow(self, conditions: Iterable[CurrentCondition]) -> None:
        workers = []
        for each in conditions:
            if each.target.kind == WORKER:
                workers.append(each)
            elif each.target.kind == FLAPPING and each.condition is Condition.FLAPPING:
                self._since[each.target.id] = each.since
            elif each.target.kind == FLAPPING:
                self._since.pop(each.target.id, None)
                self._last.pop(each.target.id, None)
        self._last |= {each.target.id: each for each in workers if each.target.id in self._since}

    def due_at(self) -> datetime | None:
        """The time at which the first of them has not changed for long enough."""
        within = self._rules().within
        return min((each.since + within for each in self._unsettled()), default=None)

    def _unsettled(self) -> list[CurrentCondition]:
        return [each for each in self._last.values() if each.condition is not Condition.RESTART_LIMIT]

    def calmed(self, now: datetime) -> list[TargetReading]:
        """The readings of those that have not changed for long enough."""
        if not self._last:
            return []
        rules = self._rules()
        still = [each for each in self._unsettled() if each.since + rules.within <= now]
        return [TargetReading(target_of(each.target.id), calm(each.condition, now, rules)) for each in still]

    def changed(self, connection: Connection, made: Iterable[Flip | None], now: datetime) -> list[TargetReading]:
        """The flapping after these flips, in the transaction that writes them."""
        workers = {flip.target.id for flip in made if flip is not None and flip.target.kind == WORKER}
        if not workers:
            return []
        rules = self._rules()
        begun = now - rules.within
        often = flips.frequent_flippers(connection, self._host, WORKER, workers, begun, rules.flips) | (
            workers & self._since.keys()
        )
        found = []
        for worker_id in sorted(often):
            since = self._since.get(worker_id)
            past = flips.flips_of_target(connection, worker_of(worker_id), since or begun, now + AN_INSTANT, self._host)
            reading = flaps(past, now, rules, since)
            if reading is not None:
                found.append(TargetReading(target_of(worker_id), reading))
        return found

    def folds(self, connection: Connection, targets: Collection[Target], also: Collection[Target]) -> dict[Target, str]:
        """The alerts into which those of these targets are folded; `also` flap as of this transaction."""
        flapping = self._since.keys() | {target.id for target in also}
        mine = [target for target in targets if target.kind == WORKER and target.id in flapping]
        if not mine:
            return {}
        live = alerts.live_of_all(connection, self._host, [target_of(target.id) for target in mine])
        return {worker_of(target.id): alert.alert_id for target, alert in live.items()}

    def _rules(self) -> FlapRules:
        said = self._config().alerts.flapping
        return FlapRules(said.flips, timedelta(minutes=said.within_minutes))
