"""The actions of people on alerts: acknowledge, snooze, mute, unmute.

Each has a task id, so that it is done once although it may be requested twice, after a crash. Every call blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sqlalchemy import Connection

from supervisor_core.alerts import rows
from supervisor_core.alerts.grouping import parents
from supervisor_core.alerts.grouping.flapping import target_of
from supervisor_core.alerts.grouping.rules import STORM
from supervisor_core.alerts.rules import SHOWN, Alert, AlertState
from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.rows import ALERT, EVERYTHING, Hush, Suppression
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.labels import audit_label
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import CommandText, RefusedError, UsageError
from supervisor_core.common.times import HOUR, format_duration, to_text
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Step, record
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import WORKER, Target

T = TypeVar("T")

SNOOZE_SECONDS = HOUR
ACKNOWLEDGED, SNOOZED, MUTED, UNMUTED = "ALERT_ACKNOWLEDGED", "ALERT_SNOOZED", "MUTED", "UNMUTED"


class NoSuchAlert(UsageError):
    """The alert doesn't exist."""


class AlertOver(RefusedError):
    """The alert can't be changed in its current state."""


@dataclass(frozen=True, slots=True)
class AlertRequest:
    """The person, the door and the id of a request."""

    by: Issuer
    door: str
    task_id: str
    reason: str = ""


class AlertService:
    """Alert actions for people. Safe to use from any thread and several programs at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def shown(self) -> list[Alert]:
        """Those that are open, acknowledged or snoozed, the critical ones first."""
        return self._ledger.read(lambda connection: rows.in_states(connection, SHOWN))

    def find(self, alert_id: str) -> Alert:
        found = self._ledger.read(lambda connection: rows.find(connection, alert_id))
        if found is None:
            raise NoSuchAlert(f"No alert {alert_id!a}.", remedy=(CommandText("alerts"), " lists the open alerts."))
        return found

    def acknowledge(self, alert_id: str, asked: AlertRequest, now: datetime | None = None) -> Alert:
        """Acknowledge the alert, with all members of a storm: no more reminders.

        Repeating it is harmless; the first person stays."""
        moment = now or datetime.now(UTC)

        def with_members(connection: Connection, supervisor_id: str, now: datetime) -> None:
            parents.acknowledge_members(connection, supervisor_id, alert_id, asked.by, now)

        def step(alert: Alert) -> Step | None:
            if alert.state is AlertState.ACKNOWLEDGED:
                return None
            storm = alert.target.kind == STORM
            return rows.acknowledge_step(
                alert, asked.by, _entry(alert, ACKNOWLEDGED, asked), moment, with_members if storm else None
            )

        return self._moved(alert_id, step, moment)

    def snooze(
        self, alert_id: str, asked: AlertRequest, seconds: int = SNOOZE_SECONDS, now: datetime | None = None
    ) -> Alert:
        """Snooze the alert for an hour, unless it becomes critical. A message follows when the snooze ends."""
        moment = now or datetime.now(UTC)
        until = moment + timedelta(seconds=seconds)

        def file(connection: Connection, supervisor_id: str, _: datetime) -> None:
            target = Target(ALERT, alert_id)
            suppressions.end(connection, target, Hush.SNOOZE, moment)
            made = Suppression(asked.task_id, target, Hush.SNOOZE, moment, until, asked.by, asked.reason)
            suppressions.file(connection, supervisor_id, made)

        def step(alert: Alert) -> Step | None:
            known = self._ledger.read(lambda connection: suppressions.of_request(connection, asked.task_id))
            if known:
                return None
            entry = _entry(alert, SNOOZED, asked, until=to_text(until))
            return rows.snooze_step(alert, until, entry, file)

        return self._moved(alert_id, step, moment)

    def mute(
        self, workers: Collection[str], seconds: int, asked: AlertRequest, now: datetime | None = None
    ) -> list[Suppression]:
        """Mute alerts about these workers until then; a new mute replaces an old one.

        Returns the mutes of this request, the same again after a crash."""
        moment = now or datetime.now(UTC)
        until = moment + timedelta(seconds=seconds)

        def work(connection: Connection) -> list[Suppression]:
            known = suppressions.of_request(connection, asked.task_id)
            if known:
                return known
            for worker_id in workers:
                target = Target(WORKER, worker_id)
                suppressions.end(connection, target, Hush.MUTE, moment)
                made = Suppression(asked.task_id, target, Hush.MUTE, moment, until, asked.by, asked.reason)
                suppressions.file(connection, self._ledger.supervisor_id, made)
                facts = {"until": to_text(until), "for": format_duration(seconds)}
                self._follow(connection, target, _about_worker(worker_id, MUTED, asked, **facts), moment)
            return suppressions.of_request(connection, asked.task_id)

        return self._written("suppressions_t.mute", work)

    def unmute(
        self, workers: Collection[str], asked: AlertRequest, now: datetime | None = None, *, everything: bool = False
    ) -> list[str]:
        """Unmute these workers; open alerts are posted at once. Returns the workers that were muted.

        A repeat after a crash returns the same. `everything` also ends a maintenance of all targets, host included."""
        moment = now or datetime.now(UTC)

        def work(connection: Connection) -> list[str]:
            if ended := chain.targets_of(connection, asked.task_id, UNMUTED):
                return ended
            of_all = suppressions.end(connection, EVERYTHING, Hush.MAINTENANCE, moment) if everything else 0
            if of_all:
                rows.poke_all(connection, self._ledger.supervisor_id, moment)
            for worker_id in workers:
                target = Target(WORKER, worker_id)
                kinds = (Hush.MUTE, Hush.MAINTENANCE)  # of a maintenance, this time of it
                if sum(suppressions.end(connection, target, kind, moment) for kind in kinds) + of_all:
                    self._follow(connection, target, _about_worker(worker_id, UNMUTED, asked), moment)
                    ended.append(worker_id)
            return ended

        return self._written("suppressions_t.unmute", work)

    def muted(self, now: datetime | None = None) -> dict[str, Suppression]:
        moment = now or datetime.now(UTC)
        return self._ledger.read(lambda connection: suppressions.muted_until(connection, moment))

    def _follow(self, connection: Connection, target: Target, entry: AuditEntry, now: datetime) -> None:
        """Store the suppression and decide about the existing alert again, so that its message shows it."""
        alert = rows.live_of(connection, self._ledger.supervisor_id, target)
        messages = (rows.refresh_message(alert.alert_id),) if alert else ()
        record(connection, self._ledger.supervisor_id, entry, messages, now)
        rows.poke(connection, [target, target_of(target.id)], now)

    def _moved(self, alert_id: str, step_of: Callable[[Alert], Step | None], now: datetime) -> Alert:
        """Take the step, again whenever another process was first."""
        while True:
            alert = self.find(alert_id)
            if alert.state not in SHOWN:
                over = alert.state is AlertState.CLOSED
                raise AlertOver(
                    "The alert is already closed." if over else "The alert isn't posted yet; it may recover first."
                )
            step = step_of(alert)
            if step is None or self._ledger.step(step, now):
                return self.find(alert_id)

    def _written(self, name: str, work: Callable[[Connection], T]) -> T:
        crashpoints.reach(f"{name}:before")
        done = self._ledger.write(work)
        crashpoints.reach(f"{name}:after")
        return done


def _entry(alert: Alert, action: str, asked: AlertRequest, **facts: str) -> AuditEntry:
    about = {"alert_id": alert.alert_id, "condition": str(alert.condition), "why": alert.reason}
    entry = _about_worker(alert.target.id, action, asked, **about, **facts)
    return replace(entry, target_type=alert.target.kind)


def _about_worker(worker_id: str, action: str, asked: AlertRequest, **facts: str) -> AuditEntry:
    return AuditEntry(
        actor=asked.by.id,
        action=action,
        target_id=worker_id,
        label=audit_label(asked.by.name, asked.by.id, None),
        task_id=asked.task_id,
        details={**facts, "reason": asked.reason or None, "door": asked.door},
    )
