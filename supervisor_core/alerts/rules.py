"""An alert, decided purely: the message that people get now, and the time of the next decision.

    pending ─ it does not recover on its own ─→ open ⇄ acknowledged, snoozed ─ recovered ─→ closed
       └─ it recovered on its own ─→ closed, and nobody was called

The last message is part of the alert, and each decision starts from it. So a decision that is made twice, after a crash
or because something else woke the scheduler, changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from supervisor_core.alerts.flips import Flip
from supervisor_core.alerts.suppression.rows import Hush, Suppression, holding, over_since
from supervisor_core.commands.command import Issuer
from supervisor_core.workers.conditions import Condition, Reading, Severity, Target

LONGEST_REMINDER = timedelta(days=1)
"""Reminders grow rarer, up to this."""


class AlertState(StrEnum):
    PENDING = "pending"
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    CLOSED = "closed"


LIVE = (AlertState.PENDING, AlertState.OPEN, AlertState.ACKNOWLEDGED, AlertState.SNOOZED)
SHOWN = (AlertState.OPEN, AlertState.ACKNOWLEDGED, AlertState.SNOOZED)
"""The states of alerts in a list for people."""


class Reason(StrEnum):
    """The name of a decision: first those that post a message, then the reasons for silence."""

    FIRST = "first"
    AGAIN = "again"
    """The condition ended and returned before the alert closed."""
    WORSE = "worse"
    BETTER = "better"
    REMINDER_DUE = "reminder_due"
    ESCALATED = "escalated"
    """Nobody acknowledged it in time, so more people are notified."""
    STORM = "storm"
    RESOLVED = "resolved"
    HEALED = "healed"
    """It ended on its own before anybody was notified."""

    GRACE = "grace"
    WAITING_FOR_RESTART = "waiting_for_restart"
    OPEN_AFTER = "open_after"
    CLOSE_AFTER = "close_after"
    MUTED = "muted"
    SNOOZED = "snoozed"
    IN_MAINTENANCE = "in_maintenance"
    QUIET_HOURS = "quiet_hours"
    MONITORING_PAUSED = "monitoring_paused"
    FOLDED = "folded"
    GATHERED = "gathered"
    """Another alert was posted within this second: together they may be a storm."""
    ACKNOWLEDGED = "acknowledged"
    TOLD_ALREADY = "told_already"

    @property
    def replies(self) -> bool:
        """True if it is also posted in the thread, because an edit notifies nobody."""
        return self in (Reason.AGAIN, Reason.WORSE, Reason.REMINDER_DUE)

    @property
    def tells(self) -> bool:
        """True if its message says something else than before."""
        return self in _TELLS


_TELLS = frozenset(
    {
        Reason.FIRST,
        Reason.AGAIN,
        Reason.WORSE,
        Reason.BETTER,
        Reason.REMINDER_DUE,
        Reason.ESCALATED,
        Reason.STORM,
        Reason.RESOLVED,
    }
)
_OF_HUSH: Mapping[Hush, Reason] = {
    Hush.MUTE: Reason.MUTED,
    Hush.SNOOZE: Reason.SNOOZED,
    Hush.MAINTENANCE: Reason.IN_MAINTENANCE,
    Hush.QUIET: Reason.QUIET_HOURS,
}
_KEPT_QUIET = frozenset({*_OF_HUSH.values(), Reason.FOLDED})


@dataclass(frozen=True, slots=True)
class Alert:
    """One row of `alerts_t`."""

    alert_id: str
    target: Target
    condition: Condition
    reason: str
    opened_at: datetime
    """Since when it holds, truly."""
    opened_flip: int
    state: AlertState = AlertState.PENDING
    severity: Severity = Severity.CRITICAL
    occurrences: int = 1
    held_until: datetime | None = None
    held_why: Reason | None = None
    cleared_at: datetime | None = None
    """The time its condition ended; None while it lasts."""
    closed_at: datetime | None = None
    closed_flip: int | None = None
    acknowledged_by: Issuer | None = None
    acknowledged_at: datetime | None = None
    told: Condition | None = None
    """The condition in its last message; None before the first one."""
    told_occurrence: int = 0
    told_at: datetime | None = None
    reminders: int = 0
    decided: str = ""
    due_at: datetime | None = None
    evidence: tuple[str, ...] = ()
    """The last lines of its log, when it began."""
    parent_id: str | None = None
    quieted: Reason | None = None
    """The suppression since its last message; when that ends, an open alert is posted."""
    calling_since: datetime | None = None
    """Since when people are called: its first word, or the first one after it was kept quiet."""
    escalated: int = 0
    """The number of escalation steps taken."""
    supervisor_id: str = ""

    @property
    def is_spared(self) -> bool:
        """True if the alert may wait: it isn't open yet, or its parent has closed."""
        unfolded = self.quieted is Reason.FOLDED and self.parent_id is None
        return self.state is AlertState.PENDING or unfolded


@dataclass(frozen=True, slots=True)
class AlertRules:
    """The configured times of messages."""

    open_after: timedelta = timedelta(0)
    close_after: timedelta = timedelta(0)
    renotify: timedelta = timedelta(hours=1)
    """Until the first reminder; each next one takes twice as long. Zero: none."""
    escalation: tuple[timedelta, ...] = ()
    """After how long without an acknowledgement each step of the escalation is taken, in their order."""

    def reminder_after(self, reminders: int) -> timedelta | None:
        """The time from the last message to the next reminder, after so many reminders; None for no reminder."""
        if not self.renotify:
            return None
        grown: timedelta = self.renotify * 2 ** min(reminders, 20)
        return max(self.renotify, min(grown, LONGEST_REMINDER))

    def steps_by(self, calling_since: datetime, now: datetime) -> int:
        return sum(1 for after in self.escalation if calling_since + after <= now)

    def step_at(self, calling_since: datetime, taken: int) -> datetime | None:
        """The time at which the next step is due after so many; None where it was the last."""
        return calling_since + self.escalation[taken] if taken < len(self.escalation) else None


class Decision(NamedTuple):
    """The decision about an alert: its reason, the alert's next state, and the latest time of the next decision."""

    reason: Reason
    state: AlertState
    due_at: datetime | None = None
    escalated: int = 0
    """Of an escalation: how many of its steps are taken then."""


def decide(
    alert: Alert,
    now: datetime,
    rules: AlertRules,
    suppressions: Sequence[Suppression] = (),
    *,
    resting: bool = False,
    grown: bool = False,
) -> Decision:
    """Decide about the message of this alert. `suppressions` are those of its target and of itself, the
    ended ones since it was told included; `resting`: monitoring is paused; `grown`: from a warning it has just become
    critical, though its condition has the same name.

    1. Its condition ended: close it, immediately or after a delay.
    2. It may recover on its own: wait. A first word comes before everything that only repeats.
    3. Somebody wants it quiet: say nothing.
    4. Otherwise a message, or silence because people know already; and the next escalation, until it's acknowledged.
    """
    if alert.state is AlertState.CLOSED:
        return Decision(Reason.RESOLVED, alert.state)
    if alert.cleared_at is not None:
        if alert.state is AlertState.PENDING:
            return Decision(Reason.HEALED, AlertState.CLOSED)
        until = alert.cleared_at + rules.close_after
        if alert.told is not None and now < until:
            return Decision(Reason.CLOSE_AFTER, alert.state, until)
        return Decision(Reason.RESOLVED, AlertState.CLOSED)
    if alert.is_spared:
        # A start in the future means that the clock was set back. The duration is unknown then, and early beats late.
        began = alert.opened_at if alert.opened_at <= now else now - rules.open_after
        until, why = began + rules.open_after, Reason.OPEN_AFTER
        if alert.held_until is not None and alert.held_until > until:
            until, why = alert.held_until, alert.held_why or Reason.GRACE
        if now < until:
            return Decision(why, alert.state, until)
    quiet = _quiet(alert, now, suppressions, resting=resting, grown=grown)
    if quiet is not None:
        return quiet
    decision = _heard(alert, now, rules, suppressions, grown=grown)
    since = _calling_since(alert, decision.reason, now)
    if decision.state is not AlertState.OPEN or since is None:
        return decision
    next_step = rules.step_at(since, max(alert.escalated, decision.escalated))
    times = [at for at in (decision.due_at, next_step) if at is not None]
    return decision._replace(due_at=min(times, default=None))


def _quiet(
    alert: Alert, now: datetime, suppressions: Sequence[Suppression], *, resting: bool, grown: bool
) -> Decision | None:
    """The reason for silence while the problem lasts."""
    state = AlertState.OPEN if alert.state in (AlertState.PENDING, AlertState.SNOOZED) else alert.state
    if alert.parent_id is not None:
        return Decision(Reason.FOLDED, state)
    if resting:
        return Decision(Reason.MONITORING_PAUSED, state)
    critical = alert.severity is Severity.CRITICAL
    worse = alert.condition.severity is Severity.CRITICAL
    grown = grown or (worse and alert.told is not None and alert.told.severity is Severity.WARNING)
    hush = holding(suppressions, now, critical=critical, but=(Hush.SNOOZE,) if grown else ())
    if hush is None:
        return None
    return Decision(_OF_HUSH[hush.kind], AlertState.SNOOZED if hush.kind is Hush.SNOOZE else state, hush.ends_at)


def _heard(
    alert: Alert, now: datetime, rules: AlertRules, suppressions: Sequence[Suppression], *, grown: bool
) -> Decision:
    """The reason for a message, or for silence because people know already."""
    state = alert.state if alert.state is AlertState.ACKNOWLEDGED else AlertState.OPEN

    def reminder(number: int, since: datetime = now) -> datetime | None:
        after = rules.reminder_after(number)
        return since + after if after and state is AlertState.OPEN else None

    if alert.told is None or alert.told_at is None:
        return Decision(Reason.FIRST, state, reminder(0))
    # Missed steps of the escalation count as one. After a suppression the first message comes first.
    if state is AlertState.OPEN and alert.quieted is None and alert.calling_since is not None:
        steps = rules.steps_by(alert.calling_since, now)
        if steps > alert.escalated:
            return Decision(Reason.ESCALATED, state, reminder(alert.reminders), steps)
    if grown or alert.condition.rank > alert.told.rank:
        return Decision(Reason.WORSE, state, reminder(0))
    if alert.occurrences > alert.told_occurrence:
        return Decision(Reason.AGAIN, state, reminder(0))
    better = alert.condition.rank < alert.told.rank
    if state is AlertState.ACKNOWLEDGED:
        return Decision(Reason.BETTER if better else Reason.ACKNOWLEDGED, state)
    due = reminder(alert.reminders, alert.told_at)
    spoken_again = alert.quieted is not None or over_since(suppressions, alert.told_at, now)
    if (due is not None and due <= now) or spoken_again:
        return Decision(Reason.REMINDER_DUE, state, reminder(alert.reminders + 1))
    return Decision(Reason.BETTER if better else Reason.TOLD_ALREADY, state, due)


def _calling_since(alert: Alert, reason: Reason, now: datetime) -> datetime | None:
    """Since when people are notified, after this decision."""
    begins = reason is Reason.FIRST or (reason.tells and reason is not Reason.STORM and alert.quieted is not None)
    return now if begins else alert.calling_since


def after_flip(alert: Alert | None, flip: Flip, reading: Reading, alert_id: str) -> Alert | None:
    """The alert after a flip of its target; `alert_id` names a new one."""
    if flip.new.fine:
        return alert and replace(alert, cleared_at=flip.at, closed_flip=flip.flip_id)
    held_why = _held_why(reading)
    if alert is None:
        return Alert(
            alert_id,
            flip.target,
            flip.new,
            flip.reason,
            opened_at=flip.at,
            opened_flip=flip.flip_id,
            severity=reading.severity or flip.new.severity,
            held_until=reading.held_until,
            held_why=held_why,
        )
    came_back = alert.cleared_at is not None
    return replace(
        alert,
        condition=flip.new,
        severity=reading.severity or flip.new.severity,
        reason=flip.reason,
        occurrences=alert.occurrences + (1 if came_back else 0),
        held_until=reading.held_until,
        held_why=held_why,
        cleared_at=None,
        closed_flip=None,
    )


def after_look(alert: Alert, reading: Reading) -> Alert:
    """Update the alert after an observation of the same condition. A worker that crashes again instead of recovering
    gets no more time."""
    held_why, held_until = _held_why(reading), reading.held_until
    if held_until and alert.held_until and held_why is alert.held_why is Reason.WAITING_FOR_RESTART:
        held_until = min(held_until, alert.held_until)
    severity = reading.severity or alert.severity
    return replace(alert, reason=reading.reason, severity=severity, held_until=held_until, held_why=held_why)


def _held_why(reading: Reading) -> Reason | None:
    return Reason.WAITING_FOR_RESTART if reading.healing else Reason.GRACE if reading.held_until else None


def after_decision(alert: Alert, decision: Decision, now: datetime) -> Alert:
    """The alert as it is once this decision is carried out."""
    reason = decision.reason
    alert = replace(alert, state=decision.state, decided=str(reason), due_at=decision.due_at)
    if decision.state is AlertState.CLOSED:
        return replace(alert, closed_at=alert.closed_at or alert.cleared_at or now, due_at=None)
    if reason in _KEPT_QUIET:
        return replace(alert, quieted=reason)
    if reason is Reason.BETTER:
        return replace(alert, told=alert.condition)
    if not reason.tells or (reason is Reason.STORM and alert.told is not None):
        return alert
    same = reason is Reason.ESCALATED
    reminders = alert.reminders + 1 if reason is Reason.REMINDER_DUE else alert.reminders if same else 0
    return replace(
        alert,
        told=alert.condition,
        told_occurrence=alert.occurrences,
        told_at=now,
        reminders=reminders,
        quieted=None,
        calling_since=_calling_since(alert, reason, now),
        escalated=max(alert.escalated, decision.escalated),
    )
