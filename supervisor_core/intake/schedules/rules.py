"""Rules of schedules: a command that runs again and again, with its owner's rights at each run. Pure.

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
"""A missed run is made up for once, unless it's longer ago than this."""

PATIENCE = timedelta(minutes=2)
"""Time during which a run is retried while its owner's right can't be verified. Then it's refused."""

PREFIX = "schedule:"
"""The prefix of a schedule's name in an issuer id."""

TAIL = 9


class ScheduleState(StrEnum):
    WAITING = "waiting"
    REMOVED = "removed"


class RunState(StrEnum):
    FILED = "filed"
    """Its command was handed over; the jobs have the outcome."""
    ASKED = "asked"
    """An approval was requested."""
    ANSWERED = "answered"
    """Its command only shows something, which was posted."""
    REFUSED = "refused"
    SKIPPED = "skipped"
    """The previous run hadn't finished."""
    MISSED = "missed"
    """No supervisor was running."""


@dataclass(frozen=True, slots=True)
class LastRun:
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
    """The canonical text of the command."""
    target: str
    """The target of the command, resolved at each run."""
    owner: Issuer
    card: Mapping[str, Any] | None
    """The place of its results; None for the channel of commands from outside Slack."""
    task_id: str
    """The id of the command that added it."""
    added_at: datetime
    next_at: datetime
    due_at: datetime
    """The next check: `next_at`, or later while rights can't be verified."""
    state: ScheduleState = ScheduleState.WAITING
    waiting_since: datetime | None = None
    """The time since when the due run can't be decided."""
    waiting_for: str = ""
    """The reason why the due run can't be decided."""
    last: LastRun | None = None
    last_task_id: str = ""
    """The id of the newest command that was handed over."""
    refused_since: datetime | None = None
    """The first of the refusals in a row."""
    refusals: int = 0
    removed_at: datetime | None = None
    removed_by: Issuer | None = None
    secret: str = field(default="", repr=False)
    """Random, only in the ledger. It keeps the ids of its commands unpredictable."""

    @property
    def issuer(self) -> Issuer:
        return Issuer(f"{PREFIX}{self.name}", self.name, self.owner.id)

    def task_at(self, moment: datetime) -> str:
        """The id of the command of a run: the same however often it's filed, and unpredictable."""
        made = f"{self.supervisor_id} {self.schedule_id} {to_text(moment)}"
        tail = hmac.new(self.secret.encode(), made.encode(), hashlib.sha256).hexdigest()[:TAIL]
        return f"task_{moment:%Y%m%d_%H%M%S}_{tail}"


@dataclass(frozen=True, slots=True)
class DueRun:
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
