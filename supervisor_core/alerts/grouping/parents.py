"""Alerts that stand for others, as rows: digests of storms, and troubles of the host from which those of its workers
follow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, case, func, or_, select

from supervisor_core.alerts.grouping.rules import FOLDABLE, FOLDS, KINDS, STORM, AlertMembers, noun_of
from supervisor_core.alerts.rows import from_row, refresh_message
from supervisor_core.alerts.rules import LIVE, Alert, AlertState, Reason
from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.rows import Suppression
from supervisor_core.commands.command import Issuer
from supervisor_core.jobs.rows import ISSUER_NAME
from supervisor_core.storage.steps import Step, take
from supervisor_core.storage.tables import alerts, team_members, teams
from supervisor_core.workers.conditions import WORKER, Condition

LOOKED_BACK = timedelta(hours=1)
"""An alert that was posted within a window and recovered can't have begun long before it."""

# --- storms

_NEWS = (alerts.c.reminders == 0) & (alerts.c.escalated == 0)
"""True unless the last message was a reminder or an escalation, which isn't a new alert."""


def told_since(connection: Connection, supervisor_id: str, since: datetime, kinds: Sequence[str]) -> list[datetime]:
    """The times of the last messages about targets of these kinds after this moment, recovered ones included."""
    query = select(func.max(alerts.c.told_at)).where(*_of(kinds, supervisor_id), alerts.c.told_at > since)
    recent = or_(alerts.c.state.in_(LIVE), alerts.c.opened_at > since - LOOKED_BACK)  # both have an index
    query = query.where(recent, _NEWS).group_by(alerts.c.target_id)
    return list(connection.execute(query).scalars())


def may_join(connection: Connection, supervisor_id: str, since: datetime, kinds: Sequence[str]) -> list[Alert]:
    """Return the open alerts of these kinds that were posted after this moment on their own, and those gathered now."""
    lately = (alerts.c.told_at > since) & _NEWS
    mine = (alerts.c.state.in_(LIVE), alerts.c.parent_id.is_(None), alerts.c.cleared_at.is_(None))
    query = select(alerts).where(*_of(kinds, supervisor_id), *mine, or_(lately, alerts.c.decided == Reason.GATHERED))
    return [from_row(row) for row in connection.execute(query).mappings()]


def growing(connection: Connection, supervisor_id: str, since: datetime, kinds: Sequence[str]) -> Alert | None:
    """Return the open digest that an alert of one of these kinds joined after this moment."""
    query = select(alerts).where(
        alerts.c.target_type == STORM, alerts.c.state.in_(LIVE), alerts.c.supervisor_id == supervisor_id
    )
    for row in connection.execute(query.order_by(alerts.c.opened_at.desc())).mappings():
        joined = connection.execute(
            select(func.max(alerts.c.told_at)).where(_in(row["alert_id"]), alerts.c.target_type.in_(kinds))
        ).scalar()
        if joined is not None and joined > since:
            return from_row(row)
    return None


def members_of(connection: Connection, alert: Alert, shown: int = 0) -> AlertMembers:
    """The sums over its members, and so many of those that hold, the worst first."""
    holds = alerts.c.state.in_(LIVE) & alerts.c.cleared_at.is_(None)
    mine = _in(alert.alert_id)
    total, joined_at, cleared_at, kind = connection.execute(
        select(
            func.count(alerts.c.target_id.distinct()),
            func.max(alerts.c.told_at),
            func.max(alerts.c.cleared_at),
            func.max(alerts.c.target_type),
        ).where(mine)
    ).one()
    counted = select(alerts.c.condition, func.count()).where(mine, holds).group_by(alerts.c.condition)
    by_condition = {Condition(condition): count for condition, count in connection.execute(counted)}
    by_condition = dict(sorted(by_condition.items(), key=lambda each: -each[0].rank))
    first: list[Alert] = []
    by_team: dict[str, int] = {}
    if shown:
        ranks = {str(condition): -condition.rank for condition in by_condition}
        order = case(ranks, value=alerts.c.condition, else_=0) if ranks else alerts.c.condition
        query = select(alerts).where(mine, holds).order_by(order, alerts.c.target_id).limit(shown)
        first = [from_row(row) for row in connection.execute(query).mappings()]
        by_team = _by_team(connection, alert)
    holding = sum(by_condition.values())
    return AlertMembers(total, holding, first, by_condition, joined_at, cleared_at, by_team, noun_of(kind))


def _by_team(connection: Connection, alert: Alert) -> dict[str, int]:
    holds = alerts.c.state.in_(LIVE) & alerts.c.cleared_at.is_(None) & _in(alert.alert_id)
    here = (teams.c.supervisor_id == alert.supervisor_id) & (team_members.c.supervisor_id == alert.supervisor_id)
    joined = alerts.join(team_members, team_members.c.agent_id == alerts.c.target_id).join(
        teams, teams.c.team_id == team_members.c.team_id
    )
    query = select(teams.c.name, func.count()).select_from(joined)
    query = query.where(holds, here, team_members.c.left_at.is_(None)).group_by(teams.c.name)
    return dict(sorted(connection.execute(query), key=lambda each: (-each[1], each[0])))


def hushes_of_all(connection: Connection, alert: Alert, now: datetime) -> list[Suppression]:
    """The suppression of all open members that ends first; empty where one member isn't suppressed."""
    muted = suppressions.muted_until(connection, now)
    if not muted:
        return []
    holds = alerts.c.state.in_(LIVE) & alerts.c.cleared_at.is_(None) & _in(alert.alert_id)
    workers = set(connection.execute(select(alerts.c.target_id).where(holds)).scalars())
    if not workers or not workers <= muted.keys():
        return []
    return [min((muted[worker_id] for worker_id in workers), key=lambda each: each.ends_at)]


def acknowledge_members(connection: Connection, supervisor_id: str, alert_id: str, by: Issuer, now: datetime) -> None:
    values = {
        "acknowledged_by": by.id,
        "acknowledged_name": by.name[:ISSUER_NAME],
        "acknowledged_at": now,
        "decided": Reason.ACKNOWLEDGED,
    }
    for alert in children(connection, alert_id):
        if alert.state is not AlertState.ACKNOWLEDGED:
            key, messages = {"alert_id": alert.alert_id}, (refresh_message(alert.alert_id),)
            step = Step(alerts, key, (alert.state,), AlertState.ACKNOWLEDGED, values, outbox=messages)
            take(connection, supervisor_id, step, now)


# --- what follows from the host


def host_parents(connection: Connection, supervisor_id: str, since: datetime) -> list[Alert]:
    """Return the alerts about this host that others follow from, open or closed since then."""
    kinds = (alerts.c.target_type.in_(KINDS), alerts.c.condition.in_(tuple(FOLDS)))
    query = select(alerts).where(*kinds, alerts.c.supervisor_id == supervisor_id)
    query = query.where(or_(alerts.c.state.in_(LIVE), alerts.c.closed_at > since))
    return [from_row(row) for row in connection.execute(query.order_by(alerts.c.opened_at)).mappings()]


def foldable(connection: Connection, supervisor_id: str) -> list[Alert]:
    """The alerts about workers that may follow from something else, and stand for themselves."""
    mine = (alerts.c.state.in_(LIVE), alerts.c.parent_id.is_(None), alerts.c.condition.in_(tuple(FOLDABLE)))
    query = select(alerts).where(*_of((WORKER,), supervisor_id), *mine)
    return [from_row(row) for row in connection.execute(query).mappings()]


def children(connection: Connection, alert_id: str) -> list[Alert]:
    query = select(alerts).where(_in(alert_id), alerts.c.state.in_(LIVE))
    return [from_row(row) for row in connection.execute(query).mappings()]


def parents(connection: Connection, alert_ids: Collection[str]) -> list[Alert]:
    query = select(alerts).where(alerts.c.alert_id.in_(tuple(alert_ids)), alerts.c.state.in_(LIVE))
    return [from_row(row) for row in connection.execute(query).mappings()]


def _in(alert_id: str) -> ColumnElement[bool]:
    return alerts.c.parent_id == alert_id


def _of(kinds: Sequence[str], supervisor_id: str) -> tuple[ColumnElement[bool], ...]:
    return alerts.c.target_type.in_(kinds), alerts.c.supervisor_id == supervisor_id
