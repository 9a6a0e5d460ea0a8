"""What there is to say about an alert, read off the rows at the moment when it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from bot.views import storm
from bot.views.alert import Settings, Told, healed, reply
from bot.views.told import Content
from supervisor_core.domain.alerts import Alert, AlertState
from supervisor_core.domain.catalog import HANDLERS
from supervisor_core.domain.command import Issuer
from supervisor_core.domain.conditions import Severity, Target
from supervisor_core.domain.config_changes import APPLIED
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.storms import STORM, Members
from supervisor_core.domain.suppressions import ALERT as OF_ALERT
from supervisor_core.domain.suppressions import Hush
from supervisor_core.domain.times import from_text
from supervisor_core.ledger import alerts, flips, jobs, parents, suppressions
from supervisor_core.ledger.audit_search import AuditFilter, search

RESTARTS = ("restart_watcher", "resume")
TRIES = 50
"""So many commands since it began are looked through."""

LATELY = timedelta(days=7)
"""So far back a change of the code that other workers share may have to do with it."""

REPORTS = ("diagnostics", "verify_db")


def told_of(connection: Connection, alert_id: str, now: datetime, *, new: bool = False) -> Told | None:
    """The alert with this id, and what else is known about it; `new`: nothing was said of it yet."""
    alert = alerts.find(connection, alert_id)
    if alert is None:
        return None
    ended = ""
    if alert.state is AlertState.CLOSED and alert.closed_flip is not None:
        flip = flips.find(connection, alert.supervisor_id, alert.closed_flip)
        ended = flip.reason if flip else ""
    own = Target(OF_ALERT, alert.alert_id)
    found = suppressions.about(connection, [alert.target, own], now)
    snoozed = alert.state is AlertState.SNOOZED
    hushes = [
        each
        for each in {id(each): each for each in (*found[alert.target], *found[own])}.values()
        if each.holds(now) and (snoozed or each.kind is not Hush.SNOOZE)
        if each.kind is not Hush.QUIET or alert.severity is Severity.WARNING
    ]
    past = _commands(connection, alert)
    before = next((job for job in past if job.finished_at and job.finished_at <= alert.opened_at), None)
    above = alerts.find(connection, alert.parent_id) if alert.parent_id else None
    alone = bool(alert.target.worker)
    return Told(
        alert,
        host=alert.supervisor_id,
        ended=ended,
        before=before,
        settings=_settings(connection, alert, before),
        tries=sum(
            1 for job in past if job.handler in RESTARTS and job.finished_at and job.finished_at > alert.opened_at
        ),
        hushes=hushes,
        new=new,
        members=Members() if alone else parents.members_of(connection, alert, storm.NAMED),
        parent=above,
    )


def said_below(connection: Connection, payload: Mapping[str, Any]) -> Content | None:
    """What is said in the thread of an alert; nothing where it is over by then: its message says so."""
    alert = alerts.find(connection, str(payload["alert_id"]))
    if alert is None or alert.state is AlertState.CLOSED:
        return None
    return reply(payload, "The storm" if alert.target.kind == STORM else alert.target.id)


def came_back(connection: Connection, payload: Mapping[str, Any]) -> Content | None:
    """A worker that ended and was brought back by itself, with how often it did so on that day."""
    alert = alerts.find(connection, str(payload["alert_id"]))
    if alert is None:
        return None
    day = datetime.fromisoformat(str(payload["day"])).replace(tzinfo=UTC)
    return healed(alert, alerts.count_healed(connection, alert.target, day, day + timedelta(days=1)))


def _settings(connection: Connection, alert: Alert, before: Job | None) -> Settings | None:
    """The configuration that affected its worker, where it began before the alert and after the last command."""
    if not alert.target.worker:
        return None
    wanted = AuditFilter(worker=alert.target.id, action=APPLIED, since=alert.opened_at - LATELY, limit=TRIES)
    for row in search(connection, wanted):
        try:
            said = json.loads(row["details_json"])
            begun = from_text(said["begun_at"])
            found = Settings(Issuer(row["actor"], row["label"] or ""), begun, tuple(map(str, said["changes"])))
        except (KeyError, TypeError, ValueError):  # an altered row says nothing
            continue
        if begun <= alert.opened_at:
            newer = before is None or before.finished_at is None or before.finished_at < begun
            return found if newer else None
    return None


def _commands(connection: Connection, alert: Alert) -> list[Job]:
    """The newest commands for its worker that may have to do with it, newest first."""
    if not alert.target.worker:
        return []
    handlers = [each for each in HANDLERS if each not in REPORTS]
    own = jobs.ended(connection, [alert.target.id], handlers, TRIES)
    shared = jobs.as_sibling(connection, alert.target.id, alert.opened_at - LATELY, TRIES)
    return sorted([*own, *shared], key=lambda job: (job.finished_at or job.filed_at, job.job_id), reverse=True)
