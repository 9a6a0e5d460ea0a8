"""Alerts that follow from a trouble of their host: they are part of its alert, and by themselves again when that is
over. In the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from supervisor_core.desk.judged import Judged, Pair
from supervisor_core.domain.alerts import Alert, AlertState
from supervisor_core.domain.conditions import WORKER
from supervisor_core.domain.folding import FOLDABLE, FOLDS, KINDS, parent_of, placed, released
from supervisor_core.ledger import alerts, parents
from supervisor_core.ledger.steps import take


def part_of(
    connection: Connection, supervisor_id: str, seen: Sequence[Pair], now: datetime, grace: timedelta
) -> list[Pair]:
    """These alerts, each as part of what it follows from."""
    if not any(_may_follow(each.after) for each in seen):
        return list(seen)
    hosts = parents.hosts(connection, supervisor_id, now - grace)
    if not hosts:
        return list(seen)
    return [
        each._replace(after=placed(each.after, hosts, now, grace)) if _may_follow(each.after) else each for each in seen
    ]


def follow_hosts(
    connection: Connection, supervisor_id: str, judged: Sequence[Judged], now: datetime, grace: timedelta
) -> None:
    """A trouble of the host began: what follows from it, and began shortly before, is part of it. Or it is over: what
    was part of it is looked at anew."""
    for before, after, decision, _ in judged:
        if after.target.kind not in KINDS:
            continue
        final = replace(after, state=decision.state)
        held, holds = before is not None and _folds(before), _folds(final)
        if holds and not held:
            found = parents.foldable(connection, supervisor_id)
            moved = [(each, replace(each, parent_id=final.alert_id)) for each in found if parent_of(each, [final])]
        elif held and not holds:
            moved = [(each, released(each, now, grace)) for each in parents.children(connection, final.alert_id)]
        else:
            continue
        for was, now_so in moved:
            step = alerts.move(was, replace(now_so, due_at=now), (alerts.told_anew(was.alert_id),))
            take(connection, supervisor_id, step, now)


def _may_follow(alert: Alert) -> bool:
    return alert.target.kind == WORKER and (alert.parent_id is not None or alert.condition in FOLDABLE)


def _folds(host: Alert) -> bool:
    return host.condition in FOLDS and host.state is not AlertState.CLOSED and host.cleared_at is None
