"""Groups alerts in the caller's transaction: many at once into a storm, and those that follow from their host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.grouping import parents
from supervisor_core.alerts.grouping.rules import (
    FOLDABLE,
    FOLDS,
    FOREIGN,
    HOSTS,
    KINDS,
    WORKERS,
    RecentAlerts,
    StormGrouping,
    StormRules,
    digest,
    group_storm,
    parent_of,
    placed,
    released,
)
from supervisor_core.alerts.rows import AlertChange, AlertDecision
from supervisor_core.alerts.rules import Alert, AlertState, Decision, Reason
from supervisor_core.common import crashpoints
from supervisor_core.storage.steps import take
from supervisor_core.workers.conditions import WORKER

NewId = Callable[[], str]
Decide = Callable[[Alert], AlertDecision]


def group_alerts(
    connection: Connection,
    supervisor_id: str,
    decisions: Sequence[AlertDecision],
    now: datetime,
    rules: StormRules,
    new_id: NewId,
    decide: Decide,
) -> list[AlertDecision]:
    """Delay first messages for a moment, and fold the alerts of a storm, with recent ones, into its digest.

    A new digest comes first in the result; `decide` decides about it.
    Workers, hosts and alerts from elsewhere have digests of their own.
    """
    grouped = list(decisions)
    for kinds in (WORKERS, HOSTS, FOREIGN):
        grouped = _group_kinds(connection, supervisor_id, grouped, now, rules, new_id, decide, kinds)
    return grouped


def _group_kinds(
    connection: Connection,
    supervisor_id: str,
    decisions: list[AlertDecision],
    now: datetime,
    rules: StormRules,
    new_id: NewId,
    decide: Decide,
    kinds: Sequence[str],
) -> list[AlertDecision]:
    opening = {each.after.alert_id: each for each in decisions if _opens(each, kinds)}
    if not opening:
        return decisions
    since = now - rules.window
    here = {each.after.alert_id for each in decisions}
    there = [each for each in parents.may_join(connection, supervisor_id, since, kinds) if each.alert_id not in here]
    others = [each for each in there if each.told is not None or decide(each).decision.reason is Reason.FIRST]
    waiting = sum(1 for each in others if each.decided == Reason.GATHERED)
    lately = RecentAlerts(parents.told_since(connection, supervisor_id, since, kinds), waiting)
    found = group_storm([each.after for each in opening.values()], lately, now, rules)
    if not found.members:
        waits = {each.alert_id for each in found.waiting}
        return [_waiting(each, found, waits) for each in decisions]
    crashpoints.reach("alerts_t.storm:before")
    grown = parents.growing(connection, supervisor_id, since, kinds)
    one = grown or digest(new_id(), [*found.members, *others], supervisor_id)
    joined = [
        _joined(each, one) if each.after.alert_id in opening or _was_told_lately(each, since, kinds) else each
        for each in decisions
    ]
    joined += [_joined(AlertDecision(each, each, Decision(Reason.STORM, each.state)), one) for each in others]
    return joined if grown else [decide(one), *joined]


def _opens(each: AlertDecision, kinds: Sequence[str]) -> bool:
    return each.decision.reason is Reason.FIRST and each.after.target.kind in kinds


def _was_told_lately(each: AlertDecision, since: datetime, kinds: Sequence[str]) -> bool:
    """True if this alert, with another decision now, belongs to a storm that begins."""
    after = each.after
    fresh = after.told_at is not None and after.told_at > since and not after.reminders and not after.escalated
    holds = after.cleared_at is None and each.decision.state is not AlertState.CLOSED
    return after.target.kind in kinds and after.parent_id is None and fresh and holds


def _waiting(each: AlertDecision, found: StormGrouping, waits: set[str]) -> AlertDecision:
    """Decide when the delay ends; later alerts don't extend it."""
    if each.after.alert_id not in waits:
        return each
    own = each.after.due_at if each.after.decided == Reason.GATHERED else None
    until = min(own, found.until) if own and found.until else found.until
    return each._replace(decision=Decision(Reason.GATHERED, each.after.state, until))


def _joined(each: AlertDecision, one: Alert) -> AlertDecision:
    state = AlertState.OPEN if each.after.state is AlertState.PENDING else each.after.state
    after = replace(each.after, parent_id=one.alert_id)
    return each._replace(after=after, decision=Decision(Reason.STORM, state))


def part_of(
    connection: Connection, supervisor_id: str, changes: Sequence[AlertChange], now: datetime, grace: timedelta
) -> list[AlertChange]:
    """These alerts, each as part of the host's alert that it follows from."""
    if not any(_may_follow(each.after) for each in changes):
        return list(changes)
    hosts = parents.host_parents(connection, supervisor_id, now - grace)
    if not hosts:
        return list(changes)
    return [
        each._replace(after=placed(each.after, hosts, now, grace)) if _may_follow(each.after) else each
        for each in changes
    ]


def follow_hosts(
    connection: Connection, supervisor_id: str, decisions: Sequence[AlertDecision], now: datetime, grace: timedelta
) -> None:
    """Fold the alerts that follow from a new problem of the host into its alert, and release them when that closes."""
    found: list[Alert] | None = None
    for before, after, decision, _ in decisions:
        if after.target.kind not in KINDS:
            continue
        final = replace(after, state=decision.state)
        held, holds = before is not None and _folds(before), _folds(final)
        if holds and not held:
            found = parents.foldable(connection, supervisor_id) if found is None else found
            moved = [(each, replace(each, parent_id=final.alert_id)) for each in found if parent_of(each, [final])]
        elif held and not holds:
            moved = [(each, released(each, now, grace)) for each in parents.children(connection, final.alert_id)]
        else:
            continue
        for was, now_so in moved:
            step = alerts.move(was, replace(now_so, due_at=now), (alerts.refresh_message(was.alert_id),))
            take(connection, supervisor_id, step, now)


def _may_follow(alert: Alert) -> bool:
    return alert.target.kind == WORKER and (alert.parent_id is not None or alert.condition in FOLDABLE)


def _folds(host: Alert) -> bool:
    return host.condition in FOLDS and host.state is not AlertState.CLOSED and host.cleared_at is None
