"""Turns the status of workers into one alert for each problem. A scheduler job, woken by each observation.

The condition, its flip, the alert, the decision about it and its message are written in one transaction. So a crash
leaves all of it or nothing, and the first observation after it finds the same again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Lock

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.decisions import AlertDecider, EvidenceCollector
from supervisor_core.alerts.flips import ConditionChange, CurrentCondition, Flip
from supervisor_core.alerts.grouping.flapping import FlappingMonitor
from supervisor_core.alerts.incoming import targets_of
from supervisor_core.alerts.rows import AlertChange, AlertDecision
from supervisor_core.alerts.rules import Alert, Reason, after_flip, after_look
from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.quiet_hours import QuietHoursService
from supervisor_core.common import crashpoints
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import random_id
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import (
    FLAPPING,
    WORKER,
    Condition,
    Reading,
    Target,
    TargetReading,
    read_condition,
)
from supervisor_core.workers.status import WorkerStatus

AT_ONCE = 200
"""So many targets in one transaction: others wait for the write lock meanwhile."""

MOST_WAITING = 16
"""Looks at one worker, while what came before is written."""

_FIGURES = re.compile(r"\d+(\.\d+)?")

REMEDIES = ("restart_watcher", "resume", "undo_code")
"""The handlers that may fix a problem; its message shows their result and offers them again."""

LATELY = timedelta(minutes=1)

CLOCK_JITTER = timedelta(seconds=1)
"""So far back the clock may be set without a word: nothing waits noticeably longer for that."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownCondition:
    """The condition of a target in the ledger, and its last reading."""

    current: CurrentCondition
    reading: Reading | None = None


class AlertMonitor:
    """Alerts of one host. `see` and `observe` may be called from any thread; all else by the scheduler alone."""

    name = "alerts"

    def __init__(
        self,
        ledger: Ledger,
        config: Callable[[], SupervisorConfig],
        resting: Callable[[], bool] = lambda: False,
        evidence: EvidenceCollector | None = None,
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._resting = resting
        self._decider = AlertDecider(ledger.supervisor_id, config, resting)
        self._evidence = evidence
        self._quiet = QuietHoursService(ledger, config)
        self._flapping = FlappingMonitor(ledger.supervisor_id, config)
        self._lock = Lock()
        self._statuses: dict[str, list[WorkerStatus]] = {}
        self._observed: dict[Target, TargetReading] = {}
        self._known: dict[Target, KnownCondition] | None = None
        self._rested = False
        self._worked_at: datetime | None = None
        self._remedies: frozenset[int] = frozenset()
        """Recent commands whose alerts were refreshed already."""

    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        """Take new statuses. Where too many of one worker wait, the newest takes the place of the last."""
        with self._lock:
            for status in statuses:
                waiting = self._statuses.setdefault(status.worker_id, [])
                del waiting[MOST_WAITING - 1 :]
                waiting.append(status)

    def observe(self, target: Target, reading: Reading) -> None:
        """Take the reading of a part of the host: its drive, its disk, its database."""
        with self._lock:
            self._observed[target] = TargetReading(target, reading)

    def observe_all(self, seen: Iterable[tuple[Target, Reading]]) -> None:
        for target, reading in seen:
            self.observe(target, reading)

    def due_at(self) -> datetime | None:
        """The next time at which a decision is due although nothing is observed."""
        first = self._ledger.read(lambda connection: alerts.first_due(connection, self._ledger.supervisor_id))
        found = (first, self._quiet.due_at(), self._flapping.due_at())
        return min((each for each in found if each is not None), default=None)

    def is_restless(self) -> bool:
        """True if a round is needed although nothing is due and the ledger is unchanged; on the event loop."""
        set_back = self._worked_at is not None and datetime.now(UTC) < self._worked_at - CLOCK_JITTER
        return bool(self._statuses or self._observed) or self._resting() != self._rested or set_back

    def work(self, now: datetime) -> bool:
        """Write what has changed, and decide what is due; False, because no job is filed."""
        set_back = self._worked_at is not None and now < self._worked_at - CLOCK_JITTER
        if set_back:  # or a first message would wait for the old time
            self._decide_everything_again(now)
        self._worked_at = now
        self._quiet.work(now)
        known = self._load_known(now)
        for target, reading in self._flapping.calmed(now):
            self.observe(target, reading)
        while self._statuses or self._observed:
            news = [seen for seen in self._take_readings() if not _is_as_before(known.get(seen.target), seen.reading)]
            for start in range(0, len(news), AT_ONCE):
                self._write(known, news[start : start + AT_ONCE], now)
        self._refresh_after_remedies(now)
        if (resting := self._resting()) != self._rested:
            self._decide_everything_again(now)
            self._rested = resting
        while True:
            due = self._ledger.read(lambda connection: self._due(connection, now))
            if due:
                crashpoints.reach("alerts_t.decided:before")
                self._after(self._ledger.write(lambda connection: self._decide_due(connection, now)))
                crashpoints.reach("alerts_t.decided:after")
            if len(due) < AT_ONCE:
                return False

    def _decide_everything_again(self, now: datetime) -> None:
        self._ledger.write(lambda connection: alerts.poke_all(connection, self._ledger.supervisor_id, now))

    def _due(self, connection: Connection, now: datetime) -> list[Alert]:
        return alerts.due(connection, self._ledger.supervisor_id, now, AT_ONCE)

    def _decide_due(self, connection: Connection, now: datetime) -> list[AlertDecision]:
        """Runs in one transaction on the current alerts: somebody may have acknowledged one."""
        due = self._due(connection, now)
        hushes = suppressions.about(connection, [alert.target for alert in due], now)
        return self._decider.decide(connection, [AlertChange(alert, alert) for alert in due], hushes, now)

    def _load_known(self, now: datetime) -> dict[Target, KnownCondition]:
        """The conditions in the ledger; a worker that was removed from the configuration is paused."""
        if self._known is None:
            found = self._ledger.read(
                lambda connection: flips.current_conditions(connection, self._ledger.supervisor_id)
            )
            self._known = {target: KnownCondition(current) for target, current in found.items()}
            self._flapping.begin(found)
            workers = self._config().workers
            gone = Reading(Condition.PAUSED, "no longer in the configuration", now)
            with self._lock:
                for target, current in found.items():
                    known_here = target.id in workers or "/" in target.id  # a host reports its own workers again
                    if target.kind == WORKER and not known_here and not current.condition.fine:
                        self._observed.setdefault(target, TargetReading(target, gone))
        return self._known

    def _take_readings(self) -> list[TargetReading]:
        """The oldest waiting reading of each target, so that one that fell and rose again has both."""
        with self._lock:
            statuses = [waiting.pop(0) for waiting in self._statuses.values()]
            self._statuses = {worker_id: waiting for worker_id, waiting in self._statuses.items() if waiting}
            observed, self._observed = list(self._observed.values()), {}
        grace = timedelta(seconds=self._config().alerts.start_grace_seconds)
        read_so = ((Target(WORKER, status.worker_id), read_condition(status, grace)) for status in statuses)
        return [*observed, *(TargetReading(target, reading) for target, reading in read_so if reading is not None)]

    def _write(self, known: dict[Target, KnownCondition], some: Sequence[TargetReading], now: datetime) -> None:
        name = "written" if any(each.target.kind == WORKER for each in some) else "host"
        crashpoints.reach(f"flips_t.{name}:before")
        written, decisions = self._ledger.write(lambda connection: self._record(connection, known, some, now))
        crashpoints.reach(f"flips_t.{name}:after")
        for each in some:
            current = written.get(each.target)
            if current is None:  # another program was first: what it wrote counts, and the next look compares
                self._known = None
                continue
            known[each.target] = KnownCondition(current, each.reading)
        others = {target: current for target, current in written.items() if target.kind == FLAPPING}
        known |= {target: KnownCondition(current) for target, current in others.items()}
        self._flapping.follow(written.values())
        self._after(decisions)

    def _record(
        self,
        connection: Connection,
        known: Mapping[Target, KnownCondition],
        some: Sequence[TargetReading],
        now: datetime,
    ) -> tuple[dict[Target, CurrentCondition], list[AlertDecision]]:
        """In one transaction: the new condition of each target, and the decisions."""
        host = self._ledger.supervisor_id
        hushes = suppressions.about(connection, [each.target for each in some], now)
        before = {each.target: known.get(each.target) for each in some}
        flipped = [each for each in some if _flips(before[each.target], each.reading)]
        changes = []
        for target, reading in flipped:
            was = before[target]
            current = was.current if was else None
            changes.append(ConditionChange(target, current, reading.condition, reading.reason, reading.since))
        written = flips.record_flips(connection, host, changes, now)
        made = dict(zip((target for target, _ in flipped), written, strict=True))
        flapping = self._flapping.changed(connection, made.values(), now)
        conditions, decisions = self._record(connection, known, flapping, now) if flapping else ({}, [])
        folds = self._flapping.folds(connection, [each.target for each in some], conditions)
        live = alerts.live_of_all(connection, host, [each.target for each in some])
        alert_changes = list[AlertChange]()
        for each in some:
            target = each.target
            current, after = self._advance(connection, each, before[target], made.get(target), live.get(target))
            if current is None:
                continue
            conditions[target] = current
            if after is not None:
                after = replace(after, parent_id=folds.get(target, after.parent_id))
                alert_changes.append(AlertChange(live.get(target), after))
        return conditions, decisions + self._decider.decide(connection, alert_changes, hushes, now)

    def _advance(
        self,
        connection: Connection,
        target_reading: TargetReading,
        was: KnownCondition | None,
        flip: Flip | None,
        alert: Alert | None,
    ) -> tuple[CurrentCondition | None, Alert | None]:
        """The new condition of a target, and its alert after it; nothing where another program was first."""
        target, reading = target_reading
        if flip is not None:
            current = CurrentCondition(target, flip.new, flip.reason, flip.at, flip.flip_id)
            after = after_flip(alert, flip, reading, random_id())
            return current, after and replace(after, supervisor_id=self._ledger.supervisor_id)
        if was is None or _flips(was, reading):
            return None, None
        if not flips.update_reason(connection, self._ledger.supervisor_id, was.current, reading.reason):
            return None, None
        after = after_look(alert, reading) if alert is not None else None
        return replace(was.current, reason=reading.reason), after

    def _after(self, decisions: Sequence[AlertDecision]) -> None:
        _log(decisions)
        wanted = [
            alert
            for _, alert, decision, _ in decisions
            if alert.target.worker
            and (decision.reason is Reason.FIRST or (decision.reason is Reason.WORSE and alert.target.kind == FLAPPING))
        ]
        if wanted and self._evidence is not None:
            self._evidence.gather(wanted, self._write_evidence)

    def _write_evidence(self, alert_id: str, lines: Sequence[str]) -> None:
        now, host = datetime.now(UTC), self._ledger.supervisor_id
        self._ledger.write(lambda connection: alerts.write_evidence(connection, host, alert_id, lines, now))

    def _refresh_after_remedies(self, now: datetime) -> None:
        """Refresh the messages of workers whose command has ended since: they offer it again."""
        ended = frozenset(self._ledger.read(lambda connection: jobs.ended_since(connection, REMEDIES, now - LATELY)))
        fresh, self._remedies = ended - self._remedies, ended

        def refresh(connection: Connection) -> None:
            workers, host = {job.worker_id for job in jobs.by_ids(connection, fresh)}, self._ledger.supervisor_id
            for target in (*(Target(WORKER, worker) for worker in workers), *targets_of(connection, host, workers)):
                if (alert := alerts.live_of(connection, host, target)) is not None:
                    record(connection, alert.supervisor_id, None, (alerts.refresh_message(alert.alert_id),), now)

        if fresh:
            self._ledger.write(refresh)


def _is_as_before(known: KnownCondition | None, reading: Reading) -> bool:
    """True if nothing that counts is different: figures in a reason change with each observation."""
    if known is None or _flips(known, reading):
        return False
    if reading.condition.fine:
        return True
    said = _FIGURES.sub("#", known.current.reason) == _FIGURES.sub("#", reading.reason[: flips.REASON])
    before = known.reading
    times = before and (before.held_until, before.restarts_at)
    return said and times == (reading.held_until, reading.restarts_at)


def _flips(known: KnownCondition | None, reading: Reading) -> bool:
    return known is None or known.current.condition is not reading.condition


_EVENTS = {
    Reason.FIRST: LogEvent.ALERT_OPENED,
    Reason.AGAIN: LogEvent.ALERT_OPENED,
    Reason.STORM: LogEvent.ALERT_OPENED,
    Reason.WORSE: LogEvent.ALERT_WORSENED,
    Reason.BETTER: LogEvent.ALERT_IMPROVED,
    Reason.REMINDER_DUE: LogEvent.ALERT_REMINDED,
    Reason.ESCALATED: LogEvent.ALERT_ESCALATED,
    Reason.RESOLVED: LogEvent.ALERT_RECOVERED,
    Reason.HEALED: LogEvent.ALERT_RECOVERED,
}


def _log(decisions: Iterable[AlertDecision]) -> None:
    for _, alert, decision, _ in decisions:
        event = _EVENTS.get(decision.reason, LogEvent.ALERT_HELD)
        about = event.extra(
            worker_id=alert.target.worker or None,
            alert_id=alert.alert_id,
            target=alert.target.id,
            condition=alert.condition.word,
            decision=str(decision.reason),
            reason=alert.reason,
        )
        words = "alert %s (%s): %s: %s: %s"
        log.log(
            logging.getLevelNamesMapping()[event.level],
            words,
            alert.alert_id,
            decision.reason,
            alert.target.id,
            alert.condition.word,
            alert.reason,
            extra=about,
        )
