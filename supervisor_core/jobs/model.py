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
from supervisor_core.common.text import one_line, random_id
from supervisor_core.common.times import require_aware, to_text

TAIL = 7
"""78 thousand million ids in each second; and the longest flag's name with such an id behind it has 255 letters."""

PROGRESS_WORDS = 200
"""Characters of a step: one line on a card or a terminal."""

MOST_PROGRESS = 50
"""Steps of one job that are kept; more than anybody reads, and a handler that says too much fills no disk."""

_RESERVED = re.compile(r"task_button_.*|task_\d{8}_\d{6}_[0-9a-f]{9}", re.ASCII)
"""The ids that Slack commands (typed, pressed) and schedules derive, each of which somebody could know in advance."""


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    STARTED = "started"
    DONE = "done"
    INTERRUPTED = "interrupted"


FINAL = (JobState.DONE, JobState.INTERRUPTED)

NOT_BEGUN = "not_begun"
"""Among the details of an outcome: nothing was done, because the command failed on a worker before it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a handler said it was doing from a moment on. The words are data: one line, and no longer than a line."""

    at: datetime
    words: str

    def __post_init__(self) -> None:
        require_aware(self.at)
        object.__setattr__(self, "words", one_line(self.words, PROGRESS_WORDS))

    def as_json(self) -> dict[str, str]:
        """As it is kept, and as result files and answers have it."""
        return {"at": to_text(self.at), "words": self.words}


def add_progress(steps: tuple[Progress, ...], step: Progress) -> tuple[Progress, ...]:
    """These steps and one more; once there are as many as are kept, the newest takes the place of the one before."""
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))

    @property
    def command(self) -> str:
        """The name of its command, as people type it."""
        definition = by_handler(self.handler)
        return definition.name if definition else self.handler

    @property
    def audit_label(self) -> str:
        """Who asked, then what they called it."""
        return audit_label(self.issuer.name, self.issuer.id, self.label)


def not_begun(job: Job) -> bool:
    """Whether its command ended before it was this worker's turn: a failure of the command, and none of the worker."""
    return job.outcome is not None and job.outcome.details.get(NOT_BEGUN) is True


def not_begun_after(job: Job, after: Job) -> Outcome:
    """The outcome of a job whose turn never came, because the same command failed on a worker before it."""
    how = "was interrupted" if after.state is JobState.INTERRUPTED else "failed"
    return Outcome.failed(
        f"Skipped: {job.command} {how} on {after.worker_id}. Fix {after.worker_id}, then send the command again "
        "for the remaining workers. To continue after a failure, use --keep-going.",
        **{NOT_BEGUN: True},
        after=after.worker_id,
    )


def new_task_id(now: datetime) -> str:
    """`task_20260205_143015_` and random letters: sorts by time, and two never meet."""
    return f"task_{require_aware(now):%Y%m%d_%H%M%S}_{random_id(TAIL)}"


def is_reserved(task_id: str) -> bool:
    """Whether only Slack and schedules make ids of this form. A flag may carry none of them."""
    return _RESERVED.fullmatch(task_id) is not None


@dataclass(frozen=True, slots=True)
class CommandSummary:
    """A command, and how far it is with its workers."""

    task_id: str
    handler: str
    issuer: Issuer
    label: str | None
    filed_at: datetime
    workers: tuple[str, ...]
    """The first few by name."""
    count: int
    ended: int = 0
    failed: int = 0
    """Of those that have ended."""
    interrupted: int = 0
    """Of those that have failed."""
