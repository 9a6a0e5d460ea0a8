"""Alerts from Alertmanager's webhook (version 4). They become conditions and are handled like any other.

They are rows before they are acknowledged, and conditions afterwards. A crash between the two loses nothing: at a start
the rows are told again, and only what is new to the ledger counts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from supervisor_core.alerts.outside.formats import ALERTMANAGER_NAME, CLIENT
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.text import flatten, one_line, storable
from supervisor_core.common.times import utc_now
from supervisor_core.config.schema import IncomingSettings
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import foreign_alerts as rows
from supervisor_core.workers.conditions import ALERTMANAGER, Condition, Reading, Severity, Target, TargetReading

log = logging.getLogger(__name__)

MOST_ALERTS = 200
"""In one request."""

NAME, SUMMARY, LABEL = 100, 300, 200
"""Characters that are kept."""

FIRING, RESOLVED = "firing", "resolved"
WARNINGS = frozenset({"warning", "warn", "info", "information", "informational", "notice", "none", "low", "debug"})
"""Values of the label `severity` that may wait until morning. Any other one, and none, is critical."""

SEPARATOR = ". "
"""Between the name of an alert and its summary, in the reason of its condition."""

_FINGERPRINT = re.compile(r"[0-9a-f]{1,64}")
_SHOWN_LABELS = ("alertname", "severity")


class PayloadError(Exception):
    """The request isn't one of Alertmanager; the message says why."""


@dataclass(frozen=True, slots=True)
class ForeignAlert:
    fingerprint: str
    name: str
    summary: str
    severity: Severity
    worker: str
    """The value of the label that names a worker, known here or not; empty without one."""
    firing: bool
    begun_at: datetime
    ended_at: datetime | None = None


def parse_payload(body: bytes, worker_label: str, now: datetime) -> list[ForeignAlert]:
    """The alerts of a request. Our own, which came back, are left out: they would come back again and again."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise PayloadError("the body isn't JSON") from None
    alerts = document.get("alerts") if isinstance(document, Mapping) else None
    if not isinstance(alerts, list) or document.get("version") != "4":
        raise PayloadError("the body isn't a webhook of Alertmanager, version 4")
    if len(alerts) > MOST_ALERTS:
        raise PayloadError(f"more than {MOST_ALERTS} alerts in one request; set max_alerts in Alertmanager")
    found = [_alert(each, worker_label, now) for each in alerts]
    return [alert for alert in found if alert is not None]


def _alert(given: Any, worker_label: str, now: datetime) -> ForeignAlert | None:  # noqa: ANN401 (any JSON)
    if not isinstance(given, Mapping):
        raise PayloadError("an alert isn't an object")
    labels, annotations = _texts(given.get("labels"), "labels"), _texts(given.get("annotations") or {}, "annotations")
    if labels.get("alertname") == ALERTMANAGER_NAME and labels.get("job") == CLIENT:
        return None
    status = given.get("status")
    if status not in (FIRING, RESOLVED):
        raise PayloadError("an alert's status is neither firing nor resolved")
    fingerprint = given.get("fingerprint")
    if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint):  # the labels identify an alert
        fingerprint = hashlib.sha256(json.dumps(labels, sort_keys=True).encode()).hexdigest()[:16]
    others = ", ".join(f"{name}={value}" for name, value in sorted(labels.items()) if name not in _SHOWN_LABELS)
    may_wait = labels.get("severity", "").strip().lower() in WARNINGS
    begun = min(_moment(given.get("startsAt")) or now, now)
    ended = _moment(given.get("endsAt")) if status == RESOLVED else None
    return ForeignAlert(
        fingerprint=fingerprint,
        name=_line(labels.get("alertname") or "Alert without a name", NAME),
        summary=_line(annotations.get("summary") or annotations.get("description") or others, SUMMARY),
        severity=Severity.WARNING if may_wait else Severity.CRITICAL,
        worker=labels.get(worker_label, "")[:LABEL],
        firing=status == FIRING,
        begun_at=begun,
        ended_at=max(begun, min(ended or now, now)) if status == RESOLVED else None,
    )


def _texts(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
        raise PayloadError(f"an alert's {name} aren't texts")
    return {str(key): str(each) for key, each in value.items()}


def _moment(given: object) -> datetime | None:
    """A time; None if it's missing or in year 1, which means the same."""
    if given in (None, ""):
        return None
    try:
        found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(given)))
        return None if found.tzinfo is None or found.year < 1970 else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise PayloadError("an alert's time isn't valid") from None


def _line(text: str, most: int) -> str:
    return one_line(storable(flatten(text)), most)


def name_in(reason: str) -> tuple[str, str]:
    """The name and the summary of Alertmanager's alert, from the reason of its condition."""
    name, _, summary = reason.partition(SEPARATOR)
    return name, summary


MOST_FIRING = 1000
"""Firing alerts of one host. A request that would bring more is refused, and Alertmanager sends it again."""

LATELY = timedelta(days=1)
"""At startup, alerts that ended within this time are reported again, because the monitor may have missed them."""


class TooManyAlerts(Exception):
    """There's no room for these alerts."""


def store(
    connection: Connection,
    supervisor_id: str,
    alerts: Sequence[ForeignAlert],
    is_known: Callable[[str], bool],
    now: datetime,
) -> list[TargetReading]:
    """Store the alerts and return their readings; `TooManyAlerts`, with nothing written, if too many are firing."""
    found = {alert.fingerprint: alert for alert in alerts}
    known = _rows_of(connection, supervisor_id, found)
    fresh = {name for name, alert in found.items() if alert.firing and not (name in known and known[name]["firing"])}
    if fresh and _count_firing(connection, supervisor_id) + len(fresh) > MOST_FIRING:
        raise TooManyAlerts(f"more than {MOST_FIRING} alerts are firing")
    told = []
    for fingerprint, alert in found.items():
        if fingerprint not in known and not alert.firing:
            continue  # nobody here has heard of it
        values = {
            "name": alert.name,
            "summary": alert.summary,
            "severity": alert.severity,
            "worker_id": alert.worker if alert.worker and is_known(alert.worker) else None,
            "firing": int(alert.firing),
            "begun_at": alert.begun_at,
            "heard_at": now,
            "ended_at": alert.ended_at,
        }
        key = {"supervisor_id": supervisor_id, "fingerprint": fingerprint}
        if fingerprint in known:
            mine = (rows.c.supervisor_id == supervisor_id, rows.c.fingerprint == fingerprint)
            connection.execute(update(rows).where(*mine).values(values))
        else:
            connection.execute(insert(rows), {**key, **values})
        told.append(fingerprint)
    return [_reading(row) for row in _rows_of(connection, supervisor_id, told).values()]


def forget(connection: Connection, supervisor_id: str, since: datetime, now: datetime) -> list[TargetReading]:
    """End the alerts that weren't repeated since then, and return their readings."""
    silent = (rows.c.supervisor_id == supervisor_id, rows.c.firing == 1, rows.c.heard_at < since)
    names = list(connection.execute(select(rows.c.fingerprint).where(*silent)).scalars())
    if names:
        connection.execute(update(rows).where(*silent).values(firing=0, ended_at=now))
    why = "Alertmanager hasn't repeated it"
    return [_reading(row, why) for row in _rows_of(connection, supervisor_id, names).values()]


def readings(connection: Connection, supervisor_id: str, now: datetime) -> list[TargetReading]:
    """The readings of all firing alerts, and of those that ended recently."""
    lately = (rows.c.firing == 1) | (rows.c.ended_at > now - LATELY)
    query = select(rows).where(rows.c.supervisor_id == supervisor_id, lately).order_by(rows.c.begun_at)
    return [_reading(row) for row in connection.execute(query).mappings()]


def firing_by_worker(connection: Connection, supervisor_id: str) -> dict[str, list[TargetReading]]:
    """The firing alerts that name a worker, by that worker, the oldest first."""
    named = (rows.c.firing == 1, rows.c.worker_id.is_not(None))
    query = select(rows).where(rows.c.supervisor_id == supervisor_id, *named).order_by(rows.c.begun_at)
    found: dict[str, list[TargetReading]] = {}
    for row in connection.execute(query).mappings():
        found.setdefault(row["worker_id"], []).append(_reading(row))
    return found


def worker_of(connection: Connection, supervisor_id: str, target: Target) -> str:
    """The worker that Alertmanager's alert names; empty without one."""
    if target.kind != ALERTMANAGER:
        return ""
    row = _rows_of(connection, supervisor_id, [target.id]).get(target.id)
    return (row["worker_id"] or "") if row is not None else ""


def foreign_name(target: Target, reason: str) -> str:
    """The name of Alertmanager's alert, as it was sent; empty for any other target."""
    return name_in(reason)[0] if target.kind == ALERTMANAGER else ""


def subject_of(target: Target, reason: str) -> str:
    """The name of an alert's subject."""
    return target.worker or foreign_name(target, reason) or f"The {target.kind} of {target.id}"


def targets_of(connection: Connection, supervisor_id: str, workers: Collection[str]) -> list[Target]:
    """The firing alerts that name one of these workers."""
    mine = (rows.c.supervisor_id == supervisor_id, rows.c.firing == 1, rows.c.worker_id.in_(tuple(workers)))
    names = connection.execute(select(rows.c.fingerprint).where(*mine)).scalars()
    return [Target(ALERTMANAGER, name) for name in names]


def _rows_of(connection: Connection, supervisor_id: str, fingerprints: Collection[str]) -> dict[str, RowMapping]:
    mine = (rows.c.supervisor_id == supervisor_id, rows.c.fingerprint.in_(tuple(fingerprints)))
    return {row["fingerprint"]: row for row in connection.execute(select(rows).where(*mine)).mappings()}


def _count_firing(connection: Connection, supervisor_id: str) -> int:
    query = select(func.count()).select_from(rows).where(rows.c.supervisor_id == supervisor_id, rows.c.firing == 1)
    return connection.execute(query).scalar_one()


def _reading(row: RowMapping, ended: str = "resolved in Alertmanager") -> TargetReading:
    target = Target(ALERTMANAGER, row["fingerprint"])
    if not row["firing"]:
        return TargetReading(target, Reading(Condition.WELL, ended, row["ended_at"] or row["heard_at"]))
    words = f"{row['name'].replace(SEPARATOR, ' ')}{SEPARATOR}{row['summary']}"
    return TargetReading(target, Reading(Condition.FIRING, words, row["begun_at"], severity=Severity(row["severity"])))


LOOK_SECONDS = 60.0
"""The interval of checks for alerts that are no longer repeated."""

Publish = Callable[[Iterable[TargetReading]], None]
"""Takes readings, on the event loop."""


class IncomingAlerts(Service):
    """Works behind the services that `status` lists."""

    name = "incoming"

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        settings: IncomingSettings,
        publish: Publish,
        is_known: Callable[[str], bool],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """`is_known` says whether there is such a worker."""
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._publish = publish
        self._is_known = is_known
        self._now = now
        self._label = settings.worker_label
        self._forget_after = timedelta(hours=settings.forget_hours)

    async def take(self, body: bytes) -> int:
        """Store and publish the alerts of a request, and return their number. After `PayloadError`, `TooManyAlerts`, or
        an error of the ledger, nothing is stored."""
        now, host = self._now(), self._ledger.supervisor_id
        alerts = parse_payload(body, self._label, now)
        crashpoints.reach("foreign_alerts_t.stored:before")
        stored = await self._blocking(
            self._ledger.write, lambda connection: store(connection, host, alerts, self._is_known, now)
        )
        crashpoints.reach("foreign_alerts_t.stored:after")
        self._publish(stored)
        return len(alerts)

    async def run(self, stopping: asyncio.Event) -> None:
        """Report the known alerts, and end those that aren't repeated, until asked to stop."""
        begun = False
        while not stopping.is_set():
            self.pulse.beat(within=LOOK_SECONDS)
            try:
                begun = begun or await self.tell_all()
                await self.forget()
            except SupervisorError as error:
                log.warning("the alerts from Alertmanager can't be read: %s", error)
            await wait_until(None, stopping, LOOK_SECONDS)

    async def tell_all(self) -> bool:
        """Report all firing alerts to the monitor, and those that ended recently."""
        now, host = self._now(), self._ledger.supervisor_id
        self._publish(await self._blocking(self._ledger.read, lambda connection: readings(connection, host, now)))
        return True

    async def forget(self) -> None:
        """End the alerts that weren't repeated in time."""
        now, host = self._now(), self._ledger.supervisor_id
        since = now - self._forget_after
        self._publish(await self._blocking(self._ledger.write, lambda connection: forget(connection, host, since, now)))
