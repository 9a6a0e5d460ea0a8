"""The weekly summary: a message in the alert channel on Monday morning, by the clocks of a zone.

Its outbox row is named after the day, so each is sent once, also over restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts import messages as tidings
from supervisor_core.alerts.decisions import place_of
from supervisor_core.alerts.suppression.quiet_hours import windows_at
from supervisor_core.alerts.suppression.rows import Hush
from supervisor_core.common import crashpoints
from supervisor_core.common.time_zones import host_zone, zone_of
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.storage import outbox
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger

MORNING = time(9, 0)
WEEK = timedelta(days=7)


def last_monday(now: datetime, zone: tzinfo) -> datetime:
    """Return the newest Monday morning up to this moment."""
    today = now.astimezone(zone).date()
    monday = today - timedelta(days=today.weekday())
    morning = _morning_of(monday, zone)
    return morning if morning <= now else _morning_of(monday - WEEK, zone)


def next_monday(now: datetime, zone: tzinfo) -> datetime:
    """The first Monday morning after this moment."""
    return _morning_of(last_monday(now, zone).astimezone(zone).date() + WEEK, zone)


def _morning_of(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, MORNING, zone).astimezone(UTC)


TOO_LATE = timedelta(days=2)
"""After a longer downtime on Monday, the next summary is a week later."""


class WeeklyChore:
    """Orders the summary of each week."""

    name = "weekly summary"

    def __init__(self, ledger: Ledger, config: Callable[[], SupervisorConfig]) -> None:
        self._ledger = ledger
        self._config = config
        self._due_at: datetime | None = None
        self._told: datetime | None = None
        """The Monday that is dealt with."""

    def due_at(self) -> datetime | None:
        """Return the next Monday morning, or the end of the quiet hours around it."""
        return self._due_at

    def work(self, now: datetime) -> bool:
        """Order what is due. Nothing is filed by that."""
        config = self._config()
        zone = zone_for(config)
        monday, self._due_at = last_monday(now, zone), next_monday(now, zone)
        if monday == self._told:
            return False
        quiet = [each.until for each in windows_at(config, now) if each.kind is Hush.QUIET]
        if quiet:
            self._due_at = min(self._due_at, *quiet)
            return False
        if now < monday + TOO_LATE and place_of(config) is not None:
            crashpoints.reach("outbox_t.week:before")
            self._ledger.write(lambda connection: self._order(connection, config, monday, now))
            crashpoints.reach("outbox_t.week:after")
        self._told = monday
        return False

    def _order(self, connection: Connection, config: SupervisorConfig, monday: datetime, now: datetime) -> None:
        """Order the summary once a week, if the supervisor observed that week."""
        host, place = self._ledger.supervisor_id, place_of(config)
        if place is None or not flips.any_before(connection, host, monday):
            return
        message = tidings.week(place, host, config.workers, monday - WEEK, monday)
        if outbox.payload_of(connection, message.kind, message.subject) is None:
            record(connection, host, None, (message,), now)


def zone_for(config: SupervisorConfig) -> ZoneInfo:
    """The time zone of the first quiet hours, else of this host."""
    return zone_of(next((each.zone for each in config.alerts.quiet_hours), None) or host_zone())
