"""The rows of Alertmanager's alerts, and the readings made from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from supervisor_core.alerts.incoming.payload import SEPARATOR, ForeignAlert, name_in
from supervisor_core.storage.tables import foreign_alerts as rows
from supervisor_core.workers.conditions.rules import ALERTMANAGER, Condition, Reading, Severity, Target, TargetReading

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
