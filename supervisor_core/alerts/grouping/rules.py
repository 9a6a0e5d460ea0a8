"""Groups of alerts, decided purely: storms, and the alerts that follow from their host.

The first alert is posted at once, those that follow wait for a second, and more than a few become the digest of a
storm: an alert of its own. Its members keep their rows and their states, and are posted by the digest alone until it
closes. So there is one thing to acknowledge, and nothing to count twice.

While the drive is away, workers whose heartbeats lie on it seem stale: they are part of the drive's alert, and are
observed anew when it is back. The same holds for the workers of an unresponsive host. Many such hosts are a storm of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from supervisor_core.alerts.rules import Alert, AlertState, Reason
from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.workers.conditions import (
    ALERTMANAGER,
    CLOCK,
    DATABASE,
    DRIVE,
    FLAPPING,
    SUPERVISOR,
    WORKER,
    Condition,
    Severity,
    Target,
)

STORM = "storm"
"""The kind of target of a storm; its id is that of the digest."""

NOUNS: Mapping[str, str] = {WORKER: "worker", SUPERVISOR: "host", ALERTMANAGER: "alert"}
_STATES: Mapping[str, str] = {NOUNS[SUPERVISOR]: "unresponsive", NOUNS[ALERTMANAGER]: "firing"}

GATHER = timedelta(seconds=1)
"""So long those wait that follow on a first word, so that a storm is known before the second of them is posted."""


@dataclass(frozen=True, slots=True)
class StormRules:
    """More openings than `threshold` within the window are a storm."""

    threshold: int = 5
    window: timedelta = timedelta(seconds=30)


class RecentAlerts(NamedTuple):
    """The messages within the window, and the alerts that wait for theirs."""

    told: Sequence[datetime] = ()
    """The time at which each alert was posted, on its own or as a member of a storm."""
    waiting: int = 0
    """The number of other alerts that are held back."""


class StormGrouping(NamedTuple):
    """The messages for alerts that are due for their first one."""

    alone: Sequence[Alert] = ()
    """By a message of their own, now."""
    waiting: Sequence[Alert] = ()
    until: datetime | None = None
    """The time at which it is decided about those that wait."""
    members: Sequence[Alert] = ()
    """By a digest."""


def group_storm(opening: Sequence[Alert], lately: RecentAlerts, now: datetime, rules: StormRules) -> StormGrouping:
    """Decide about alerts that are due for their first message: each alone, later, or all in one digest."""
    if not opening:
        return StormGrouping()
    told = [moment for moment in lately.told if now - rules.window < moment <= now]  # later: the clock was set back
    if len(told) + lately.waiting + len(opening) > rules.threshold:
        return StormGrouping(members=opening)
    alone = [alert for alert in opening if _has_waited(alert, now)]
    rest = [alert for alert in opening if not _has_waited(alert, now)]
    last = max(told, default=None)
    if not alone and (last is None or last + GATHER <= now):
        alone, rest, last = rest[:1], rest[1:], now
    begun = last if last is not None and last + GATHER > now else now
    return StormGrouping(alone, rest, begun + GATHER if rest else None)


def as_people_count(alerts: Sequence[Alert]) -> list[Alert]:
    """Of open alerts, those that a person counts: no digest, because its members count, and of a worker that is
    flapping one."""
    flapping = {alert.alert_id for alert in alerts if alert.target.kind == FLAPPING}
    return [alert for alert in alerts if alert.target.kind != STORM and alert.parent_id not in flapping]


WORKERS, HOSTS, FOREIGN = (WORKER, FLAPPING), (SUPERVISOR,), (ALERTMANAGER,)
"""The kinds of targets whose alerts become a digest with each other. What is wrong with a part of a host always has its
own message."""


def _has_waited(alert: Alert, now: datetime) -> bool:
    return alert.decided == Reason.GATHERED and alert.due_at is not None and alert.due_at <= now


@dataclass(frozen=True, slots=True)
class AlertMembers:
    """Sums over the alerts that a digest stands for."""

    total: int = 0
    holding: int = 0
    """Those whose condition holds still."""
    first: Sequence[Alert] = ()
    """Some of these, the worst first."""
    by_condition: Mapping[Condition, int] = field(default_factory=dict)
    """The number of open ones."""
    joined_at: datetime | None = None
    """The time at which the last one came."""
    cleared_at: datetime | None = None
    """Since when the last one is well, of those that are."""
    by_team: Mapping[str, int] = field(default_factory=dict)
    """The number of open ones by team."""
    noun: str = NOUNS[WORKER]
    """The kind of the members."""

    @property
    def worst(self) -> Severity:
        critical = any(condition.severity is Severity.CRITICAL for condition in self.by_condition)
        return Severity.CRITICAL if critical else Severity.WARNING


def digest(alert_id: str, members: Sequence[Alert], supervisor_id: str) -> Alert:
    first = min(members, key=lambda each: each.opened_at)
    worst = max(members, key=lambda each: (each.severity is Severity.CRITICAL, each.condition.rank))
    return Alert(
        alert_id,
        Target(STORM, alert_id),
        Condition.STORM,
        in_words(len(members), len(members), noun_of(first.target.kind)),
        opened_at=first.opened_at,
        opened_flip=first.opened_flip,
        severity=worst.severity,
        supervisor_id=supervisor_id,
    )


def after_members(alert: Alert, members: AlertMembers, now: datetime) -> Alert:
    """The digest as its members make it: over when none of them holds any more."""
    words = in_words(members.total, members.holding, members.noun)
    if members.holding:
        return replace(alert, reason=words, severity=members.worst, cleared_at=None)
    return replace(alert, reason=words, cleared_at=alert.cleared_at or members.cleared_at or now)


def closes_after(members: AlertMembers, cleared_at: datetime, rules: StormRules, otherwise: timedelta) -> timedelta:
    """The time from the last recovery of a member to the end of a digest; others may join it until then."""
    quiet_at = members.joined_at + rules.window if members.joined_at else cleared_at
    return max(otherwise, quiet_at - cleared_at)


def noun_of(kind: str) -> str:
    return NOUNS.get(kind, NOUNS[WORKER])


def in_words(total: int, holding: int, noun: str) -> str:
    many, state = f"{total:,} {noun}s", _STATES.get(noun, "unhealthy")
    if holding == total:
        return f"{many} are {state}"
    if not holding:
        return f"{many} were {state}"
    return f"{holding:,} of {many} are still {state}"


_HEARD_BY_ITS_FILE = frozenset({Condition.STALE, Condition.MISSING, Condition.DEGRADED, Condition.CLOCK_SKEW})

FOLDS: Mapping[Condition, frozenset[Condition]] = {
    # A worker is heard by its heartbeat on the drive, and its own work lies there. That it does not run is another
    # matter: the kernel says so, whatever the drive does.
    Condition.DRIVE_UNREACHABLE: _HEARD_BY_ITS_FILE,
    # Who works with the database complains of it, in its own words or by its probe.
    Condition.DATABASE_UNREACHABLE: frozenset({Condition.DEGRADED}),
    # Who reads the host's clock is in the future with it.
    Condition.CLOCK_SKEW: frozenset({Condition.CLOCK_SKEW}),
    # Whose host says nothing, of that nobody knows anything.
    Condition.SUPERVISOR_SILENT: frozenset(each for each in Condition if not each.fine),
}
"""The conditions of workers that follow from a condition of their host."""

KINDS = (DRIVE, DATABASE, CLOCK, SUPERVISOR)
"""The kinds of targets that have them."""

FOLDABLE = frozenset[Condition]().union(*FOLDS.values())
"""The conditions that may follow from another."""

SEEN_BEFORE = timedelta(minutes=5)
"""A heartbeat may look stale before the drive counts as unreachable: an alert shortly before belongs to it."""


def parent_of(alert: Alert, hosts: Sequence[Alert]) -> Alert | None:
    """Return the alert that this one is a part of; None without one. `hosts` are the alerts of its host."""
    if alert.target.kind != WORKER:
        return None
    for host in hosts:
        always = host.condition is Condition.SUPERVISOR_SILENT
        if _follows(alert, host) and _holds(host) and (always or alert.opened_at >= host.opened_at - SEEN_BEFORE):
            return host
    return None


def _follows(alert: Alert, host: Alert) -> bool:
    """True if a worker's condition may follow from this one of its host."""
    worker = alert.target.id
    own = address_of(worker).host if is_address(worker) else alert.supervisor_id
    return host.target.id == own and alert.condition in FOLDS.get(host.condition, ())


def placed(alert: Alert, hosts: Sequence[Alert], now: datetime, grace: timedelta) -> Alert:
    """Attach the alert to its cause, or release it. A member of a storm stays one.

    After a recovery of the host, alerts wait for a `grace`: heartbeats need a moment to arrive."""
    if alert.parent_id is not None and alert.parent_id not in {host.alert_id for host in hosts}:
        return alert
    parent = parent_of(alert, hosts)
    if parent is not None:
        return replace(alert, parent_id=parent.alert_id)
    if alert.parent_id is not None:
        alert = released(alert, now, grace)
    return _spared(alert, hosts, grace)


def released(alert: Alert, now: datetime, grace: timedelta) -> Alert:
    """Release the alert from its parent, with a grace period. Past messages and the acknowledgment stay."""
    alert = replace(alert, parent_id=None, due_at=now)
    if alert.condition not in _HEARD_BY_ITS_FILE:
        return alert
    state = AlertState.PENDING if alert.told is None else alert.state
    return replace(alert, state=state, held_until=now + grace, held_why=Reason.GRACE)


def _spared(alert: Alert, hosts: Sequence[Alert], grace: timedelta) -> Alert:
    """Spare the alert for a grace period after the host's own problem."""
    if not alert.is_spared:
        return alert
    ends = [host.cleared_at + grace for host in hosts if host.cleared_at is not None and _follows(alert, host)]
    until = max([*ends, *([alert.held_until] if alert.held_until else [])], default=None)
    if until is None or until == alert.held_until:
        return alert
    return replace(alert, held_until=until, held_why=Reason.GRACE)


def _holds(host: Alert) -> bool:
    return host.state is not AlertState.CLOSED and host.cleared_at is None
