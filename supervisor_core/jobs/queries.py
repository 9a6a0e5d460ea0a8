"""Queries of jobs: turns, the newest commands, and the holder of a command id.

A job waits only for earlier rows of its own command, so no two wait for each other. A job of a rolling change also
waits until its batch is released.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, exists, func, or_, select

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import REPORTED, Issuer
from supervisor_core.commands.definitions import KEEP_GOING, Spread
from supervisor_core.jobs.model import FINAL, CommandSummary, Job, JobState, RollingState
from supervisor_core.storage.tables import approvals, jobs, rolling_changes, schedules, suppressions

ORDERED = tuple(each.handler for each in CATALOG.values() if each.handler and each.spread is not Spread.AT_ONCE)
"""The handlers of commands that run on their workers in order and stop at the first failure."""
LIMITED = tuple(each.handler for each in CATALOG.values() if each.handler and each.spread is Spread.LIMITED)
"""Those of them that run on a few workers at once."""

FLAG = "flag"
"""The source of flags. Each is a command for one worker, in any order, even if several have the same command id."""

ELSEWHERE = "%/%"
"""The pattern of the addresses of workers of other hosts: the id of a worker of this host has no slash."""

_earlier = jobs.alias("earlier")


def is_own() -> ColumnElement[bool]:
    """The condition of a job that was filed here. What hosts report of themselves doesn't count as one."""
    return jobs.c.door != REPORTED


def is_sequential(job: Job) -> bool:
    """True if its command runs on its workers in order, one or a few at a time."""
    return job.handler in ORDERED and job.door != FLAG


def stops_others(job: Job) -> bool:
    """True if a failure of this job ends its command for the workers where it hasn't begun."""
    return is_sequential(job) and job.batch is None and job.params.get(KEEP_GOING.name) is not True


@cache
def is_next() -> ColumnElement[bool]:
    """The condition of a row of `jobs_t` that may start: its earlier rows of the same command have all ended; of a
    command that runs on a few workers at once, all but fewer than the parameter `parallel`.

    In a rolling change, its batch must be released, and different hosts are at work at once.
    """
    same = (_earlier.c[name] == jobs.c[name] for name in ("task_id", "handler", "door"))
    before = and_(*same, _earlier.c.job_id < jobs.c.job_id, _earlier.c.state.not_in(FINAL))
    unfinished = select(func.count()).where(before).correlate(jobs).scalar_subquery()
    has_room = and_(jobs.c.handler.in_(LIMITED), unfinished < bindparam("parallel", 1))
    in_turn = or_(jobs.c.handler.not_in(ORDERED), jobs.c.door == FLAG, ~exists().where(before), has_room)
    change = rolling_changes.c
    released = exists().where(
        change.task_id == jobs.c.task_id, change.state == RollingState.RUNNING, change.released >= jobs.c.batch
    )
    here = exists().where(before, _earlier.c.batch <= jobs.c.batch, _earlier.c.worker_id.not_like(ELSEWHERE))
    in_batch = and_(released, or_(jobs.c.worker_id.like(ELSEWHERE), ~here))
    return or_(and_(jobs.c.batch.is_(None), in_turn), in_batch)


def waiting_since(connection: Connection, job: Job) -> datetime:
    """The time since when nothing but its executor keeps this job waiting: not another job of its worker or of its
    command, nor an earlier batch."""
    created = select(jobs.c.created_at).where(jobs.c.job_id == job.job_id)
    others = or_(jobs.c.worker_id == job.worker_id, jobs.c.task_id == job.task_id)
    ended = select(func.max(jobs.c.finished_at)).where(others)
    released = select(rolling_changes.c.released_at).where(rolling_changes.c.task_id == job.task_id)
    found = (connection.execute(query).scalar() for query in (created, ended, released))
    return max(moment for moment in found if isinstance(moment, datetime))


def holds_up(one: Job, other: Job) -> bool:
    """True if the second can't start before the first has ended."""
    same = (one.task_id, one.handler, one.door) == (other.task_id, other.handler, other.door)
    return same and is_sequential(other) and one.job_id < other.job_id and one.state not in FINAL


def unbegun_jobs(job: Job) -> ColumnElement[bool]:
    """The other rows of its command that haven't started. What was sent to another host may have started there."""
    same = (jobs.c.task_id == job.task_id, jobs.c.handler == job.handler, jobs.c.door == job.door)
    claimed = and_(jobs.c.state == JobState.CLAIMED, jobs.c.worker_id.not_like(ELSEWHERE))
    return and_(*same, jobs.c.job_id != job.job_id, or_(jobs.c.state == JobState.QUEUED, claimed))


RESUME, PAUSING, PAUSES = "resume", ("pause", "restart_watcher"), 20
"""The handler that ends a pause, those that may leave a worker paused, and how many of their cards a resume updates."""


def first_resume_after(job: Job) -> Select[Any]:
    """The first job after this one that resumed its worker."""
    later = (jobs.c.worker_id == job.worker_id, jobs.c.job_id > job.job_id, jobs.c.success.is_(True))
    return select(jobs).where(*later, jobs.c.handler == RESUME).order_by(jobs.c.job_id).limit(1)


def _pauses_before() -> Select[Any]:
    before = (jobs.c.worker_id == bindparam("worker"), jobs.c.job_id < bindparam("job"))
    last = select(func.max(jobs.c.job_id)).where(*before, jobs.c.success.is_(True), jobs.c.handler == RESUME)
    since = jobs.c.job_id > func.coalesce(last.scalar_subquery(), 0)
    found = select(jobs.c.task_id).where(*before, since, jobs.c.handler.in_(PAUSING))
    return found.order_by(jobs.c.job_id.desc()).limit(PAUSES)


PAUSES_BEFORE = _pauses_before()
"""The ids of the newest commands before a `job` that resumed a `worker`, since its last resume, that may have left it
paused."""

NAMED = 3  # workers of a command


def recent(connection: Connection, most: int) -> list[CommandSummary]:
    """The newest commands, newest first. A few index lookups, whose cost doesn't grow with the history."""
    found: list[str] = []
    while len(found) < most:
        newest = select(jobs.c.task_id).where(jobs.c.task_id.not_in(found)).order_by(jobs.c.job_id.desc()).limit(1)
        task_id = connection.execute(newest).scalar()
        if task_id is None:
            break
        found.append(task_id)
    return [_of_task(connection, task_id) for task_id in found]


def _of_task(connection: Connection, task_id: str) -> CommandSummary:
    mine = jobs.c.task_id == task_id
    columns = (jobs.c.handler, jobs.c.issuer_id, jobs.c.issuer_name, jobs.c.label, jobs.c.filed_at, jobs.c.worker_id)
    first = connection.execute(select(*columns).where(mine).order_by(jobs.c.job_id).limit(NAMED)).all()
    counted = select(jobs.c.state, jobs.c.success, func.count().label("number")).where(mine)
    rows = connection.execute(counted.group_by(jobs.c.state, jobs.c.success)).all()
    ended = [row for row in rows if JobState(row.state) in FINAL]
    return CommandSummary(
        task_id=task_id,
        handler=first[0].handler,
        issuer=Issuer(first[0].issuer_id, first[0].issuer_name),
        label=first[0].label,
        filed_at=first[0].filed_at,
        workers=tuple(row.worker_id for row in first),
        count=sum(row.number for row in rows),
        ended=sum(row.number for row in ended),
        failed=sum(row.number for row in ended if not row.success),
        interrupted=sum(row.number for row in ended if JobState(row.state) is JobState.INTERRUPTED),
    )


def id_holder(connection: Connection, task_id: str, door: str) -> str:
    """The other holder of this id besides jobs from this source, in words; empty without one."""
    if connection.execute(select(approvals.c.approval_id).where(approvals.c.task_id == task_id)).first():
        return "an approval"
    others = (jobs.c.task_id == task_id, jobs.c.door != door, is_own())
    job = connection.execute(select(jobs.c.door).where(*others).limit(1)).first()
    if job is not None:
        return f"a command from {job.door}"
    columns = (schedules.c.task_id, schedules.c.removed_task_id, schedules.c.last_task_id)
    if connection.execute(select(schedules.c.schedule_id).where(or_(*(each == task_id for each in columns)))).first():
        return "a schedule"
    if connection.execute(select(suppressions.c.task_id).where(suppressions.c.task_id == task_id)).first():
        return "a mute"
    return ""
