"""Jobs of other hosts in a hub's ledger: sent to their hosts, and followed by what the hosts report.

A job for a worker of another host has the worker's address (`web-1/fetcher`). Here it is a copy: the host's own row is
the truth, and its outcome is in the host's audit trail.

A host is believed about the jobs that the hub sent to it, and about what it did by itself. The latter is stored as its
history, with the source `host`: nothing is submitted, approved or ordered by it, and its people are marked as reported.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
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

from supervisor_core.commands.addresses import SEPARATOR, address_of
from supervisor_core.commands.command import REPORTED, Issuer, Outcome
from supervisor_core.common.text import canonical_json
from supervisor_core.jobs import rows
from supervisor_core.jobs.model import FINAL, Job, JobState, Progress, is_reserved
from supervisor_core.storage import outbox as replies
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message, record, take
from supervisor_core.storage.tables import jobs
from supervisor_core.storage.tables.definition import PERSON_ID, PERSON_NAME

ANNOUNCED_FOR = timedelta(minutes=10)
"""Older commands are history: a host that just joined brings all of its own."""

MOST_ANNOUNCED = 20
"""The commands of one host that are announced in that time: people share the channel with it."""

SCHEDULE, SLACK = "schedule", "slack"
"""Sources of commands. Only the hub has commands from Slack."""

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


class RefusedClaim(NamedTuple):
    """A reported command that only the hub could have given."""

    host: str
    reason: str


def is_elsewhere() -> ColumnElement[bool]:
    """The condition of a job that was filed here for a worker of another host."""
    return and_(jobs.c.worker_id.like(rows.ELSEWHERE), rows.is_own())


def to_send(connection: Connection, limit: int, parallel: int = 1, without: Collection[str] = ()) -> list[Job]:
    """The jobs that wait to be sent to their hosts and whose turn has come, in the order in which they were filed; none
    of the hosts in `without`."""
    free = and_(is_elsewhere(), jobs.c.state == JobState.QUEUED, rows.is_next())
    if without:
        free = and_(free, _host_column(connection).not_in(without))
    query = select(jobs).where(free).order_by(jobs.c.tier, jobs.c.filed_at, jobs.c.job_id).limit(limit)
    return [rows.of_row(row) for row in connection.execute(query, {"parallel": parallel}).mappings()]


def _host_column(connection: Connection) -> ColumnElement[str]:
    """The host in the address of a job's worker. A comparison for each of many hosts would be too deep for SQLite."""
    if connection.dialect.name == "postgresql":
        return func.split_part(jobs.c.worker_id, SEPARATOR, 1)
    return func.substr(jobs.c.worker_id, 1, func.instr(jobs.c.worker_id, SEPARATOR) - 1)


def turns_began(connection: Connection, some: Sequence[Job]) -> dict[str, datetime]:
    """The end of the last job of each command that runs on its workers in order, by its id."""
    in_turn = [job.task_id for job in some if rows.is_sequential(job)]
    if not in_turn:
        return {}
    mine = (jobs.c.task_id.in_(in_turn), jobs.c.finished_at.is_not(None))
    query = select(jobs.c.task_id, func.max(jobs.c.finished_at)).where(*mine).group_by(jobs.c.task_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def begin_sending(connection: Connection, some: Sequence[Job], now: datetime) -> set[int]:
    """Note that the server may have these jobs from now on, so that none is cancelled as unsent; the ids of those that
    still wait."""
    waiting = (jobs.c.job_id.in_([job.job_id for job in some]), jobs.c.state == JobState.QUEUED)
    connection.execute(update(jobs).where(*waiting, jobs.c.claimed_at.is_(None)).values(claimed_at=now))
    return set(connection.execute(select(jobs.c.job_id).where(*waiting)).scalars())


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
) -> list[RefusedClaim]:
    """Follow checked rows of hosts, given with their workers' addresses; the claims that are refused.

    What follows from an end is done after all of them. A command that a host received directly (a shell, a flag, a
    schedule) becomes history here, and is announced at this place if it's recent.
    """
    known = _known(connection, reports)
    changes, ended, ended_elsewhere = list[dict[str, Any]](), list[Job](), dict[str, None]()
    refreshed, unknown = dict[str, Message](), list[Mapping[str, Any]]()
    for report in reports:
        row = known.get((report["task_id"], report["worker_id"]))
        if row is None:
            unknown.append(report)
            continue
        before, after = JobState(row["state"]), JobState(report["state"])
        older = after not in FINAL and _ORDER[after] < _ORDER[before]  # an end counts, also after one that we assumed
        if older or all(row[name] == report[name] for name in _REPORTED):
            continue
        changes.append({"its_job": row["job_id"], **{name: report[name] for name in _REPORTED}})
        refreshed[row["task_id"]] = rows.refresh_card(row["task_id"])
        if after in FINAL and before not in FINAL:
            outcome = Outcome(bool(report["success"]), report["error"], json.loads(report["details_json"] or "{}"))
            job = replace(rows.of_row(row), state=after, outcome=outcome, finished_at=report["finished_at"])
            if row["door"] == REPORTED:
                ended_elsewhere[job.task_id] = None
            else:
                ended.append(job)
    if changes:
        connection.execute(_FOLLOW, changes)
        record(connection, hub_id, None, tuple(refreshed.values()), now)
    rows.follow_up(connection, hub_id, now, ended)
    for task_id in ended_elsewhere:
        if rows.has_ended(connection, task_id):
            replies.order_replies(connection, hub_id, task_id, now)
    return _take_history(connection, hub_id, unknown, now, place)


_FOLLOW = (
    update(jobs).where(jobs.c.job_id == bindparam("its_job")).values({each: bindparam(each) for each in _REPORTED})
)


def _known(connection: Connection, reports: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], RowMapping]:
    """The rows that the hub has of these, by command and worker."""
    found: dict[tuple[str, str], RowMapping] = {}
    for first in range(0, len(reports), rows.READ_AT_ONCE):
        some = [(each["task_id"], each["worker_id"]) for each in reports[first : first + rows.READ_AT_ONCE]]
        query = select(jobs).where(tuple_(jobs.c.task_id, jobs.c.worker_id).in_(some))
        found |= {(row["task_id"], row["worker_id"]): row for row in connection.execute(query).mappings()}
    return found


def _take_history(
    connection: Connection,
    hub_id: str,
    reports: Sequence[Mapping[str, Any]],
    now: datetime,
    place: Mapping[str, Any] | None,
) -> list[RefusedClaim]:
    """Store commands that hosts got by themselves as their history; the claims that are refused.

    The first ones of each host are announced. One with the id of a command of the hub isn't taken: a host can't add to
    what people see of others.
    """
    holders = rows.id_holders(connection, [report["task_id"] for report in reports])
    refused, history, cards = list[RefusedClaim](), list[dict[str, Any]](), list[Message]()
    announced: dict[str, set[str]] = {}
    for report in reports:
        host, is_recent = address_of(report["worker_id"]).host, report["filed_at"] > now - ANNOUNCED_FOR
        held_by = holders.get(report["task_id"], set())
        if reason := _claim_of_hub(report, held_by):
            if is_recent:  # an older one is of another hub, or of a time without one
                refused.append(RefusedClaim(host, reason))
            continue
        if held_by:
            continue  # flags of one id, here and there
        history.append(_as_history(hub_id, host, report, now))
        if place is not None and is_recent:
            if host not in announced:
                announced[host] = _announced_ids(connection, host, now)
            if len(announced[host]) < MOST_ANNOUNCED or report["task_id"] in announced[host]:
                announced[host].add(report["task_id"])
                cards.append(Message(rows.CARD, report["task_id"], {**place, replies.REPORTED_BY: host}))
    if history:
        connection.execute(insert(jobs), history)
        record(connection, hub_id, None, cards, now)
    return refused


def _claim_of_hub(report: Mapping[str, Any], held_by: Collection[str]) -> str:
    """Why only the hub could have given this command, which it didn't send to this worker; empty if its host could."""
    task_id, door = report["task_id"], report["door"]
    if door == SLACK:
        return "a command from Slack that the hub didn't send"
    if is_reserved(task_id) and door != SCHEDULE:
        return f"a command with the id {task_id}, which only the hub can give"
    if report["issuer_id"].startswith(f"{SLACK}:") and door != rows.FLAG:
        return f"a command from {door} by a person of Slack"
    if others := {kind for kind in held_by if not door == kind == rows.FLAG}:
        return f"a command with the id {task_id}, which the hub has from {min(others)}"
    return ""


def _announced_ids(connection: Connection, host: str, now: datetime) -> set[str]:
    """The reported commands of this host that were taken lately."""
    lately = (jobs.c.worker_id.like(f"{host}/%"), ~rows.is_own(), jobs.c.created_at > now - ANNOUNCED_FOR)
    return set(connection.execute(select(jobs.c.task_id).where(*lately).distinct().limit(MOST_ANNOUNCED)).scalars())


def _as_history(hub_id: str, host: str, report: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The row of a command that a host got by itself: its people are marked, and its votes don't count."""
    name, suffix = report["issuer_name"] or report["issuer_id"], f" (reported by {host})"
    return {
        **{name: value for name, value in report.items() if name not in ("job_id", "changed")},
        "supervisor_id": hub_id,
        "door": REPORTED,
        "issuer_id": f"{REPORTED}:{host}/{report['issuer_id']}"[:PERSON_ID],
        "issuer_name": f"{name[: PERSON_NAME - len(suffix)]}{suffix}",
        "owner_id": None,
        "approvals_json": "[]",
        "tier": rows.tier_of(report["handler"]),
        "batch": None,
        "created_at": now,
    }


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


def has_open_history(connection: Connection, hosts: Collection[str]) -> bool:
    """True if commands that hosts reported haven't ended, and their hosts aren't among these any more."""
    return (
        connection.execute(select(jobs.c.job_id).where(_open_history(connection, hosts)).limit(1)).first() is not None
    )


def end_history(connection: Connection, hub_id: str, hosts: Collection[str], now: datetime) -> None:
    """End the reported commands of hosts that aren't among these any more, so that their cards end."""
    is_open = _open_history(connection, hosts)
    task_ids = connection.execute(select(jobs.c.task_id).where(is_open).distinct()).scalars().all()
    if not task_ids:
        return
    ended = {"state": JobState.INTERRUPTED, "finished_at": now, "success": False, "details_json": "{}"}
    error = "Its host isn't a host of this fleet any more. It isn't known whether it ran this."
    connection.execute(update(jobs).where(is_open).values(**ended, error=error))
    record(connection, hub_id, None, [rows.refresh_card(task_id) for task_id in task_ids], now)


def _open_history(connection: Connection, hosts: Collection[str]) -> ColumnElement[bool]:
    open_states = [state for state in JobState if state not in FINAL]
    return and_(jobs.c.state.in_(open_states), ~rows.is_own(), _host_column(connection).not_in(hosts))


def cancel_unsent(connection: Connection, hub_id: str, task_id: str, by: Issuer, now: datetime) -> int:
    """End the jobs of a command that surely weren't sent to their hosts yet; how many."""
    mine = (jobs.c.task_id == task_id, jobs.c.state == JobState.QUEUED, jobs.c.claimed_at.is_(None), is_elsewhere())
    unsent = connection.execute(select(jobs).where(*mine).order_by(jobs.c.job_id)).mappings().all()
    words = f"Cancelled by {by.name or by.id} before it was sent. Nothing was done."
    cancelled = 0
    for job in map(rows.of_row, unsent):
        if take(connection, hub_id, rows.refuse(job, Outcome.failed(words), now), now):
            cancelled += 1
            details = {"command": job.command, "door": SLACK}
            entry = AuditEntry(by.id, "CANCELLED", job.worker_id, "success", job.audit_label, task_id, details=details)
            record(connection, hub_id, entry, (), now)
    return cancelled


def abandon(connection: Connection, hub_id: str, job: Job, words: str, now: datetime) -> None:
    """End a job whose host won't report any more; should it do so after all, its report counts."""
    step = rows.interrupt(job, Outcome.failed(words), now)
    take(connection, hub_id, replace(step, expected=(JobState.CLAIMED, JobState.STARTED)), now)


def take_refusal(connection: Connection, hub_id: str, host: str, task_id: str, words: str, now: datetime) -> None:
    """End the jobs of a command that its host doesn't follow."""
    mine = (jobs.c.task_id == task_id, jobs.c.worker_id.like(f"{host}/%"), rows.is_own())
    waiting = jobs.c.state.in_((JobState.QUEUED, JobState.CLAIMED))
    for row in connection.execute(select(jobs).where(*mine, waiting).order_by(jobs.c.job_id)).mappings().all():
        step = rows.refuse(rows.of_row(row), Outcome.failed(f"{host} refused it: {words}."), now)
        take(connection, hub_id, replace(step, expected=(JobState.QUEUED, JobState.CLAIMED)), now)
