"""The queue: one row for each command and worker, filed once by its task id, moved by steps.

A job waits only for earlier rows of its own command, so no two wait for each other. A job of a rolling change also
waits until its batch is released.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from supervisor_core.commands.addresses import Address, address_of, is_address
from supervisor_core.commands.catalog import CATALOG, by_handler
from supervisor_core.commands.command import REPORTED, Issuer, Outcome
from supervisor_core.commands.definitions import CODE_HANDLERS, KEEP_GOING, Spread, Tier
from supervisor_core.commands.labels import siblings_in
from supervisor_core.common.errors import RefusedError
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import from_text
from supervisor_core.jobs.model import (
    FINAL,
    CommandSummary,
    Job,
    JobState,
    Progress,
    RollingState,
    add_progress,
    not_begun_after,
)
from supervisor_core.storage import outbox as replies
from supervisor_core.storage.audit.chain import CAUSE, AuditEntry, damage_of, details_of
from supervisor_core.storage.audit.search import AuditFilter, find_rows
from supervisor_core.storage.engine import JsonText
from supervisor_core.storage.steps import Message, Step, record, take
from supervisor_core.storage.tables import approvals, jobs, rolling_changes, schedules, suppressions

RESULT_FILE = "result_file"
"""The kind of an outbox row that becomes a file in the outbox folder."""

CARD = replies.CARD

UNDO, PAUSE = "undo_code", "pause"

ISSUER_NAME = 255

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


RESUME, PAUSING, PAUSES = "resume", ("pause", "restart_watcher"), 20
"""The handler that ends a pause, those that may leave a worker paused, and how many of their cards a resume updates."""


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


READ_AT_ONCE = 500


def id_holders(connection: Connection, task_ids: Sequence[str]) -> dict[str, set[str]]:
    """Everything here that has one of these ids, by id: the sources of jobs, or `approval`, `schedule`, `mute`."""
    found: dict[str, set[str]] = {}
    kinds = [
        (approvals.c.task_id, literal("approval")),
        *((schedules.c[name], literal("schedule")) for name in ("task_id", "last_task_id", "removed_task_id")),
        (suppressions.c.task_id, literal("mute")),
    ]
    for first in range(0, len(task_ids), READ_AT_ONCE):
        some = task_ids[first : first + READ_AT_ONCE]
        own = select(jobs.c.task_id, jobs.c.door).where(jobs.c.task_id.in_(some), is_own()).distinct()
        for query in (own, *(select(column, kind).where(column.in_(some)) for column, kind in kinds)):
            for task_id, kind in connection.execute(query):
                found.setdefault(task_id, set()).add(kind)
    return found


def id_holder(connection: Connection, task_id: str, door: str) -> str:
    """The other holder of this id besides jobs from this source, in words; empty without one."""
    kinds = id_holders(connection, [task_id]).get(task_id, set()) - {door}
    words = {"approval": "an approval", "schedule": "a schedule", "mute": "a mute"}
    return words.get(kind, f"a command from {kind}") if (kind := min(kinds, default="")) else ""


class IdTaken(RefusedError):
    """Another command has this id, so nothing was queued."""


@dataclass(frozen=True, slots=True)
class NewJob:
    task_id: str
    worker_id: str
    handler: str
    params: Any
    label: str | None
    issuer: Issuer
    door: str
    filed_at: datetime
    approvals: Sequence[Mapping[str, Any]] = ()
    card: Mapping[str, Any] | None = None
    """The address of the command's message; None without one."""
    batch: int | None = None


def _read(connection: Connection, query: Select[Any], values: Mapping[str, Any] | None = None) -> list[Job]:
    return [of_row(row) for row in connection.execute(query, values or {}).mappings()]


def file(connection: Connection, supervisor_id: str, new: NewJob, now: datetime) -> Job | None:
    """Queue a job; None if this worker already has one with this command id, in any state."""
    return next(iter(file_all(connection, supervisor_id, [new], now)), None)


def file_all(connection: Connection, supervisor_id: str, several: Sequence[NewJob], now: datetime) -> list[Job]:
    """Queue jobs of one command, for workers that have none with its id yet.

    Its card is added in the same transaction, so that no command is without its card. What hosts have reported under
    this id makes way: it's in the copies of their audit trails.
    """
    task_id = several[0].task_id
    connection.execute(delete(jobs).where(jobs.c.task_id == task_id, ~is_own()))
    mine = (jobs.c.task_id == task_id, jobs.c.worker_id.in_([each.worker_id for each in several]))
    known = set(connection.execute(select(jobs.c.worker_id).where(*mine)).scalars())
    new = {each.worker_id: each for each in several if each.worker_id not in known}
    if not new:
        return []
    rows = [
        {
            "task_id": each.task_id,
            "worker_id": each.worker_id,
            "supervisor_id": supervisor_id,
            "handler": each.handler,
            "params_json": canonical_json(each.params),
            "label": each.label,
            "issuer_id": each.issuer.id,
            "issuer_name": each.issuer.name[:ISSUER_NAME],
            "owner_id": each.issuer.owner or None,
            "door": each.door,
            "approvals_json": canonical_json(list(each.approvals)),
            "state": JobState.QUEUED,
            "tier": tier_of(each.handler),
            "filed_at": each.filed_at,
            "created_at": now,
            "batch": each.batch,
        }
        for each in new.values()
    ]
    connection.execute(insert(jobs), rows)
    cards = [Message(CARD, task_id, each.card) for each in new.values() if each.card is not None]
    record(connection, supervisor_id, None, cards[:1], now)
    filed = _read(connection, select(jobs).where(*mine).order_by(jobs.c.job_id))
    return [job for job in filed if job.worker_id in new]


def refuse_taken(connection: Connection, task_id: str, handler: str | None, door: str) -> None:
    """Raise `IdTaken` if a job with this id is of another command or from another source.

    A job of the same command from the same source is a repeat, which is queued once and isn't an error.
    """
    for job in submitted_jobs(connection, task_id):
        if (job.handler, job.door) != (handler, door):
            raise IdTaken(
                f"The command id {task_id} belongs to another command ({job.command}, from {job.door}).",
                remedy="Send the command again to get a new id.",
            )


def tier_of(handler: str) -> int:
    """The tier of a handler's jobs, by the catalog; lower tiers run first. A command that was removed, or that another
    host has, has the last one."""
    definition = by_handler(handler)
    return Tier.REPORT if definition is None else definition.tier


def find(connection: Connection, task_id: str, worker_id: str) -> Job | None:
    query = select(jobs).where(jobs.c.task_id == task_id, jobs.c.worker_id == worker_id)
    return next(iter(_read(connection, query)), None)


def of_task(connection: Connection, task_id: str) -> list[Job]:
    """All jobs of one command, in the order in which they were queued."""
    query = select(jobs).where(jobs.c.task_id == task_id).order_by(jobs.c.job_id)
    return _read(connection, query)


def submitted_jobs(connection: Connection, task_id: str) -> list[Job]:
    """The jobs of a command that was submitted here, without what hosts report under its id."""
    query = select(jobs).where(jobs.c.task_id == task_id, is_own()).order_by(jobs.c.job_id)
    return _read(connection, query)


def count_steps(connection: Connection, task_id: str) -> tuple[bool, int]:
    """True if all jobs of a command have ended, and the number of steps that its handlers have reported so far."""
    rows = connection.execute(select(jobs.c.state, jobs.c.progress_json).where(jobs.c.task_id == task_id)).all()
    ended = bool(rows) and all(JobState(row.state) in FINAL for row in rows)
    return ended, sum(len(json.loads(row.progress_json or "[]")) for row in rows)


def has_ended(connection: Connection, task_id: str) -> bool:
    """True if all jobs of a command have ended. Cheap while one hasn't, however many there are."""
    mine = jobs.c.task_id == task_id
    left = select(jobs.c.job_id).where(mine, jobs.c.state.not_in(FINAL)).limit(1)
    if connection.execute(left).first() is not None:
        return False
    return connection.execute(select(jobs.c.job_id).where(mine).limit(1)).first() is not None


def find_all(connection: Connection, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Job]:
    """These jobs, by command id and worker."""
    query = select(jobs).where(tuple_(jobs.c.task_id, jobs.c.worker_id).in_(places))
    return {(job.task_id, job.worker_id): job for job in _read(connection, query)}


def first_workers(connection: Connection, task_ids: Collection[str]) -> dict[str, str]:
    """The worker of the first job of each of these commands."""
    firsts = select(func.min(jobs.c.job_id)).where(jobs.c.task_id.in_(task_ids)).group_by(jobs.c.task_id)
    rows = connection.execute(select(jobs.c.task_id, jobs.c.worker_id).where(jobs.c.job_id.in_(firsts)))
    return {row.task_id: row.worker_id for row in rows}


def of_button(connection: Connection, button: str) -> Job | None:
    """The first job of a press of this button."""
    of_one_press = and_(jobs.c.task_id > f"{button}_", jobs.c.task_id < f"{button}`")
    return next(
        iter(_read(connection, select(jobs).where(of_one_press, is_own()).order_by(jobs.c.job_id).limit(1))), None
    )


def waiting(
    connection: Connection, worker_ids: Collection[str], states: Iterable[JobState], limit: int | None = None
) -> list[Job]:
    """The jobs of these workers in these states, in the order in which they must run."""
    query = select(jobs).where(jobs.c.state.in_(tuple(states)), jobs.c.worker_id.in_(tuple(worker_ids)))
    ordered = query.order_by(jobs.c.tier, jobs.c.filed_at, jobs.c.job_id).limit(limit)
    return _read(connection, ordered)


def next_to_run(connection: Connection, worker_id: str, parallel: int = 1) -> Job | None:
    """The next job of this worker: one that was claimed before a crash, else the first queued one whose turn it is.

    Later commands don't wait for one that is still with another worker. `parallel`: how many workers a command that
    runs on a few at once may run on.
    """
    for query, values in ((_CLAIMED, {}), (_QUEUED, {"parallel": parallel})):
        if row := connection.execute(query, {"worker": worker_id, **values}).mappings().first():
            return of_row(row)
    return None


_ORDER = (jobs.c.tier, jobs.c.filed_at, jobs.c.job_id)
_IN_ORDER = select(jobs).where(jobs.c.worker_id == bindparam("worker")).limit(1).order_by(*_ORDER)
_CLAIMED = _IN_ORDER.where(jobs.c.state == JobState.CLAIMED)
_QUEUED = _IN_ORDER.where(jobs.c.state == JobState.QUEUED, is_next())


def count_waiting(connection: Connection, worker_id: str, door: str) -> int:
    """The number of commands from this source that are queued for this worker."""
    mine = (jobs.c.state == JobState.QUEUED, jobs.c.worker_id == worker_id, jobs.c.door == door)
    return int(connection.execute(select(func.count()).select_from(jobs).where(*mine)).scalar_one())


def blocked_jobs(connection: Connection, worker_id: str, parallel: int = 1) -> list[tuple[Job, Job]]:
    """The jobs of this worker that wait for their turn, each with the job that must end first. A batch that isn't
    released yet waits for more than a job, and isn't listed."""
    mine = (jobs.c.worker_id == worker_id, jobs.c.state == JobState.QUEUED)
    query = select(jobs).where(*mine, ~is_next()).order_by(jobs.c.job_id)
    blocked = []
    for job in _read(connection, query, {"parallel": parallel}):
        own = [
            each for each in of_task(connection, job.task_id) if (each.handler, each.door) == (job.handler, job.door)
        ]
        first = next((each for each in own if each.job_id < job.job_id and each.state not in FINAL), None)
        if first is not None and is_sequential(job):
            blocked.append((job, first))
    return blocked


def ended(
    connection: Connection, worker_ids: Collection[str], handlers: Collection[str], most: int, start: int = 0
) -> list[Job]:
    """A page of the newest ended jobs of these workers and handlers, newest first."""
    query = (
        select(jobs)
        .where(jobs.c.state.in_(FINAL), jobs.c.worker_id.in_(tuple(worker_ids)), jobs.c.handler.in_(tuple(handlers)))
        .order_by(jobs.c.finished_at.desc(), jobs.c.job_id.desc())
        .limit(most)
        .offset(start)
    )
    return _read(connection, query)


def recent_for(connection: Connection, worker_id: str, since: datetime, most: int) -> list[Job]:
    """The commands that affected this worker and ended since then, and its waiting ones, newest first."""
    ended = affecting(connection, worker_id, since, most)
    open_ = waiting(connection, [worker_id], [state for state in JobState if state not in FINAL], most)
    each = {job.job_id: job for job in (*ended, *open_)}
    return sorted(each.values(), key=lambda job: (job.filed_at, job.job_id), reverse=True)[:most]


def affecting(connection: Connection, worker_id: str, since: datetime, most: int) -> list[Job]:
    """The ended commands that affected this worker since then, also those for another worker, in any order. They are in
    its audit trail."""
    wanted = AuditFilter(targets=(worker_id,), since=since, limit=most)
    host = address_of(worker_id).host if is_address(worker_id) else None  # whose rows hold its own ids
    places = set()
    for row in find_rows(connection, wanted):
        target = str(details_of(row).get(CAUSE) or row["target_id"])
        if not damage_of(row) and row["task_id"]:
            named = str(Address(host, target)) if host and row["supervisor_id"] == host else target
            places.add((row["task_id"], named))
    query = select(jobs).where(tuple_(jobs.c.task_id, jobs.c.worker_id).in_(places), jobs.c.state.in_(FINAL))
    return _read(connection, query) if places else []


def undoing(connection: Connection, task_id: str, most: int) -> list[Job]:
    """The newest undo jobs of this command, newest first."""
    asked, did = (
        JsonText(column, name)
        for column, name in ((jobs.c.params_json, "task_id"), (jobs.c.details_json, "undone_task_id"))
    )
    query = (
        select(jobs)
        .where(jobs.c.handler == UNDO, (asked == task_id) | (did == task_id))
        .order_by(jobs.c.job_id.desc())
        .limit(most)
    )
    return _read(connection, query)


def resumed_by(connection: Connection, paused: Job) -> Job | None:
    """The first later command that resumed its worker, if any."""
    later = (jobs.c.worker_id == paused.worker_id, jobs.c.job_id > paused.job_id, jobs.c.success.is_(True))
    query = select(jobs).where(*later, jobs.c.handler == RESUME).order_by(jobs.c.job_id).limit(1)
    return next(iter(_read(connection, query)), None)


def ended_since(connection: Connection, handlers: Collection[str], since: datetime) -> list[int]:
    """The jobs of these handlers that ended after this time. One index lookup."""
    query = select(jobs.c.job_id).where(jobs.c.handler.in_(tuple(handlers)), jobs.c.finished_at > since)
    return list(connection.execute(query).scalars())


def newest_interrupted(connection: Connection, since: datetime) -> list[Job]:
    """The last interrupted job of each worker since this time."""
    query = select(jobs).where(jobs.c.state == JobState.INTERRUPTED, jobs.c.finished_at > since)
    query = query.order_by(jobs.c.finished_at, jobs.c.job_id)
    return list({job.worker_id: job for job in _read(connection, query)}.values())


def by_ids(connection: Connection, job_ids: Collection[int]) -> list[Job]:
    """These jobs, in the order in which they ended."""
    query = select(jobs).where(jobs.c.job_id.in_(tuple(job_ids))).order_by(jobs.c.finished_at, jobs.c.job_id)
    return _read(connection, query)


def workers_with_work(connection: Connection, task_id: str | None = None, parallel: int = 1) -> set[str]:
    """The workers with a job that can start, of one command if it's given."""
    free = or_(jobs.c.state == JobState.CLAIMED, and_(jobs.c.state == JobState.QUEUED, is_next()))
    query = select(jobs.c.worker_id).where(free).distinct()
    if task_id is not None:
        query = query.where(jobs.c.task_id == task_id)
    return set(connection.execute(query, {"parallel": parallel}).scalars())


def pause_waits(connection: Connection, worker_id: str) -> bool:
    """True if a pause of this worker is queued."""
    mine = (jobs.c.worker_id == worker_id, jobs.c.state == JobState.QUEUED, jobs.c.handler == PAUSE)
    return connection.execute(select(jobs.c.job_id).where(*mine).limit(1)).first() is not None


def claim(job: Job, now: datetime) -> Step:
    """queued → claimed: the job now belongs to this executor."""
    return Step(jobs, {"job_id": job.job_id}, (JobState.QUEUED,), JobState.CLAIMED, {"claimed_at": now})


def begin(job: Job, now: datetime) -> Step:
    """claimed → started: from now on, it's never run again automatically."""
    values = {"started_at": now}
    return Step(
        jobs, {"job_id": job.job_id}, (JobState.CLAIMED,), JobState.STARTED, values, outbox=(refresh_card(job.task_id),)
    )


def note_progress(connection: Connection, supervisor_id: str, several: Sequence[tuple[Job, Progress]]) -> list[bool]:
    """Add a step to each of these running jobs and update its card; False for one that isn't running."""
    query = select(jobs.c.job_id, jobs.c.progress_json).where(jobs.c.state == JobState.STARTED)
    asked = query.where(jobs.c.job_id.in_([job.job_id for job, _ in several]))
    known = {row.job_id: row.progress_json for row in connection.execute(asked)}
    noted = [
        (job, step, add_progress(_progress(known[job.job_id]), step)) for job, step in several if job.job_id in known
    ]
    kept = [{"job": job.job_id, "kept": canonical_json([each.as_json() for each in steps])} for job, _, steps in noted]
    if kept:
        connection.execute(_NEW_PROGRESS, kept)
        newest = max(step.at for _, step, _ in noted)
        record(connection, supervisor_id, None, [refresh_card(job.task_id) for job, _, _ in noted], newest)
    return [job.job_id in known for job, _ in several]


_AT_WORK = (jobs.c.job_id == bindparam("job"), jobs.c.state == JobState.STARTED)
_NEW_PROGRESS = update(jobs).where(*_AT_WORK).values(progress_json=bindparam("kept"))


def finish(job: Job, outcome: Outcome, now: datetime, duration_seconds: float) -> Step:
    """started → done, with the outcome, the audit row and the result file's row, all or none.

    A failure or an interruption also ends the rest of a command that runs on one worker after the other.
    """
    word = "success" if outcome.success else "failure"
    return _end(job, JobState.DONE, outcome, word, now, {"duration_seconds": round(duration_seconds, 3)})


def interrupt(job: Job, outcome: Outcome, now: datetime) -> Step:
    """started → interrupted: its executor ended while the handler ran."""
    return _end(job, JobState.INTERRUPTED, outcome, "interrupted", now, {})


def refuse(job: Job, outcome: Outcome, now: datetime) -> Step:
    """queued → done: it's not started at all."""
    step = _end(job, JobState.DONE, outcome, "failure", now, {})
    return replace(step, expected=(JobState.QUEUED,))


def follow_up(connection: Connection, supervisor_id: str, now: datetime, ended: Sequence[Job]) -> None:
    """The consequences of ends: the end of others, their reports, and after the last ones the replies in the thread."""
    paused: list[str] = []
    for job in ended:
        outcome = job.outcome or Outcome.done()
        if not outcome.success and stops_others(job):
            _stop_others(connection, supervisor_id, now, after=job)
        path = outcome.details.get("report_path")
        mine = select(func.count()).where(jobs.c.task_id == job.task_id)
        if path and connection.execute(mine).scalar_one() <= replies.REPORTS:
            digest = str(outcome.details.get("report_sha256") or "")
            replies.order_report(connection, supervisor_id, job.task_id, job.worker_id, str(path), digest, now)
        if outcome.success and job.handler == RESUME:
            this = {"worker": job.worker_id, "job": job.job_id}
            paused += connection.execute(_PAUSES_BEFORE, this).scalars()
    record(connection, supervisor_id, None, [refresh_card(task_id) for task_id in paused], now)
    for task_id in dict.fromkeys(job.task_id for job in ended):
        if connection.execute(_LEFT, {"command": task_id}).first() is None:
            replies.order_replies(connection, supervisor_id, task_id, now)


_OPEN = [state for state in JobState if state not in FINAL]
_LEFT = select(jobs.c.job_id).where(jobs.c.task_id == bindparam("command"), jobs.c.state.in_(_OPEN)).limit(1)


_BEFORE = (jobs.c.worker_id == bindparam("worker"), jobs.c.job_id < bindparam("job"))
_LAST_RESUME = select(func.max(jobs.c.job_id)).where(*_BEFORE, jobs.c.success.is_(True), jobs.c.handler == RESUME)
_PAUSES_BEFORE = (
    select(jobs.c.task_id)
    .where(*_BEFORE, jobs.c.job_id > func.coalesce(_LAST_RESUME.scalar_subquery(), 0), jobs.c.handler.in_(PAUSING))
    .order_by(jobs.c.job_id.desc())
    .limit(PAUSES)
)
"""The newest commands that may have left a worker paused, before a job that resumed it and since its last resume."""


def _stop_others(connection: Connection, supervisor_id: str, now: datetime, *, after: Job) -> None:
    """End the rest of a command, so that each of its workers is reported. What was sent to another host may have
    started there."""
    same = (jobs.c.task_id == after.task_id, jobs.c.handler == after.handler, jobs.c.door == after.door)
    claimed = and_(jobs.c.state == JobState.CLAIMED, jobs.c.worker_id.not_like(ELSEWHERE))
    unbegun = (*same, jobs.c.job_id != after.job_id, or_(jobs.c.state == JobState.QUEUED, claimed))
    for job in _read(connection, select(jobs).where(*unbegun).order_by(jobs.c.job_id)):
        step = refuse(job, not_begun_after(job, after), now)  # queued, claimed -> done
        step = replace(step, expected=(JobState.QUEUED, JobState.CLAIMED), follow=None)
        take(connection, supervisor_id, step, now)


def _end(job: Job, to: JobState, outcome: Outcome, word: str, now: datetime, facts: dict[str, Any]) -> Step:
    details = dict(outcome.details)
    entry = AuditEntry(
        actor=job.issuer.id,
        action=job.handler.upper(),
        target_id=job.worker_id,
        outcome=word,
        label=job.audit_label,
        task_id=job.task_id,
        details={
            "label": job.label,
            "door": job.door,
            **({"owner": job.issuer.owner} if job.issuer.owner else {}),
            "params": job.params,
            "approvals": list(job.approvals),
            "error": outcome.error,
            **facts,
            "result": details,
        },
        affected=siblings_in(job.worker_id, details) if job.handler in CODE_HANDLERS else {},
    )
    values = {
        "finished_at": now,
        "success": outcome.success,
        "error": outcome.error,
        "details_json": canonical_json(details),
    }
    own = not is_address(job.worker_id)  # another host writes the result files of its workers
    messages = (
        *([result_message(job.task_id, job.worker_id)] if own else []),
        refresh_card(job.task_id),
        *refresh_undone(job.params, details),
    )
    ended = replace(job, state=to, outcome=outcome)
    key = {"job_id": job.job_id}
    return Step(jobs, key, (JobState.STARTED,), to, values, entry, messages, follow=follow_up, subject=ended)


def refresh_card(task_id: str) -> Message:
    """The update of a command's card."""
    return Message(CARD, task_id, None)


def refresh_undone(params: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> tuple[Message, ...]:
    """The update of the card of the undone command, which also shows the undo."""
    task_id = (details or {}).get("undone_task_id") or params.get("task_id")
    return (refresh_card(str(task_id)),) if task_id else ()


def result_message(task_id: str, worker_id: str) -> Message:
    """The outbox message for a job's result file. Its content is read when it's written."""
    return Message(RESULT_FILE, f"{task_id}/{worker_id}", {"task_id": task_id, "worker_id": worker_id})


def of_row(row: RowMapping) -> Job:
    outcome = None
    if row["state"] in FINAL:
        outcome = Outcome(row["success"], row["error"], json.loads(row["details_json"]))
    return Job(
        job_id=row["job_id"],
        supervisor_id=row["supervisor_id"],
        task_id=row["task_id"],
        worker_id=row["worker_id"],
        handler=row["handler"],
        params=json.loads(row["params_json"]),
        label=row["label"],
        issuer=Issuer(row["issuer_id"], row["issuer_name"], row["owner_id"] or ""),
        door=row["door"],
        state=JobState(row["state"]),
        filed_at=row["filed_at"],
        approvals=tuple(json.loads(row["approvals_json"])),
        outcome=outcome,
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        progress=_progress(row["progress_json"]),
        batch=row["batch"],
    )


def _progress(text: str | None) -> tuple[Progress, ...]:
    return tuple(Progress(from_text(each["at"]), each["words"]) for each in json.loads(text or "[]"))
