"""A schedule: a command that is given again and again, with its owner's rights as they are each time. Pure.

waiting ──(due: filed, asked for, answered, refused, skipped or missed)──▶ waiting, for the next time
   └──(removed)──▶ removed
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from supervisor_core.commands.command import Issuer
from supervisor_core.common.times import to_text

LATE = timedelta(hours=1)
"""A run that was missed for less is made up for, once; one for longer is not expected any more."""

PATIENCE = timedelta(minutes=2)
"""A run whose owner's right can't be verified is tried for so long, and then refused."""

PREFIX = "schedule:"
"""Before a schedule's name, where it is who asks."""

TAIL = 9


class ScheduleState(StrEnum):
    """Whether it goes on."""

    WAITING = "waiting"
    REMOVED = "removed"


class RunState(StrEnum):
    """What came of a time at which it was due."""

    FILED = "filed"
    """Its command was handed over; what came of that its jobs say."""
    ASKED = "asked"
    """An approval was asked for."""
    ANSWERED = "answered"
    """Its command only informs, and was answered."""
    REFUSED = "refused"
    SKIPPED = "skipped"
    """The run before was not over."""
    MISSED = "missed"
    """No supervisor was there."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last time at which it was due, and what came of it."""

    at: datetime
    state: RunState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One row of `schedules_t`."""

    schedule_id: str
    supervisor_id: str
    name: str
    cron: str
    zone: str
    command: str
    """As it would be typed, in its canonical form."""
    target: str
    """The target in it; which workers it means is found out each time."""
    owner: Issuer
    card: Mapping[str, Any] | None
    """Where what comes of it is told; None: where commands are announced that nobody gave in Slack."""
    task_id: str
    """Of the command that added it."""
    added_at: datetime
    next_at: datetime
    due_at: datetime
    """When somebody must look: at `next_at`, or later while nobody can be asked."""
    state: ScheduleState = ScheduleState.WAITING
    waiting_since: datetime | None = None
    """Since when the run that is due could not be decided about."""
    waiting_for: str = ""
    """What keeps it from being decided about."""
    last: LastRun | None = None
    last_task_id: str = ""
    """The newest command that was handed over."""
    refused_since: datetime | None = None
    """The first of the refusals without a run between them."""
    refusals: int = 0
    removed_at: datetime | None = None
    removed_by: Issuer | None = None
    secret: str = field(default="", repr=False)
    """Random, kept in the ledger alone: without it nobody can tell the ids of its commands in advance."""

    @property
    def issuer(self) -> Issuer:
        """As whom its commands are given."""
        return Issuer(f"{PREFIX}{self.name}", self.name, self.owner.id)

    def task_at(self, moment: datetime) -> str:
        """The id of the command of this moment: the same however often it is filed, and known to nobody before."""
        made = f"{self.supervisor_id} {self.schedule_id} {to_text(moment)}"
        tail = hmac.new(self.secret.encode(), made.encode(), hashlib.sha256).hexdigest()[:TAIL]
        return f"task_{moment:%Y%m%d_%H%M%S}_{tail}"


@dataclass(frozen=True, slots=True)
class DueRun:
    """What is to be done about a schedule that is due."""

    run_at: datetime | None
    """The time whose run is due now; None where all are too long ago."""
    missed_at: datetime | None
    """The first that is made up for by no run of its own."""
    next_at: datetime


def due_run(due: datetime, now: datetime, after: Callable[[datetime], datetime]) -> DueRun:
    """One run at most, however many times have passed: that of the newest, where it is not too long ago."""
    at = due if now - due <= LATE else after(now - LATE)
    if at > now:
        return DueRun(None, due, at)
    while (later := after(at)) <= now:
        at = later
    return DueRun(at, due if at != due else None, later)


def is_patience_over(schedule: Schedule, now: datetime) -> bool:
    """Whether it has waited long enough for somebody who can be asked."""
    return schedule.waiting_since is not None and now >= schedule.waiting_since + PATIENCE
