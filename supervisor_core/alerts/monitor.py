"""From what was seen to one alert for each trouble: a chore of the scheduler, woken by each look at the workers.

What changes is written in one transaction: the condition, its flip, the alert, what was decided about it, and the order
for its message. So there is nothing between them, and whoever comes after a crash finds all of it or none, and sees the
same again with the first look.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import NamedTuple

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.decisions import AlertDecider, EvidenceCollector
from supervisor_core.alerts.flips import ConditionChange, CurrentCondition, Flip
from supervisor_core.alerts.grouping.flapping import FlappingMonitor
from supervisor_core.alerts.rows import AlertChange, Told
from supervisor_core.alerts.rules import Alert, Reason, after_flip, after_look
from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.quiet_hours import QuietHoursService
from supervisor_core.common import crashpoints
from supervisor_core.common.text import random_id
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions.rules import FLAPPING, WORKER, Condition, Reading, Target, read_condition
from supervisor_core.workers.status import WorkerStatus

AT_ONCE = 200
"""So many targets in one transaction: others wait for the write lock meanwhile."""

MOST_WAITING = 16
"""Looks at one worker, while what came before is written."""

_FIGURES = re.compile(r"\d+(\.\d+)?")

RESTARTS = ("restart_watcher", "resume")
"""What somebody may have tried about it; its message says what came of that, and offers it anew."""

LATELY = timedelta(minutes=1)

CLOCK_JITTER = timedelta(seconds=1)
"""So far back the clock may be set without a word: nothing waits noticeably longer for that."""

log = logging.getLogger(__name__)


class Observed(NamedTuple):
    """How a target was just seen to be."""

    target: Target
    reading: Reading


@dataclass(frozen=True, slots=True)
class KnownCondition:
    """What this program knows of a target: its row, and how it was last seen."""

    standing: CurrentCondition
    reading: Reading | None = None


class AlertMonitor:
    """All conditions of one host. `see` and `observe` may be called from any thread; all else is the scheduler's."""

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
        self._deciding = AlertDecider(ledger.supervisor_id, config, resting)
        self._evidence = evidence
        self._quiet = QuietHoursService(ledger, config)
        self._flapping = FlappingMonitor(ledger.supervisor_id, config)
        self._lock = Lock()
        self._statuses: dict[str, list[WorkerStatus]] = {}
        self._observed: dict[Target, Observed] = {}
        self._known: dict[Target, KnownCondition] | None = None
        self._rested = False
        self._worked_at: datetime | None = None
        self._restarts: frozenset[int] = frozenset()
        """Commands of late that were dealt with; what is forgotten is told anew, and says the same."""

    # --- what others tell it

    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        """Workers were looked at. Where more looks wait than anybody needs, the newest takes the place of the last."""
        with self._lock:
            for status in statuses:
                waiting = self._statuses.setdefault(status.worker_id, [])
                del waiting[MOST_WAITING - 1 :]
                waiting.append(status)

    def observe(self, target: Target, reading: Reading) -> None:
        """A part of the host was looked at: its drive, its disk, its database."""
        with self._lock:
            self._observed[target] = Observed(target, reading)

    def observe_all(self, seen: Iterable[tuple[Target, Reading]]) -> None:
        """Several of them."""
        for target, reading in seen:
            self.observe(target, reading)

    # --- the chore

    def due_at(self) -> datetime | None:
        """When something must be decided although nothing is seen."""
        first = self._ledger.read(lambda connection: alerts.first_due(connection, self._ledger.supervisor_id))
        found = (first, self._quiet.due_at(), self._flapping.due_at())
        return min((each for each in found if each is not None), default=None)

    def work(self, now: datetime) -> bool:
        """Write down what is different, and decide what is due. Nothing is filed by that."""
        self._follow_clock(now)
        self._quiet.work(now)
        known = self._all_known(now)
        for target, reading in self._flapping.calmed(now):
            self.observe(target, reading)
        while self._statuses or self._observed:
            wave = self._next_wave()
            for some in _in_parts([each for each in wave if not _is_as_before(known.get(each.target), each.reading)]):
                self._write(known, some, now)
        self._follow_restarts(now)
        self._follow_resting(now)
        self._decide_due(now)
        return False

    def _all_known(self, now: datetime) -> dict[Target, KnownCondition]:
        """How all targets were left; who is not in the configuration any more is not missed."""
        if self._known is None:
            found = self._ledger.read(
                lambda connection: flips.current_conditions(connection, self._ledger.supervisor_id)
            )
            self._known = {target: KnownCondition(standing) for target, standing in found.items()}
            self._flapping.begin(found)
            workers = self._config().workers
            gone = Reading(Condition.PAUSED, "it is not in the configuration any more", now)
            with self._lock:
                for target, standing in found.items():
                    if target.kind == WORKER and target.id not in workers and not standing.condition.fine:
                        self._observed.setdefault(target, Observed(target, gone))
        return self._known

    def _next_wave(self) -> list[Observed]:
        """What was seen first of each target, of all that was seen since. Of who fell and rose again both are told."""
        with self._lock:
            statuses = [waiting.pop(0) for waiting in self._statuses.values()]
            self._statuses = {worker_id: waiting for worker_id, waiting in self._statuses.items() if waiting}
            observed, self._observed = list(self._observed.values()), {}
        grace = timedelta(seconds=self._config().alerts.start_grace_seconds)
        read_so = ((Target(WORKER, status.worker_id), read_condition(status, grace)) for status in statuses)
        return [*observed, *(Observed(target, reading) for target, reading in read_so if reading is not None)]

    def _write(self, known: dict[Target, KnownCondition], some: Sequence[Observed], now: datetime) -> None:
        name = "written" if any(each.target.kind == WORKER for each in some) else "host"
        crashpoints.reach(f"flips_t.{name}:before")
        written, told = self._ledger.write(lambda connection: self._written(connection, known, some, now))
        crashpoints.reach(f"flips_t.{name}:after")
        for each in some:
            standing = written.get(each.target)
            if standing is None:  # another program was first: what it wrote counts, and the next look compares
                self._known = None
                continue
            known[each.target] = KnownCondition(standing, each.reading)
        others = {target: standing for target, standing in written.items() if target.kind == FLAPPING}
        known |= {target: KnownCondition(standing) for target, standing in others.items()}
        self._flapping.follow(written.values())
        self._after(told)

    def _written(
        self, connection: Connection, known: Mapping[Target, KnownCondition], some: Sequence[Observed], now: datetime
    ) -> tuple[dict[Target, CurrentCondition], list[Told]]:
        """One transaction: how each target is now; and what was decided."""
        host = self._ledger.supervisor_id
        hushes = suppressions.about(connection, [each.target for each in some], now)
        before = {each.target: known.get(each.target) for each in some}
        flipped = [each for each in some if _flips(before[each.target], each.reading)]
        changes = [_change(before[each.target], each) for each in flipped]
        made = dict(
            zip((each.target for each in flipped), flips.record_flips(connection, host, changes, now), strict=True)
        )
        flapping = [Observed(*each) for each in self._flapping.changed(connection, made.values(), now)]
        standings, told = self._written(connection, known, flapping, now) if flapping else ({}, [])
        folds = self._flapping.folds(connection, [each.target for each in some], standings)
        live = alerts.live_of_all(connection, host, [each.target for each in some])
        seen = list[AlertChange]()
        for each in some:
            target = each.target
            standing, after = self._followed(connection, each, before[target], made.get(target), live.get(target))
            if standing is None:
                continue
            standings[target] = standing
            if after is not None:
                after = replace(after, parent_id=folds.get(target, after.parent_id))
                seen.append(AlertChange(live.get(target), after))
        return standings, told + self._deciding.decided(connection, seen, hushes, now)

    def _followed(
        self, connection: Connection, seen: Observed, was: KnownCondition | None, flip: Flip | None, alert: Alert | None
    ) -> tuple[CurrentCondition | None, Alert | None]:
        """How a target is now, and what that makes of its alert; nothing where somebody else was first."""
        target, reading = seen
        if flip is not None:
            standing = CurrentCondition(target, flip.new, flip.reason, flip.at, flip.flip_id)
            return standing, self._with_id(after_flip(alert, flip, reading, random_id()))
        if was is None or _flips(was, reading):
            return None, None
        if not flips.update_reason(connection, self._ledger.supervisor_id, was.standing, reading.reason):
            return None, None
        after = after_look(alert, reading) if alert is not None else None
        return replace(was.standing, reason=reading.reason), after

    def _with_id(self, alert: Alert | None) -> Alert | None:
        return alert and replace(alert, supervisor_id=self._ledger.supervisor_id)

    def _after(self, told: Sequence[Told]) -> None:
        """What follows on a transaction, and need not be in it."""
        _log(told)
        first = [alert for alert, decision in told if decision.reason is Reason.FIRST and alert.target.kind == WORKER]
        if first and self._evidence is not None:
            self._evidence.gather([(alert.alert_id, alert.target.id) for alert in first], self._keep)

    def _keep(self, alert_id: str, lines: Sequence[str]) -> None:
        """What there was to see; in any thread."""
        now = datetime.now(UTC)
        self._ledger.write(
            lambda connection: alerts.write_evidence(connection, self._ledger.supervisor_id, alert_id, lines, now)
        )

    def _decide_due(self, now: datetime) -> None:
        """What waited for this moment."""
        while due := self._ledger.read(lambda connection: self._due(connection, now)):
            crashpoints.reach("alerts_t.decided:before")
            told = self._ledger.write(lambda connection: self._decided_anew(connection, now))
            self._after(told)
            crashpoints.reach("alerts_t.decided:after")
            if len(due) < AT_ONCE:
                return

    def _due(self, connection: Connection, now: datetime) -> list[Alert]:
        return alerts.due(connection, self._ledger.supervisor_id, now, AT_ONCE)

    def _decided_anew(self, connection: Connection, now: datetime) -> list[Told]:
        """In one transaction, with how they stand by then: somebody may have acknowledged one."""
        due = self._due(connection, now)
        hushes = suppressions.about(connection, [alert.target for alert in due], now)
        return self._deciding.decided(connection, [AlertChange(alert, alert) for alert in due], hushes, now)

    def _follow_clock(self, now: datetime) -> None:
        """The clock was set back: what was due by the old one is decided anew, or a first word would wait for it."""
        if self._worked_at is not None and now < self._worked_at - CLOCK_JITTER:
            self._ledger.write(lambda connection: alerts.poke_all(connection, self._ledger.supervisor_id, now))
        self._worked_at = now

    def _follow_resting(self, now: datetime) -> None:
        """Monitoring was paused, or goes on: what was kept quiet for it is decided anew."""
        resting = self._resting()
        if resting != self._rested:
            self._ledger.write(lambda connection: alerts.poke_all(connection, self._ledger.supervisor_id, now))
            self._rested = resting

    def _follow_restarts(self, now: datetime) -> None:
        """Have the messages of those told anew about whom a command has ended since: they offer it again."""
        ended = frozenset(self._ledger.read(lambda connection: jobs.ended_since(connection, RESTARTS, now - LATELY)))
        fresh, self._restarts = ended - self._restarts, ended
        if fresh:
            self._ledger.write(lambda connection: self._offer_again(connection, fresh, now))

    def _offer_again(self, connection: Connection, job_ids: Collection[int], now: datetime) -> None:
        for worker_id in {job.worker_id for job in jobs.by_ids(connection, job_ids)}:
            alert = alerts.live_of(connection, self._ledger.supervisor_id, Target(WORKER, worker_id))
            if alert is not None:
                record(connection, alert.supervisor_id, None, (alerts.refresh_message(alert.alert_id),), now)


def _is_as_before(known: KnownCondition | None, reading: Reading) -> bool:
    """Whether nothing that counts is different. Figures in a reason are others at each look."""
    if known is None or _flips(known, reading):
        return False
    if reading.condition.fine:
        return True
    said = _FIGURES.sub("#", known.standing.reason) == _FIGURES.sub("#", reading.reason[: flips.REASON])
    return said and known.reading is not None and known.reading.held_until == reading.held_until


def _flips(known: KnownCondition | None, reading: Reading) -> bool:
    return known is None or known.standing.condition is not reading.condition


def _change(known: KnownCondition | None, seen: Observed) -> ConditionChange:
    reading = seen.reading
    return ConditionChange(
        seen.target, known.standing if known else None, reading.condition, reading.reason, reading.since
    )


def _in_parts(seen: Sequence[Observed]) -> Iterator[Sequence[Observed]]:
    for start in range(0, len(seen), AT_ONCE):
        yield seen[start : start + AT_ONCE]


def _log(told: Iterable[Told]) -> None:
    """The log has each decision by its name, once."""
    for alert, decision in told:
        about = {"worker_id": alert.target.worker} if alert.target.worker else {}
        loud = decision.reason.tells and decision.reason not in (Reason.RESOLVED, Reason.BETTER)
        level = logging.WARNING if loud else logging.INFO
        words = "alert %s (%s): %s is %s: %s"
        log.log(
            level, words, alert.alert_id, decision.reason, alert.target.id, alert.condition, alert.reason, extra=about
        )
