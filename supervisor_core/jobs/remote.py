"""Jobs of other hosts in a hub's ledger: sent to their hosts, and followed by what the hosts report.

A job for a worker of another host has the worker's address (`web-1/fetcher`). Here it is a copy: the host's own row is
the truth, and its outcome is in the host's audit trail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    bindparam,
    func,
    insert,
    select,
    tuple_,
    update,
)

from supervisor_core.commands.command import Outcome
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import canonical_json
from supervisor_core.jobs import queries as turns
from supervisor_core.jobs import rows
from supervisor_core.jobs.model import FINAL, Job, JobState, Progress
from supervisor_core.storage.steps import Message, record, take
from supervisor_core.storage.tables import jobs

ANNOUNCED_FOR = timedelta(minutes=10)
"""Older commands are history: a host that just joined brings all of its own."""

READ_AT_ONCE = 500

_ORDER = {state: place for place, state in enumerate(JobState)}
_REPORTED = (
    "state",
    "started_at",
    "finished_at",
    "success",
    "error",
    "details_json",
    "progress_json",
)
"""The columns that follow the host's row. Its requester and approvals don't: what the hub has filed counts."""


class SentJob(NamedTuple):
    """A job that was sent to its host."""

    job: Job
    sent_at: datetime


class InvalidReport(SupervisorError):
    """A host's row that can't be one of this program's."""


def is_elsewhere() -> ColumnElement[bool]:
    """The condition of a job for a worker of another host."""
    return jobs.c.worker_id.like(turns.ELSEWHERE)


def to_send(connection: Connection, limit: int) -> list[Job]:
    """The jobs that wait to be sent to their hosts and whose turn has come, in the order in which they were filed."""
    free = and_(is_elsewhere(), jobs.c.state == JobState.QUEUED, turns.is_next())
    query = select(jobs).where(free).order_by(jobs.c.tier, jobs.c.filed_at, jobs.c.job_id).limit(limit)
    return [rows.of_row(row) for row in connection.execute(query).mappings()]


def turns_began(connection: Connection, some: Sequence[Job]) -> dict[str, datetime]:
    """The end of the last job of each command that runs on one worker after the other, by its id."""
    in_turn = [job.task_id for job in some if turns.is_sequential(job)]
    if not in_turn:
        return {}
    mine = (jobs.c.task_id.in_(in_turn), jobs.c.finished_at.is_not(None))
    query = select(jobs.c.task_id, func.max(jobs.c.finished_at)).where(*mine).group_by(jobs.c.task_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def note_sent(connection: Connection, some: Sequence[Job], now: datetime) -> None:
    """Note that these jobs were sent. Where its host was quicker, its report counts."""
    waiting = (jobs.c.job_id.in_([job.job_id for job in some]), jobs.c.state == JobState.QUEUED)
    connection.execute(update(jobs).where(*waiting).values(state=JobState.CLAIMED, claimed_at=now))


def take_reports(
    connection: Connection,
    hub_id: str,
    reports: Sequence[Mapping[str, Any]],
    now: datetime,
    place: Mapping[str, Any] | None = None,
) -> None:
    """Follow rows of hosts, given with their workers' addresses. What follows from an end is done after all of them.

    A command that a host received directly (a shell, a flag, a schedule) becomes a row here, too, and is announced
    at this place if it's recent.
    """
    for report in reports:
        _check(report)
    known = _known(connection, reports)
    changes, ended, told = list[dict[str, Any]](), list[Job](), dict[str, Message]()
    for report in reports:
        row = known.get((report["task_id"], report["worker_id"]))
        if row is None:
            _take_new(connection, hub_id, report, now, place)
            continue
        before, after = JobState(row["state"]), JobState(report["state"])
        older = after not in FINAL and _ORDER[after] < _ORDER[before]  # an end counts, also after one that we assumed
        if older or all(row[name] == report[name] for name in _REPORTED):
            continue
        changes.append({"its_job": row["job_id"], **{name: report[name] for name in _REPORTED}})
        told[row["task_id"]] = rows.refresh_card(row["task_id"])
        if after in FINAL and before not in FINAL:
            outcome = Outcome(bool(report["success"]), report["error"], json.loads(report["details_json"] or "{}"))
            ended.append(replace(rows.of_row(row), state=after, outcome=outcome, finished_at=report["finished_at"]))
    if changes:
        connection.execute(_FOLLOW, changes)
        record(connection, hub_id, None, tuple(told.values()), now)
    rows.follow_up(connection, hub_id, now, ended)


_FOLLOW = (
    update(jobs).where(jobs.c.job_id == bindparam("its_job")).values({each: bindparam(each) for each in _REPORTED})
)


def _known(connection: Connection, reports: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], RowMapping]:
    """The rows that the hub has of these, by command and worker."""
    found: dict[tuple[str, str], RowMapping] = {}
    for first in range(0, len(reports), READ_AT_ONCE):
        some = [(each["task_id"], each["worker_id"]) for each in reports[first : first + READ_AT_ONCE]]
        query = select(jobs).where(tuple_(jobs.c.task_id, jobs.c.worker_id).in_(some))
        found |= {(row["task_id"], row["worker_id"]): row for row in connection.execute(query).mappings()}
    return found


def _take_new(
    connection: Connection, hub_id: str, report: Mapping[str, Any], now: datetime, place: Mapping[str, Any] | None
) -> None:
    """Copy a command that the host got by itself. One with the id of a command of the hub isn't taken: a host can't add
    to what people see of others."""
    sent = select(jobs.c.job_id).where(jobs.c.task_id == report["task_id"], jobs.c.door != report["door"]).limit(1)
    if connection.execute(sent).first() is not None:
        return
    own = {name: value for name, value in report.items() if name not in ("job_id", "changed")}
    connection.execute(insert(jobs).values({**own, "supervisor_id": hub_id}))
    if place is not None and report["filed_at"] > now - ANNOUNCED_FOR:
        card = Message(rows.CARD, str(report["task_id"]), place)
        record(connection, hub_id, None, (card,), now)


def _check(report: Mapping[str, Any]) -> None:
    """Raise `InvalidReport` for a row that couldn't be read again: a host may have been taken over."""
    try:
        job = rows.of_row({**report, "job_id": 0, "supervisor_id": ""})  # type: ignore[arg-type]
        rows.tier_of(job.handler)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidReport(f"{report.get('worker_id')} has a job that isn't valid: {error!a}.") from None


def note(connection: Connection, hub_id: str, job: Job, words: str, now: datetime) -> None:
    """Say on the command's card what a job waits for, until its host reports."""
    steps = canonical_json([*(step.as_json() for step in job.progress), Progress(now, words).as_json()])
    mine = (jobs.c.job_id == job.job_id, jobs.c.state.in_((JobState.QUEUED, JobState.CLAIMED)))
    if connection.execute(update(jobs).where(*mine).values(progress_json=steps)).rowcount:
        record(connection, hub_id, None, (rows.refresh_card(job.task_id),), now)


def under_way(connection: Connection) -> list[SentJob]:
    """The jobs that were sent and haven't ended."""
    query = select(jobs).where(is_elsewhere(), jobs.c.state.in_((JobState.CLAIMED, JobState.STARTED)))
    found = connection.execute(query.order_by(jobs.c.job_id)).mappings()
    return [SentJob(rows.of_row(row), row["claimed_at"] or row["filed_at"]) for row in found]


def abandon(connection: Connection, hub_id: str, job: Job, words: str, now: datetime) -> None:
    """End a job whose host won't report any more; should it do so after all, its report counts."""
    step = rows.interrupt(job, Outcome.failed(words), now)
    take(connection, hub_id, replace(step, expected=(JobState.CLAIMED, JobState.STARTED)), now)


def take_refusal(connection: Connection, hub_id: str, host: str, task_id: str, words: str, now: datetime) -> None:
    """End the jobs of a command that its host doesn't follow."""
    mine = (jobs.c.task_id == task_id, jobs.c.worker_id.like(f"{host}/%"))
    waiting = jobs.c.state.in_((JobState.QUEUED, JobState.CLAIMED))
    for row in connection.execute(select(jobs).where(*mine, waiting).order_by(jobs.c.job_id)).mappings().all():
        step = rows.refuse(rows.of_row(row), Outcome.failed(f"{host} refused it: {words}."), now)
        take(connection, hub_id, replace(step, expected=(JobState.QUEUED, JobState.CLAIMED)), now)
