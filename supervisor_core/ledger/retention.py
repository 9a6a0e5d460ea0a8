"""The retention of every table: which rows go, after how long, and how many at a time.

A row goes only when nothing can ask for it any more. Rows are looked up without a lock and deleted in small
transactions that check the same condition again. The audit trail is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    case,
    delete,
    exists,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
)

from supervisor_core.domain.alerts import AlertState
from supervisor_core.domain.approvals import FINAL as DECIDED
from supervisor_core.domain.baking import BakeState
from supervisor_core.domain.conditions import FLAPPING, WORKER
from supervisor_core.domain.definitions import CODE_HANDLERS
from supervisor_core.domain.jobs import FINAL as ENDED
from supervisor_core.domain.schedules import ScheduleState
from supervisor_core.ledger import envelopes, forward_marks, tables
from supervisor_core.ledger.alerts import ALERT
from supervisor_core.ledger.forward_marks import Marks, Origin
from supervisor_core.ledger.jobs import RESULT_FILE
from supervisor_core.ledger.replies import ASKED, CARD, DETAILS
from supervisor_core.ledger.schedules import TOLD as SCHEDULE
from supervisor_core.ledger.steps import PENDING
from supervisor_core.ledger.store import Ledger
from supervisor_core.ledger.tables import approvals, bakes, conditions, flips, forwarding, jobs, outbox, team_members
from supervisor_core.ledger.tidings import CALL, CONFIG, MORNING, WEEK
from supervisor_core.ledger.webhooks import WEBHOOK

DAY = timedelta(days=1)
MONTH, QUARTER, YEAR = 30 * DAY, 90 * DAY, 365 * DAY

BATCH = 500
"""Rows deleted in one transaction. That takes some milliseconds, and other writers wait for the lock meanwhile."""

CHANGES_KEPT = 20
"""The newest changes of the code of each worker. They stay however old they are, so that they can be undone."""

MESSAGES_KEPT: Mapping[str, timedelta] = {
    ALERT: YEAR,
    WEEK: YEAR,
    **dict.fromkeys((CARD, ASKED, DETAILS, SCHEDULE, CALL, CONFIG, MORNING, WEBHOOK, RESULT_FILE), MONTH),
}
"""How long a message stays after it was delivered, by its kind. Nobody edits a message of another kind: one day."""

RENEWED = ("home", "deadman")
"""Kinds with one row that is ordered again and again: one for each person's page, and one for the dead-man's switch."""

WAITS_AT_MOST = YEAR
"""How long a row waits to be delivered or forwarded. Then it goes without that, and the log says how many did."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a retention compares rows with."""

    now: datetime
    workers: Collection[str]
    """The configured ones."""
    forwarded: Marks | None = None
    """How far the shared database has got; None without one."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The rows of one table that go after a while."""

    table: Table
    kept: timedelta
    rows: Callable[[Scope, datetime], ColumnElement[bool]]
    """The rows to delete, given the moment before which they are old."""
    name: str = ""
    """Set where a table has several."""
    lost: bool = False
    """Whether the log warns of it, because something acknowledged goes undelivered."""
    batch: int = BATCH


def _jobs(scope: Scope, before: datetime) -> ColumnElement[bool]:
    """Ended commands that nothing refers to: a job goes with the last job of its command."""
    j = jobs.c
    other = jobs.alias("other")
    open_sibling = exists().where(
        other.c.task_id == j.task_id, or_(other.c.state.not_in(ENDED), other.c.finished_at >= before)
    )
    open_approval = exists().where(approvals.c.task_id == j.task_id, approvals.c.state.not_in(DECIDED))
    result_waits = exists().where(
        outbox.c.kind == RESULT_FILE,
        outbox.c.subject > j.task_id + "/",
        outbox.c.subject < j.task_id + "0",  # the character after the slash
        outbox.c.state == PENDING,
    )
    watched = exists().where(bakes.c.task_id == j.task_id, bakes.c.state == BakeState.WATCHING)
    schedules = tables.schedules
    last_runs = select(schedules.c.last_task_id).where(
        schedules.c.state == ScheduleState.WAITING, schedules.c.last_task_id.is_not(None)
    )
    needed = or_(open_sibling, open_approval, result_waits, watched, j.task_id.in_(last_runs))
    old = j.state.in_(ENDED) & (j.finished_at < before)
    return old & ~needed & j.task_id.not_in(_newest_changes()) & ~_unforwarded_job(scope)


def _newest_changes() -> ColumnElement[str]:
    """The commands that last changed the code of each worker."""
    details = case((func.json_valid(jobs.c.details_json), jobs.c.details_json))
    before, after = func.json_extract(details, "$.before"), func.json_extract(details, "$.after")
    changed = or_(before != after, func.json_array_length(details, "$.packages") > 0)
    newest_first = jobs.c.finished_at.desc(), jobs.c.job_id.desc()
    place = func.row_number().over(partition_by=jobs.c.worker_id, order_by=newest_first).label("place")
    ranked = select(jobs.c.task_id, place).where(jobs.c.handler.in_(CODE_HANDLERS), changed).subquery("ranked")
    return select(ranked.c.task_id).where(ranked.c.place <= CHANGES_KEPT).scalar_subquery()


def _unforwarded_job(scope: Scope) -> ColumnElement[bool]:
    if scope.forwarded is None:
        return false()
    return (jobs.c.changed > scope.forwarded.jobs_changed) & (jobs.c.finished_at >= scope.now - WAITS_AT_MOST)


def _approvals(scope: Scope, before: datetime) -> ColumnElement[bool]:
    running = exists().where(jobs.c.task_id == approvals.c.task_id, jobs.c.state.not_in(ENDED))
    old = approvals.c.state.in_(DECIDED) & (approvals.c.finished_at < before) & ~running
    if scope.forwarded is None:
        return old
    brought = approvals.c.finished_at < scope.now - WAITS_AT_MOST
    if scope.forwarded.forwarded_at is not None:
        brought = or_(brought, approvals.c.finished_at < scope.forwarded.forwarded_at)
    return old & brought


def _delivered(scope: Scope, before: datetime) -> ColumnElement[bool]:
    told = (outbox.c.state != PENDING) & outbox.c.kind.not_in(RENEWED)
    live = select(tables.alerts.c.alert_id).where(tables.alerts.c.state != AlertState.CLOSED)
    edited = (outbox.c.kind == ALERT) & outbox.c.subject.in_(live)
    old = [(outbox.c.kind == kind) & (outbox.c.created_at < scope.now - kept) for kind, kept in MESSAGES_KEPT.items()]
    other = outbox.c.kind.not_in(MESSAGES_KEPT) & (outbox.c.created_at < before)
    return told & ~edited & or_(other, *old)


def _undeliverable(_scope: Scope, before: datetime) -> ColumnElement[bool]:
    """What nobody has taken for so long. A message that is tried again and again has a due time that moves."""
    waits = (outbox.c.state == PENDING) & outbox.c.kind.not_in(RENEWED)
    result = (outbox.c.kind == RESULT_FILE) & (outbox.c.created_at < before)
    return waits & or_(result, outbox.c.due_at < before)


def _conditions(scope: Scope, before: datetime) -> ColumnElement[bool]:
    """Those of workers that were removed. All others are one row for each worker and part of the host."""
    c, alerts = conditions.c, tables.alerts.c
    open_alert = exists().where(
        alerts.target_type == c.target_type, alerts.target_id == c.target_id, alerts.state != AlertState.CLOSED
    )
    removed = c.target_type.in_((WORKER, FLAPPING)) & c.target_id.not_in(tuple(scope.workers))
    return removed & (c.since < before) & ~open_alert


def _flips(_scope: Scope, before: datetime) -> ColumnElement[bool]:
    current = exists().where(
        conditions.c.supervisor_id == flips.c.supervisor_id, conditions.c.flip_id == flips.c.flip_id
    )
    return (flips.c.at < before) & ~current


def _workers(scope: Scope, before: datetime) -> ColumnElement[bool]:
    known = [*scope.workers, *(f"supervisor_{worker_id}" for worker_id in scope.workers)]
    beat = tables.workers.c.last_heartbeat_at
    return tables.workers.c.worker_id.not_in(known) & or_(beat.is_(None), beat < before)


def _orphans(_scope: Scope, _before: datetime) -> ColumnElement[bool]:
    return not_(exists().where(approvals.c.approval_id == tables.votes.c.approval_id))


_a, _s, _e = tables.alerts.c, tables.schedules.c, tables.envelopes.c

RETENTIONS: tuple[Retention, ...] = (
    Retention(outbox, DAY, _delivered, name="delivered"),
    Retention(outbox, WAITS_AT_MOST, _undeliverable, name="undeliverable", lost=True),
    Retention(tables.envelopes, DAY, lambda _, old: _e.state.in_(envelopes.DEALT_WITH) & (_e.received_at < old)),
    Retention(jobs, QUARTER, _jobs),
    Retention(approvals, QUARTER, _approvals),
    Retention(tables.votes, QUARTER, _orphans),  # with their approval
    Retention(bakes, QUARTER, lambda _, old: (bakes.c.state != BakeState.WATCHING) & (bakes.c.until < old)),
    Retention(tables.schedules, QUARTER, lambda _, old: (_s.state == ScheduleState.REMOVED) & (_s.removed_at < old)),
    Retention(tables.alerts, QUARTER, lambda _, old: (_a.state == AlertState.CLOSED) & (_a.closed_at < old)),
    Retention(conditions, QUARTER, _conditions),
    Retention(flips, QUARTER, _flips),
    Retention(tables.suppressions, MONTH, lambda _, old: tables.suppressions.c.until < old),
    Retention(tables.sightings, MONTH, lambda _, old: tables.sightings.c.first_seen_at < old),
    Retention(tables.workers, QUARTER, _workers),
    Retention(team_members, QUARTER, lambda _, old: team_members.c.left_at < old),
)

WITHOUT: Mapping[str, str] = {
    "audit_log_t": "kept: it is the record of who did what",
    "audit_workers_t": "kept as long as its row of the audit trail",
    "audit_anchors_t": "one row for each trail that was archived",
    "supervisors_t": "one row for each supervisor.id that this host has had",
    "teams_t": "one row for each team name; a team that comes back takes its row again",
    "forwarding_t": "one row for each supervisor.id that this host has had",
}
"""Tables whose rows are never deleted, with the reason why they stay bounded."""


def scope_of(ledger: Ledger, now: datetime, workers: Collection[str], *, forwards: bool) -> Scope:
    """What this ledger's rows are compared with. With a shared database, rows that it lacks stay."""
    return Scope(now, workers, ledger.read(lambda local: _marks(local, ledger.supervisor_id)) if forwards else None)


def _marks(local: Connection, supervisor_id: str) -> Marks:
    """The ledger's own note; it begins with the first round of forwarding."""
    ledger_id = local.execute(select(forwarding.c.ledger_id).limit(1)).scalar()
    return (ledger_id and forward_marks.noted(local, Origin(ledger_id, supervisor_id))) or Marks()


def delete_batch(ledger: Ledger, retention: Retention, scope: Scope) -> int:
    """Delete the next rows that are old; how many that were."""
    table = retention.table
    old = retention.rows(scope, scope.now - retention.kept)
    row_id: ColumnElement[int] = literal_column(f"{table.name}.rowid")
    query = select(row_id).select_from(table).where(old).limit(retention.batch)
    found = ledger.read(lambda local: local.scalars(query).all())
    if not found:
        return 0
    return ledger.write(lambda local: local.execute(delete(table).where(row_id.in_(found), old)).rowcount)


def with_jobs(connection: Connection, task_ids: Collection[str]) -> set[str]:
    """Those of these commands that still have a job."""
    return set(connection.scalars(select(jobs.c.task_id).where(jobs.c.task_id.in_(task_ids))))


def over_before(connection: Connection, task_ids: Collection[str], before: datetime) -> set[str]:
    """Those of these commands that the audit trail knows from before this moment."""
    trail = tables.audit_log.c
    return set(connection.scalars(select(trail.task_id).where(trail.task_id.in_(task_ids), trail.created_at < before)))
