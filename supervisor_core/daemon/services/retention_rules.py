"""The retention rules: `RETENTIONS` for the rows of each table, `FILES` for the files of each folder.

A row is deleted only when nothing can refer to it any more. The audit trail is kept. `docs/reference/limits.md` lists
all rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import (
    ColumnElement,
    Table,
    and_,
    exists,
    func,
    not_,
    or_,
    select,
)

from supervisor_core.alerts.messages import CALL, CONFIG, MORNING, WEEK
from supervisor_core.alerts.outside.documents import WEBHOOK
from supervisor_core.alerts.rows import ALERT
from supervisor_core.alerts.rules import AlertState
from supervisor_core.code.packages import FOLDER as PACKAGES
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.addresses import SEPARATOR, is_address
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.diagnosis.reports.files import FOLDER as REPORTS
from supervisor_core.diagnosis.reports.files import KEPT_AT_HOME
from supervisor_core.intake.approvals.rules import FINAL as DECIDED
from supervisor_core.intake.schedules.rules import ScheduleState
from supervisor_core.intake.schedules.service import TOLD as SCHEDULE
from supervisor_core.jobs.model import FINAL as ENDED
from supervisor_core.jobs.rows import RESULT_FILE
from supervisor_core.storage import envelopes, tables
from supervisor_core.storage.engine import JsonText, in_bytes
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.storage.outbox import APPROVAL_REQUEST, CARD, DETAILS
from supervisor_core.storage.steps import PENDING
from supervisor_core.storage.tables import approvals, bakes, conditions, flips, jobs, outbox, team_members
from supervisor_core.workers.conditions.rules import ALERTMANAGER, FLAPPING, WORKER, Condition

DAY = timedelta(days=1)
MONTH, QUARTER, YEAR = 30 * DAY, 90 * DAY, 365 * DAY

BATCH = 500
"""Rows deleted in one transaction. That takes some milliseconds, and other writers wait for the lock meanwhile."""

CHANGES_KEPT = 20
"""The newest changes of the code of each worker. They stay however old they are, so that they can be undone."""

MESSAGES_KEPT: Mapping[str, timedelta] = {
    ALERT: YEAR,
    WEEK: YEAR,
    **dict.fromkeys((CARD, APPROVAL_REQUEST, DETAILS, SCHEDULE, CALL, CONFIG, MORNING, WEBHOOK, RESULT_FILE), MONTH),
}
"""The time that a delivered message is kept, by kind. Other kinds are never edited: one day."""

RENEWED = ("deadman", "welcome")
"""Kinds with one row that stays: one for the dead-man's switch, and one for the introduction in each channel, which is
posted once."""

WAITS_AT_MOST = YEAR
"""Longest wait of a row for delivery. After that it is deleted, and the log has the number."""


@dataclass(frozen=True, slots=True)
class RetentionScope:
    """The values that a retention compares rows with."""

    now: datetime
    workers: Collection[str]
    """The configured ones; on a hub, also those of its hosts by their addresses."""
    shares: bool = False
    """True if audit rows go to a shared database: those wait however long it takes."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The rows of one table that go after a while."""

    table: Table
    kept: timedelta
    rows: Callable[[RetentionScope, datetime], ColumnElement[bool]]
    """The rows to delete, given the moment before which they are old."""
    after: str
    """The end of the sentence “Rows are kept for 90 days after …”, for the limits reference."""
    name: str = ""
    """Set where a table has several."""
    lost: bool = False
    """True if the log warns, because something acknowledged isn't delivered."""
    batch: int = BATCH


def _jobs(_scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    """Ended commands that nothing refers to: a job goes with the last job of its command."""
    j = jobs.c
    other = jobs.alias("other")
    open_sibling = exists().where(
        other.c.task_id == j.task_id, or_(other.c.state.not_in(ENDED), other.c.finished_at >= before)
    )
    open_approval = exists().where(approvals.c.task_id == j.task_id, approvals.c.state.not_in(DECIDED))
    result_waits = exists().where(
        outbox.c.kind == RESULT_FILE,
        in_bytes(outbox.c.subject) > j.task_id + "/",
        in_bytes(outbox.c.subject) < j.task_id + "0",  # the character after the slash
        outbox.c.state == PENDING,
    )
    watched = exists().where(bakes.c.task_id == j.task_id, bakes.c.state == BakeState.WATCHING)
    schedules = tables.schedules
    last_runs = select(schedules.c.last_task_id).where(
        schedules.c.state == ScheduleState.WAITING, schedules.c.last_task_id.is_not(None)
    )
    needed = or_(open_sibling, open_approval, result_waits, watched, j.task_id.in_(last_runs))
    old = j.state.in_(ENDED) & (j.finished_at < before)
    # The next change is numbered from the newest one, and only higher numbers are copied to other places.
    newest = select(other.c.job_id).order_by(other.c.changed.desc(), other.c.job_id.desc()).limit(1).scalar_subquery()
    return old & ~needed & (j.job_id != newest) & j.task_id.not_in(_newest_changes())


def _newest_changes() -> ColumnElement[str]:
    """The commands that last changed the code of each worker."""
    details = jobs.c.details_json
    before, after = JsonText(details, "before"), JsonText(details, "after")
    changed = or_(before != after, JsonText(details, "packages") != "[]")
    newest_first = jobs.c.finished_at.desc(), jobs.c.job_id.desc()
    place = func.row_number().over(partition_by=jobs.c.worker_id, order_by=newest_first).label("place")
    ranked = select(jobs.c.task_id, place).where(jobs.c.handler.in_(CODE_HANDLERS), changed).subquery("ranked")
    return select(ranked.c.task_id).where(ranked.c.place <= CHANGES_KEPT).scalar_subquery()


def _rolling_changes(_scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    changes = tables.rolling_changes.c
    return (changes.decided_at < before) & ~exists().where(jobs.c.task_id == changes.task_id)


def _approvals(_scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    running = exists().where(jobs.c.task_id == approvals.c.task_id, jobs.c.state.not_in(ENDED))
    return approvals.c.state.in_(DECIDED) & (approvals.c.finished_at < before) & ~running


def _delivered(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    told = (outbox.c.state != PENDING) & outbox.c.kind.not_in(RENEWED)
    live = select(tables.alerts.c.alert_id).where(tables.alerts.c.state != AlertState.CLOSED)
    edited = (outbox.c.kind == ALERT) & outbox.c.subject.in_(live)
    old = [(outbox.c.kind == kind) & (outbox.c.created_at < scope.now - kept) for kind, kept in MESSAGES_KEPT.items()]
    other = outbox.c.kind.not_in(MESSAGES_KEPT) & (outbox.c.created_at < before)
    return told & ~edited & or_(other, *old)


def _undeliverable(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    """Messages that couldn't be delivered for so long. The due time of a retried message moves."""
    kept = (*RENEWED, SHARED_DATABASE) if scope.shares else RENEWED
    waits = (outbox.c.state == PENDING) & outbox.c.kind.not_in(kept)
    result = (outbox.c.kind == RESULT_FILE) & (outbox.c.created_at < before)
    return waits & or_(result, outbox.c.due_at < before)


def _conditions(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    """Those of workers that were removed. All others are one row for each worker and part of the host."""
    c, alerts = conditions.c, tables.alerts.c
    open_alert = exists().where(
        alerts.target_type == c.target_type, alerts.target_id == c.target_id, alerts.state != AlertState.CLOSED
    )
    removed = c.target_type.in_((WORKER, FLAPPING)) & c.target_id.not_in(tuple(scope.workers))
    return removed & (c.since < before) & ~open_alert


def _foreign(_scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    """Those of alerts from elsewhere that ended."""
    c = conditions.c
    return (c.target_type == ALERTMANAGER) & (c.condition == Condition.WELL) & (c.since < before)


def _flips(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    """Those that aren't the newest of their target. Of a host's workers, a hub has copies without a present condition,
    because its own conditions name them by their addresses."""
    current = exists().where(
        conditions.c.supervisor_id == flips.c.supervisor_id, conditions.c.flip_id == flips.c.flip_id
    )
    names = ("supervisor_id", "target_type", "target_id")
    newer = flips.alias("newer")
    later = exists().where(*(newer.c[name] == flips.c[name] for name in names), newer.c.flip_id > flips.c.flip_id)
    addresses = tuple(filter(is_address, scope.workers))
    address = flips.c.supervisor_id + SEPARATOR + flips.c.target_id
    copied = and_(flips.c.target_type.in_((WORKER, FLAPPING)), address.in_(addresses))
    return (flips.c.at < before) & ~current & ~(copied & ~later)


def _workers(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    known = [*scope.workers, *(f"supervisor_{worker_id}" for worker_id in scope.workers)]
    beat = tables.workers.c.last_heartbeat_at
    return tables.workers.c.worker_id.not_in(known) & or_(beat.is_(None), beat < before)


def _orphans(_scope: RetentionScope, _before: datetime) -> ColumnElement[bool]:
    return not_(exists().where(approvals.c.approval_id == tables.votes.c.approval_id))


_a, _s, _e, _f = tables.alerts.c, tables.schedules.c, tables.envelopes.c, tables.foreign_alerts.c

RETENTIONS: tuple[Retention, ...] = (
    Retention(outbox, DAY, _delivered, "delivery, or longer (see below)", name="delivered"),
    Retention(
        outbox,
        WAITS_AT_MOST,
        _undeliverable,
        "the last change of a row that nothing accepts; the log says how many",
        name="undeliverable",
        lost=True,
    ),
    Retention(
        tables.envelopes,
        DAY,
        lambda _, old: _e.state.in_(envelopes.DEALT_WITH) & (_e.received_at < old),
        "Slack sent it, once it is handled",
    ),
    Retention(jobs, QUARTER, _jobs, "the command ended, unless something still refers to it; the newest stays"),
    Retention(tables.rolling_changes, QUARTER, _rolling_changes, "the command ended, with its jobs"),
    Retention(approvals, QUARTER, _approvals, "the decision"),
    Retention(tables.votes, QUARTER, _orphans, "the decision, with the approval"),
    Retention(
        bakes,
        QUARTER,
        lambda _, old: (bakes.c.state != BakeState.WATCHING) & (bakes.c.until < old),
        "the end of the watch",
    ),
    Retention(
        tables.schedules,
        QUARTER,
        lambda _, old: (_s.state == ScheduleState.REMOVED) & (_s.removed_at < old),
        "the schedule was removed",
    ),
    Retention(
        tables.alerts,
        QUARTER,
        lambda _, old: (_a.state == AlertState.CLOSED) & (_a.closed_at < old),
        "the alert closed",
    ),
    Retention(conditions, QUARTER, _conditions, "the worker was removed; one row for each worker and part of the host"),
    Retention(conditions, MONTH, _foreign, "Alertmanager's alert ended", name="alertmanager"),
    Retention(
        tables.foreign_alerts,
        MONTH,
        lambda _, old: (_f.firing == 0) & (_f.heard_at < old),
        "Alertmanager sent it last, once it has ended",
    ),
    Retention(flips, QUARTER, _flips, "the change; the newest change of each target stays"),
    Retention(tables.suppressions, MONTH, lambda _, old: tables.suppressions.c.until < old, "the suppression ended"),
    Retention(tables.workers, QUARTER, _workers, "the last heartbeat of a removed worker; two rows for each worker"),
    Retention(
        tables.fleet_invites, QUARTER, lambda _, old: tables.fleet_invites.c.expires_at < old, "the invite expired"
    ),
    Retention(team_members, QUARTER, lambda _, old: team_members.c.left_at < old, "the worker left the team"),
)

WITHOUT: Mapping[str, str] = {
    "audit_log_t": "Kept until you [archive](../how-to/check-the-audit-trail.md#archive-old-rows) old rows.",
    "supervisors_t": "Kept: one row for each `supervisor.id` of this host.",
    "teams_t": "Kept: one row for each team name.",
    "fleet_hosts_t": "Kept: one row for each name of a host.",
    "forwarding_t": "Kept: one row for each `supervisor.id` of this host; on a hub, one for each host.",
}
"""Tables whose rows are never deleted, with the reason why they stay bounded."""


REPORT = r"(diagnostics|db_verification)_.+\.json|command_.+\.txt"
OF_A_WORKER = r".+\.(lives|starts|ages|frozen)"
TEMPORARY = r"\..+\.[0-9a-f]{12}\.tmp|\.probe\.\d+\.[0-9a-f]{8}\.tmp"
"""The names of our own temporary files; one that is a day old was left behind by a crash."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one folder that go after a while."""

    name: str
    folder: Callable[[SupervisorConfig], Path]
    names: str
    kept: timedelta
    most: int | None = None
    on_drive: bool = False
    spare: Callable[[SupervisorConfig, str], bool] = lambda _config, _name: False
    """The files that stay all the same."""


def _at_home(name: str) -> Callable[[SupervisorConfig], Path]:
    return lambda config: config.state_dir / name


def _on_drive(name: str, *below: str) -> Callable[[SupervisorConfig], Path]:
    return lambda config: config.folder(name).joinpath(*below)


def _temporary(where: str, folder: Callable[[SupervisorConfig], Path], *, on_drive: bool = False) -> Files:
    return Files(f"temporary files in {where}", folder, TEMPORARY, DAY, on_drive=on_drive)


def _belongs_to_somebody(config: SupervisorConfig, name: str) -> bool:
    """True if the worker of a file is configured or has a record: its process may still run."""
    worker_id = name.rpartition(".")[0]
    return worker_id in config.workers or (config.state_dir / "workers" / f"{worker_id}.json").exists()


FILES: tuple[Files, ...] = (
    Files("result files", _on_drive("outbox"), r"supervisor_result_.+\.json", QUARTER, 10_000, on_drive=True),
    Files("reports on the drive", _on_drive("logs", REPORTS), REPORT, QUARTER, 1_000, on_drive=True),
    Files("reports in the state folder", _at_home(REPORTS), REPORT, QUARTER, KEPT_AT_HOME),
    Files("package lists", _at_home(PACKAGES), r".+\.json", MONTH),
    Files("records of removed workers", _at_home("workers"), OF_A_WORKER, QUARTER, spare=_belongs_to_somebody),
    *(_temporary(f"state_dir/{name}", _at_home(name)) for name in (".", "workers", "desired", REPORTS, PACKAGES)),
    *(_temporary(f"nas.folders.{name}", _on_drive(name), on_drive=True) for name in ("outbox", "state", "logs")),
    _temporary("reports on the drive", _on_drive("logs", REPORTS), on_drive=True),
)
