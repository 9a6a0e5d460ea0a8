"""A job: one command for one worker, and its states.

    queued → claimed → started → done
      │                   └────→ interrupted      (its executor died while the handler was at work)
      └────────────────────────→ done             (not begun: its command failed on a worker before it)

A claimed job that isn't started runs after a crash. A started one is reported as interrupted and never run again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.commands.labels import audit_label
from supervisor_core.commands.parameters import TASK_ID
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import one_line, random_id
from supervisor_core.common.times import format_span, from_text, require_aware, to_text

TAIL = 7
"""The random letters: 78 billion ids in each second. The longest flag's name with such an id has 255 letters."""

PROGRESS_WORDS = 200
"""The most characters of a step: one line on a card or a terminal."""

MOST_PROGRESS = 50
"""The steps kept of one job: more than anybody reads, and a limit for a handler that reports too much."""

_RESERVED = re.compile(r"task_button_.*|task_\d{8}_\d{6}_[0-9a-f]{9}", re.ASCII)
"""The ids of Slack commands, buttons and schedules, which somebody could know in advance."""


SHOWN = 40
"""The most characters shown of an id that isn't valid."""


class JobState(StrEnum):
    QUEUED = "queued"
    CLAIMED = "claimed"
    STARTED = "started"
    DONE = "done"
    INTERRUPTED = "interrupted"


FINAL = (JobState.DONE, JobState.INTERRUPTED)


class RollingState(StrEnum):
    """The state of a rolling change, whose jobs run in batches."""

    RUNNING = "running"
    PAUSED = "paused"
    """By a person."""
    HALTED = "halted"
    """By itself, after too many failures."""
    ABORTED = "aborted"
    DONE = "done"


START_BEFORE = "start_before"
"""The parameter with the time after which a command of a fleet isn't started. The requester doesn't type it."""

NOT_BEGUN = "not_begun"
"""The key in an outcome's details of a job that wasn't started, because its command failed on an earlier worker."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A step of a handler, with its time. The words are one line of limited length."""

    at: datetime
    words: str

    def __post_init__(self) -> None:
        require_aware(self.at)
        object.__setattr__(self, "words", one_line(self.words, PROGRESS_WORDS))

    def as_json(self) -> dict[str, str]:
        """The step as stored, and as in result files and responses."""
        return {"at": to_text(self.at), "words": self.words}


def add_progress(steps: tuple[Progress, ...], step: Progress) -> tuple[Progress, ...]:
    """The steps with one more. Once the limit is reached, the new one replaces the last."""
    return (*steps[: MOST_PROGRESS - 1], step)


@dataclass(frozen=True, slots=True)
class Job:
    """One row of `jobs_t`."""

    job_id: int
    supervisor_id: str
    task_id: str
    worker_id: str
    handler: str
    params: Mapping[str, Any]
    label: str | None
    issuer: Issuer
    door: str
    state: JobState
    filed_at: datetime
    approvals: tuple[Mapping[str, Any], ...] = ()
    outcome: Outcome | None = None
    finished_at: datetime | None = None
    progress: tuple[Progress, ...] = ()
    batch: int | None = None
    """The batch of a rolling change, from 1."""
    started_at: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))

    @property
    def command(self) -> str:
        """The name of its command, as people type it."""
        definition = by_handler(self.handler)
        return definition.name if definition else self.handler

    @property
    def audit_label(self) -> str:
        return audit_label(self.issuer.name, self.issuer.id, self.label)


def start_objection(job: Job, now: datetime) -> str:
    """Why a command of a fleet isn't started any more; empty for any other one."""
    limit = job.params.get(START_BEFORE)
    if not isinstance(limit, str) or now < from_text(limit):
        return ""
    return f"It had to be started by {from_text(limit):%H:%M:%S} UTC, and its turn came later. Nothing was done."


def has_expired(since: datetime, valid_seconds: float, now: datetime) -> bool:
    """True if a command that has waited since then isn't started any more. 0 seconds: it never expires."""
    return bool(valid_seconds) and (now - since).total_seconds() > valid_seconds


def expired_words(since: datetime, valid_seconds: float) -> str:
    valid = format_span(valid_seconds)
    return f"Expired: it waited since {since:%Y-%m-%d %H:%M} UTC and was valid for {valid}. Nothing was done."


def not_begun(job: Job) -> bool:
    """True if its command ended before this worker's turn: a failure of the command, not of the worker."""
    return job.outcome is not None and job.outcome.details.get(NOT_BEGUN) is True


def not_begun_after(job: Job, after: Job) -> Outcome:
    """The outcome of a job that wasn't started, because its command failed on an earlier worker."""
    how = "was interrupted" if after.state is JobState.INTERRUPTED else "failed"
    return Outcome.failed(
        f"Skipped: {job.command} {how} on {after.worker_id}. Fix {after.worker_id}, then send the command again "
        "for the remaining workers. To continue after a failure, use --keep-going.",
        **{NOT_BEGUN: True},
        after=after.worker_id,
    )


def new_task_id(now: datetime) -> str:
    """A new id, such as `task_20260205_143015_` with random letters: it sorts by time and is unique."""
    return f"task_{require_aware(now):%Y%m%d_%H%M%S}_{random_id(TAIL)}"


def is_reserved(task_id: str) -> bool:
    """True if only Slack and schedules make ids of this form. A flag can't have one."""
    return _RESERVED.fullmatch(task_id) is not None


def check_own_id(task_id: str) -> str:
    """The command id that a program brings along; `UsageError` if it isn't valid or only we make such ids."""
    if TASK_ID.fullmatch(task_id) is None:
        raise UsageError(f"{one_line(task_id, SHOWN)!a} isn't a command id: use 1 to 128 letters, digits, - and _.")
    if is_reserved(task_id):
        raise UsageError(f"Command ids such as {task_id} are reserved for commands from Slack and from schedules.")
    return task_id


@dataclass(frozen=True, slots=True)
class CommandSummary:
    """A command and its progress over its workers."""

    task_id: str
    handler: str
    issuer: Issuer
    label: str | None
    filed_at: datetime
    workers: tuple[str, ...]
    """The names of the first few."""
    count: int
    ended: int = 0
    failed: int = 0
    """The failed ones of those that have ended."""
    interrupted: int = 0
    """The interrupted ones of those that have failed."""
