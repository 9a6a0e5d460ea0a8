"""What follows from something else, decided purely: while the drive is away, workers whose heartbeats lie on it seem
silent. They are part of the drive's alert, and looked at anew when it is back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from supervisor_core.domain.alerts import Alert, AlertState, Reason
from supervisor_core.domain.conditions import CLOCK, DATABASE, DRIVE, WORKER, Condition

_HEARD_BY_ITS_FILE = frozenset({Condition.STALE, Condition.MISSING, Condition.DEGRADED, Condition.CLOCK_SKEW})

FOLDS: Mapping[Condition, frozenset[Condition]] = {
    # A worker is heard by its heartbeat on the drive, and its own work lies there. That it does not run is another
    # matter: the kernel says so, whatever the drive does.
    Condition.DRIVE_UNREACHABLE: _HEARD_BY_ITS_FILE,
    # Who works with the database complains of it, in its own words or by its probe.
    Condition.DATABASE_UNREACHABLE: frozenset({Condition.DEGRADED}),
    # Who reads the host's clock is in the future with it.
    Condition.CLOCK_SKEW: frozenset({Condition.CLOCK_SKEW}),
}
"""Which conditions of workers follow from which condition of their host."""

KINDS = (DRIVE, DATABASE, CLOCK)
"""The kinds of targets that have them."""

FOLDABLE = frozenset[Condition]().union(*FOLDS.values())
"""The conditions that may follow from another."""

SEEN_BEFORE = timedelta(minutes=5)
"""A heartbeat may be found too old before the drive is given up: what began so shortly before it belongs to it."""


def parent_of(alert: Alert, hosts: Sequence[Alert]) -> Alert | None:
    """The alert of which this one is a part; None where it stands for itself. `hosts`: those of its host."""
    if alert.target.kind != WORKER:
        return None
    for host in hosts:
        follows = alert.condition in FOLDS.get(host.condition, ())
        if follows and _holds(host) and alert.opened_at >= host.opened_at - SEEN_BEFORE:
            return host
    return None


def placed(alert: Alert, hosts: Sequence[Alert], now: datetime, grace: timedelta) -> Alert:
    """The same alert as part of what it follows from, or by itself. A member of a storm stays one. What has just been
    mended is not held against anybody for a `grace`: they need a moment to be heard again."""
    if alert.parent_id is not None and alert.parent_id not in {host.alert_id for host in hosts}:
        return alert
    parent = parent_of(alert, hosts)
    if parent is not None:
        return replace(alert, parent_id=parent.alert_id)
    if alert.parent_id is not None:
        alert = released(alert, now, grace)
    return _spared(alert, hosts, grace)


def released(alert: Alert, now: datetime, grace: timedelta) -> Alert:
    """By itself again, and it has a while to pass. Of what people were told before, it stays as it is that they were,
    and who looks after it."""
    alert = replace(alert, parent_id=None, due_at=now)
    if alert.condition not in FOLDABLE:
        return alert
    state = AlertState.PENDING if alert.told is None else alert.state
    return replace(alert, state=state, held_until=now + grace, held_why=Reason.GRACE)


def _spared(alert: Alert, hosts: Sequence[Alert], grace: timedelta) -> Alert:
    """Not accused of what the host's own trouble, just over, has left behind."""
    if not alert.is_spared:
        return alert
    ends = [
        host.cleared_at + grace
        for host in hosts
        if host.cleared_at is not None and alert.condition in FOLDS.get(host.condition, ())
    ]
    until = max([*ends, *([alert.held_until] if alert.held_until else [])], default=None)
    if until is None or until == alert.held_until:
        return alert
    return replace(alert, held_until=until, held_why=Reason.GRACE)


def _holds(host: Alert) -> bool:
    return host.state is not AlertState.CLOSED and host.cleared_at is None
