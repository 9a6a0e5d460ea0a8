"""Whose turn it is: of a command that goes from worker to worker, the first whose job has not ended.

A job waits for earlier rows alone, of its own command, and for none of another: so nobody waits in a circle, whatever
the order of their workers.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, exists, or_

from supervisor_core.domain.catalog import CATALOG
from supervisor_core.domain.definitions import KEEP_GOING, Spread
from supervisor_core.domain.jobs import FINAL, Job, JobState
from supervisor_core.ledger.tables import jobs

IN_TURN = tuple(each.handler for each in CATALOG.values() if each.handler and each.spread is Spread.IN_TURN)

FLAG = "flag"
"""The door of flags. Each is a command for one worker, in whichever order they are found, also where somebody gave
several the same task id."""

_earlier = jobs.alias("earlier")


def goes_in_turn(job: Job) -> bool:
    """Whether its command goes from worker to worker."""
    return job.handler in IN_TURN and job.door != FLAG


def stops_others(job: Job) -> bool:
    """Whether a failure of this job ends its command for the workers after it."""
    return goes_in_turn(job) and job.params.get(KEEP_GOING.name) is not True


def its_turn() -> ColumnElement[bool]:
    """Of a row of `jobs_t`: nobody of its command who comes before it is still to end."""
    same = (_earlier.c[name] == jobs.c[name] for name in ("task_id", "handler", "door"))
    before = and_(*same, _earlier.c.job_id < jobs.c.job_id, _earlier.c.state.not_in(FINAL))
    return or_(jobs.c.handler.not_in(IN_TURN), jobs.c.door == FLAG, ~exists().where(before))


def holds_up(one: Job, other: Job) -> bool:
    """Whether the second can't be begun before the first has ended."""
    same = (one.task_id, one.handler, one.door) == (other.task_id, other.handler, other.door)
    return same and goes_in_turn(other) and one.job_id < other.job_id and one.state not in FINAL


def left_after(job: Job) -> ColumnElement[bool]:
    """The rows of its command after this one that have not begun."""
    same = (jobs.c.task_id == job.task_id, jobs.c.handler == job.handler, jobs.c.door == job.door)
    return and_(*same, jobs.c.job_id > job.job_id, jobs.c.state == JobState.QUEUED)
