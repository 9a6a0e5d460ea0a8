"""Quiet hours and maintenance: each configured window is filed as a suppression when it begins, as a mute is.

A time that the clocks of a zone skip comes as much later as they were set forward. Of one that they show twice, quiet
hours begin at the first and end at the second. A window is found again after a crash by its name; one that was removed
from the configuration ends at once. Quiet hours end with one message about the alerts that they held back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from supervisor_core.alerts import messages as tidings
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.decisions import place_of
from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.rows import CONFIGURATION, EVERYTHING, Hush, Suppression
from supervisor_core.commands.targets import ALL, resolve
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.time_zones import next_after
from supervisor_core.common.times import compact
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.config.schema import DAYS, Maintenance, QuietHours
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import WORKER, Target

WEEK = 7  # days
ONE = timedelta(days=1)


class QuietWindow(NamedTuple):
    """A span of time: from `since` to before `until`, in UTC."""

    since: datetime
    until: datetime

    def holds(self, now: datetime) -> bool:
        """True if this moment is in it."""
        return self.since <= now < self.until


@dataclass(frozen=True, slots=True)
class QuietSchedule:
    """From one time of day to another, on the days on which they begin; 0 is Monday."""

    days: frozenset[int]
    start: time
    end: time
    zone: tzinfo

    def on(self, day: date) -> QuietWindow:
        """Those that begin on this day, whatever day it is. Where the end is before the start, it is a day later."""
        last = day if self.end > self.start else day + ONE
        since = datetime.combine(day, self.start, self.zone)
        ends = (datetime.combine(last, self.end, self.zone).replace(fold=fold).astimezone(UTC) for fold in (0, 1))
        return QuietWindow(since.astimezone(UTC), max(ends))

    def at(self, now: datetime) -> QuietWindow | None:
        today = now.astimezone(self.zone).date()
        found = (self.on(day) for day in (today - ONE, today) if day.weekday() in self.days)
        return next((window for window in found if window.holds(now)), None)

    def next_after(self, now: datetime) -> datetime:
        """The time at which they begin next."""
        today = now.astimezone(self.zone).date()
        days = (today + number * ONE for number in range(WEEK + 2))
        begins = (self.on(day).since for day in days if day.weekday() in self.days)
        return next(begin for begin in begins if begin > now)


KINDS = (Hush.QUIET, Hush.MAINTENANCE)
LAST_MINUTE = time(23, 59)
LOOK_AGAIN = timedelta(hours=1)
"""The net beneath: a clock that was set."""


class QuietHoursService:
    """Starts and ends suppressions; runs before each decision."""

    def __init__(self, ledger: Ledger, config: Callable[[], SupervisorConfig]) -> None:
        self._ledger = ledger
        self._config = config
        self._seen: SupervisorConfig | None = None
        self._looked_at: datetime | None = None
        self._next: datetime | None = None

    def due_at(self) -> datetime | None:
        """The time at which the next window begins or ends; None where none is configured."""
        return self._next

    def work(self, now: datetime) -> None:
        """Bring the rows into line with the windows that hold now."""
        config = self._config()
        if config is self._seen and not self._is_due(now):
            return
        wanted = list(windows_at(config, now))
        self._follow(config, wanted, now)
        begins = [begin for begin in next_begins(config, now) if begin is not None]
        self._next = min([*begins, *(each.until for each in wanted)], default=None)
        self._seen, self._looked_at = config, now

    def _is_due(self, now: datetime) -> bool:
        if self._looked_at is None or not self._looked_at <= now < self._looked_at + LOOK_AGAIN:
            return True
        return self._next is not None and self._next <= now

    def _follow(self, config: SupervisorConfig, wanted: list[Suppression], now: datetime) -> None:
        there = self._ledger.read(self._there)
        names = {_name(each) for each in wanted}
        over = [each for each in there if _name(each) not in names]
        if not over and names <= {_name(each) for each in there}:
            return
        crashpoints.reach("suppressions_t.window:before")
        self._ledger.write(lambda connection: self._written(connection, config, wanted, now))
        crashpoints.reach("suppressions_t.window:after")

    def _there(self, connection: Connection) -> list[Suppression]:
        return suppressions.of_kinds(connection, self._ledger.supervisor_id, KINDS)

    def _written(
        self, connection: Connection, config: SupervisorConfig, wanted: list[Suppression], now: datetime
    ) -> None:
        host, names = self._ledger.supervisor_id, {_name(each) for each in wanted}
        for each in wanted:
            suppressions.file(connection, host, each)
        over = [each for each in self._there(connection) if _name(each) not in names]
        still_quiet = any(each.kind is Hush.QUIET for each in wanted)
        nights = [each for each in over if each.kind is Hush.QUIET and not still_quiet]
        cut_short = False
        for each in over:
            if each.kind is Hush.QUIET and still_quiet and each.until <= now:
                continue  # summed up with the one that follows on it
            suppressions.end_this(connection, each, min(each.until, now))
            cut_short = cut_short or each.until > now
        if cut_short:
            alerts.poke_all(connection, host, now)
        if nights:
            self._sum_up(connection, config, nights, now)

    def _sum_up(
        self, connection: Connection, config: SupervisorConfig, nights: list[Suppression], now: datetime
    ) -> None:
        """One word about all that was kept back, in the transaction that ends what kept it; none where nothing was."""
        since, until = min(each.since for each in nights), max(min(each.until, now) for each in nights)
        kept = alerts.kept_for(connection, self._ledger.supervisor_id, since, now)
        place = place_of(config)
        if kept and place is not None:
            message = tidings.morning(place, since, until, [alert.alert_id for alert in kept])
            record(connection, self._ledger.supervisor_id, None, (message,), now)


def hours_of(said: QuietHours) -> QuietSchedule:
    """One rule of the configuration. The last minute of a day means its end, so whole days are contiguous."""
    end = time() if said.end == LAST_MINUTE else said.end
    return QuietSchedule(frozenset(map(DAYS.index, said.days)), said.start, end, ZoneInfo(said.zone))


def windows_at(config: SupervisorConfig, now: datetime) -> Iterator[Suppression]:
    for quiet in config.alerts.quiet_hours:
        window = hours_of(quiet).at(now)
        if window is not None:
            yield _filed(Hush.QUIET, EVERYTHING, window, f"{quiet!r}")
    for planned in config.alerts.maintenance:
        for window in maintained_at(planned, now):
            for target in targets_of(config, planned.target):
                yield _filed(Hush.MAINTENANCE, target, window, f"{planned!r}")


def next_begins(config: SupervisorConfig, now: datetime) -> Iterator[datetime | None]:
    for quiet in config.alerts.quiet_hours:
        yield hours_of(quiet).next_after(now)
    for planned in config.alerts.maintenance:
        yield next_after(planned.cron, planned.zone, now)


def maintained_at(planned: Maintenance, now: datetime) -> Iterator[QuietWindow]:
    """The windows of this maintenance that hold at this moment; one may begin before another has ended."""
    length = timedelta(minutes=planned.minutes)
    begin = next_after(planned.cron, planned.zone, now - length)
    while begin <= now:
        yield QuietWindow(begin, begin + length)
        begin = next_after(planned.cron, planned.zone, begin)


def targets_of(config: SupervisorConfig, target: str) -> list[Target]:
    """The targets of a maintenance; `all` means the host's own parts as well."""
    if target == ALL:
        return [EVERYTHING]
    try:
        workers = resolve(target, grammar_context(config)) or ()
    except SupervisorError:  # a pattern or a team that means nobody yet
        return []
    return [Target(WORKER, worker_id) for worker_id in workers]


def _filed(kind: Hush, target: Target, window: QuietWindow, rule: str) -> Suppression:
    name = hashlib.sha256(rule.encode()).hexdigest()[:12]
    task_id = f"{kind}_{name}_{compact(window.since)}"
    return Suppression(task_id, target, kind, window.since, window.until, CONFIGURATION)


def _name(suppression: Suppression) -> tuple[str, Target]:
    return suppression.task_id, suppression.target
