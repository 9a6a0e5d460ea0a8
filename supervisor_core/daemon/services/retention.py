"""The retention of every table: which rows go, after how long, and how many at a time.

A row goes only when nothing can ask for it any more. Rows are looked up without a lock and deleted in small
transactions that check the same condition again. The audit trail is kept.

The retention of rows, files and refs: one sweep a day, in small pieces, by the daemon or by a pass.

What is kept for how long is data: `RETENTIONS` in the ledger for tables, `FILES` here for folders. A ref under
`refs/supervisor/` stays as long as the job of its command, and `docs/reference/limits.md` lists all of it.

The scheduler's retention chore: a sweep a day, one small piece in each round, and a look for damage each hour.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

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

from supervisor_core.alerts.messages import CALL, CONFIG, MORNING, WEEK
from supervisor_core.alerts.outside.webhook_documents import WEBHOOK
from supervisor_core.alerts.rows import ALERT
from supervisor_core.alerts.rules import AlertState
from supervisor_core.code.git.changes import delete_kept_ref, kept_refs, task_ids_of_ref
from supervisor_core.code.git.history import top_of
from supervisor_core.code.git.runner import Git
from supervisor_core.code.git.worktree import remove_stale_trials
from supervisor_core.code.packages.environments import FOLDER as PACKAGES
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.replication.rounds import disabled_reason
from supervisor_core.diagnosis.reports.files import FOLDER as REPORTS
from supervisor_core.diagnosis.reports.files import KEPT_AT_HOME
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.drive_files import open_folder
from supervisor_core.host.old_files import delete_old, next_sweep, note_part, note_sweep, parts_done
from supervisor_core.host.open_folder import OpenFolder
from supervisor_core.intake.approvals.rules import FINAL as DECIDED
from supervisor_core.intake.schedules.rows import TOLD as SCHEDULE
from supervisor_core.intake.schedules.rules import ScheduleState
from supervisor_core.jobs.model import FINAL as ENDED
from supervisor_core.jobs.rows import RESULT_FILE
from supervisor_core.storage import envelopes, replication_progress, tables
from supervisor_core.storage.outbox import APPROVAL_REQUEST, CARD, DETAILS
from supervisor_core.storage.replication_progress import Marks, Origin
from supervisor_core.storage.steps import PENDING
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import approvals, bakes, conditions, flips, forwarding, jobs, outbox, team_members
from supervisor_core.workers.conditions.rules import FLAPPING, WORKER
from supervisor_core.workers.context import HostContext

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
"""How long a message stays after it was delivered, by its kind. Nobody edits a message of another kind: one day."""

RENEWED = ("home", "deadman")
"""Kinds with one row that is ordered again and again: one for each person's page, and one for the dead-man's switch."""

WAITS_AT_MOST = YEAR
"""How long a row waits to be delivered or forwarded. Then it goes without that, and the log says how many did."""


@dataclass(frozen=True, slots=True)
class RetentionScope:
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
    rows: Callable[[RetentionScope, datetime], ColumnElement[bool]]
    """The rows to delete, given the moment before which they are old."""
    name: str = ""
    """Set where a table has several."""
    lost: bool = False
    """Whether the log warns of it, because something acknowledged goes undelivered."""
    batch: int = BATCH


def _jobs(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
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


def _unforwarded_job(scope: RetentionScope) -> ColumnElement[bool]:
    if scope.forwarded is None:
        return false()
    return (jobs.c.changed > scope.forwarded.jobs_changed) & (jobs.c.finished_at >= scope.now - WAITS_AT_MOST)


def _approvals(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    running = exists().where(jobs.c.task_id == approvals.c.task_id, jobs.c.state.not_in(ENDED))
    old = approvals.c.state.in_(DECIDED) & (approvals.c.finished_at < before) & ~running
    if scope.forwarded is None:
        return old
    brought = approvals.c.finished_at < scope.now - WAITS_AT_MOST
    if scope.forwarded.forwarded_at is not None:
        brought = or_(brought, approvals.c.finished_at < scope.forwarded.forwarded_at)
    return old & brought


def _delivered(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    told = (outbox.c.state != PENDING) & outbox.c.kind.not_in(RENEWED)
    live = select(tables.alerts.c.alert_id).where(tables.alerts.c.state != AlertState.CLOSED)
    edited = (outbox.c.kind == ALERT) & outbox.c.subject.in_(live)
    old = [(outbox.c.kind == kind) & (outbox.c.created_at < scope.now - kept) for kind, kept in MESSAGES_KEPT.items()]
    other = outbox.c.kind.not_in(MESSAGES_KEPT) & (outbox.c.created_at < before)
    return told & ~edited & or_(other, *old)


def _undeliverable(_scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    """What nobody has taken for so long. A message that is tried again and again has a due time that moves."""
    waits = (outbox.c.state == PENDING) & outbox.c.kind.not_in(RENEWED)
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


def _flips(_scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    current = exists().where(
        conditions.c.supervisor_id == flips.c.supervisor_id, conditions.c.flip_id == flips.c.flip_id
    )
    return (flips.c.at < before) & ~current


def _workers(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    known = [*scope.workers, *(f"supervisor_{worker_id}" for worker_id in scope.workers)]
    beat = tables.workers.c.last_heartbeat_at
    return tables.workers.c.worker_id.not_in(known) & or_(beat.is_(None), beat < before)


def _orphans(_scope: RetentionScope, _before: datetime) -> ColumnElement[bool]:
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


def scope_of(ledger: Ledger, now: datetime, workers: Collection[str], *, forwards: bool) -> RetentionScope:
    """What this ledger's rows are compared with. With a shared database, rows that it lacks stay."""
    return RetentionScope(
        now, workers, ledger.read(lambda local: _marks(local, ledger.supervisor_id)) if forwards else None
    )


def _marks(local: Connection, supervisor_id: str) -> Marks:
    """The ledger's own note; it begins with the first round of forwarding."""
    ledger_id = local.execute(select(forwarding.c.ledger_id).limit(1)).scalar()
    return (ledger_id and replication_progress.stored_marks(local, Origin(ledger_id, supervisor_id))) or Marks()


def delete_batch(ledger: Ledger, retention: Retention, scope: RetentionScope) -> int:
    """Delete the next rows that are old; how many that were."""
    table = retention.table
    old = retention.rows(scope, scope.now - retention.kept)
    row_id: ColumnElement[int] = literal_column(f"{table.name}.rowid")
    query = select(row_id).select_from(table).where(old).limit(retention.batch)
    found = ledger.read(lambda local: local.scalars(query).all())
    if not found:
        return 0
    return ledger.write(lambda local: local.execute(delete(table).where(row_id.in_(found), old)).rowcount)


def commands_with_jobs(connection: Connection, task_ids: Collection[str]) -> set[str]:
    """Those of these commands that still have a job."""
    return set(connection.scalars(select(jobs.c.task_id).where(jobs.c.task_id.in_(task_ids))))


def commands_before(connection: Connection, task_ids: Collection[str], before: datetime) -> set[str]:
    """Those of these commands that the audit trail knows from before this moment."""
    trail = tables.audit_log.c
    return set(connection.scalars(select(trail.task_id).where(trail.task_id.in_(task_ids), trail.created_at < before)))


REFS_AT_ONCE = 50
"""Git is started once for each."""

REPORT = r"(diagnostics|db_verification)_.+\.json"
OF_A_WORKER = r".+\.(lives|starts|ages|frozen)"
TEMPORARY = r"\..+\.[0-9a-f]{12}\.tmp|\.probe\.\d+\.[0-9a-f]{8}\.tmp"
"""The names of our own temporary files; one that is a day old was left behind by a crash."""

Pieces = Iterator[tuple[int, bool]]
"""The work on one part, piece by piece: how many were deleted, and whether there may be more."""

log = logging.getLogger(__name__)


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
    """Whether a file is about a worker that is configured, or has a record: its process may still run."""
    worker_id = name.rpartition(".")[0]
    return worker_id in config.workers or (config.state_dir / "workers" / f"{worker_id}.json").exists()


FILES: tuple[Files, ...] = (
    Files("result files", _on_drive("outbox"), r"supervisor_result_.+\.json", QUARTER, 10_000, on_drive=True),
    Files("reports on the drive", _on_drive("logs", REPORTS), REPORT, QUARTER, 1_000, on_drive=True),
    Files("reports at home", _at_home(REPORTS), REPORT, QUARTER, KEPT_AT_HOME),
    Files("package lists", _at_home(PACKAGES), r".+\.json", MONTH),
    Files("notes on removed workers", _at_home("workers"), OF_A_WORKER, QUARTER, spare=_belongs_to_somebody),
    *(_temporary(f"state_dir/{name}", _at_home(name)) for name in (".", "workers", "desired", REPORTS, PACKAGES)),
    *(_temporary(f"nas.folders.{name}", _on_drive(name), on_drive=True) for name in ("outbox", "state", "logs")),
    _temporary("reports on the drive", _on_drive("logs", REPORTS), on_drive=True),
)


def sweep(host: HostContext, ledger: Ledger, now: datetime) -> Iterator[None]:
    """Delete everything that is old, a small piece for each step. One part that fails keeps no other from its own. A
    sweep that was cut off goes on with the part that it was in."""
    state_dir, removed = host.config.state_dir, Counter[str]()
    done = parts_done(state_dir)
    for name, part in _parts(host, ledger, now):
        if name in done:
            continue
        try:
            for count, more in part:
                removed[name] += count
                if not more:  # before whoever has a moment only leaves
                    note_part(state_dir, name)
                yield
        except DriveUnavailable as error:
            log.debug("retention of %s waits for the drive: %s", name, error)
        except (SupervisorError, OSError) as error:
            log.warning("retention of %s failed and is tried again tomorrow: %s", name, error)
        except Exception:  # the edge: a mistake here must not stop the rest
            log.exception("retention of %s failed and is tried again tomorrow", name)
        note_part(state_dir, name)
    note_sweep(state_dir)
    if +removed:
        log.info("retention: deleted %s", ", ".join(f"{count} of {name}" for name, count in (+removed).items()))


def _parts(host: HostContext, ledger: Ledger, now: datetime) -> Iterator[tuple[str, Pieces]]:
    config = host.config
    scope = scope_of(ledger, now, frozenset(config.workers), forwards=not disabled_reason(config))
    for retention in RETENTIONS:
        yield f"{retention.table.name} {retention.name}".strip(), _rows(ledger, retention, scope)
    for files in FILES:
        yield files.name, _files(host, files, now)
    for git in _checkouts(host):
        yield f"refs of {git.folder}", _refs(git, ledger, now)
        yield f"trials of {git.folder}", _trials(git, config.state_dir)


def _checkouts(host: HostContext) -> list[Git]:
    """One for each checkout that a worker runs from. One on a drive that is away is left for another day."""
    with suppress(DriveUnavailable, OSError):
        paths = {worker.code.path for worker in host.config.workers.values()}
        tops = host.drive.call(lambda: {top for path in paths if ((top := top_of(path)) / ".git").exists()})
        return [Git(top) for top in sorted(tops)]
    return []


def _rows(ledger: Ledger, retention: Retention, scope: RetentionScope) -> Pieces:
    full = True
    while full:
        count = delete_batch(ledger, retention, scope)
        if count and retention.lost:
            days = retention.kept.days
            log.warning("gave up on %d messages that nothing took for %d days", count, days)
        full = count >= retention.batch
        yield count, full


def _files(host: HostContext, files: Files, now: datetime) -> Pieces:
    work = partial(_delete_old, host.config, files, (now - files.kept).timestamp())
    more = True
    while more:
        if files.on_drive:
            host.drive.check()
        count, more = host.drive.call(work) if files.on_drive else work()
        yield count, more


def _delete_old(config: SupervisorConfig, files: Files, before: float) -> tuple[int, bool]:
    path = files.folder(config)
    try:
        opened = open_folder(config.nas.root, path) if files.on_drive else OpenFolder.at(path, shared=False)
    except (FileNotFoundError, NotADirectoryError):
        return 0, False
    with opened as folder:
        return delete_old(folder, re.compile(files.names), before, files.most, partial(files.spare, config))


def _refs(git: Git, ledger: Ledger, now: datetime) -> Pieces:
    """Refs whose command is in the audit trail, long over, and no job any more. Others' are left alone."""
    refs = kept_refs(git)
    for start in range(0, len(refs), REFS_AT_ONCE):
        some = {ref: task_ids_of_ref(ref) for ref in refs[start : start + REFS_AT_ONCE]}
        ids = {task_id for found in some.values() for task_id in found}
        known = ledger.read(partial(commands_with_jobs, task_ids=ids))
        over = ledger.read(partial(commands_before, task_ids=ids, before=now - QUARTER))
        gone = [ref for ref, found in some.items() if not known & set(found) and over & set(found)]
        yield sum(delete_kept_ref(git, ref) for ref in gone), start + REFS_AT_ONCE < len(refs)


def _trials(git: Git, state_dir: Path) -> Pieces:
    remove_stale_trials(git, state_dir)
    yield 0, False


AFTER_START = timedelta(minutes=1)
"""A daemon that starts has better things to do."""

CHECK_EVERY = timedelta(hours=1)
CHECK_SECONDS = 5.0
"""Enough for some gigabytes on a local disk; a larger ledger is looked through in part."""


class RetentionChore:
    """Has a lane of its own in the scheduler, so a slow drive delays nobody else."""

    name = "retention"

    def __init__(self, host: Callable[[], HostContext], ledger: Ledger, started_at: datetime | None = None) -> None:
        self._host = host
        self._ledger = ledger
        self._not_before = (started_at or datetime.now(UTC)) + AFTER_START
        self._check_at = self._not_before
        self._sweep: Iterator[None] | None = None

    def due_at(self) -> datetime:
        """Now, while a sweep is under way."""
        now = datetime.now(UTC)
        sweep_at = now if self._sweep else max(self._not_before, next_sweep(self._host().config.state_dir, now))
        return min(self._check_at, sweep_at)

    def work(self, now: datetime) -> bool:
        """Do the next piece, if it is time. That files no command."""
        if not self._check_at - CHECK_EVERY <= now < self._check_at:  # or the clock was set back
            self._check_at = now + CHECK_EVERY
            self._ledger.check(CHECK_SECONDS)
        if self._sweep is None:
            if now < self._not_before or now < next_sweep(self._host().config.state_dir, now):
                return False
            self._sweep = sweep(self._host(), self._ledger, now)
        if next(self._sweep, self) is self:
            self._sweep = None
        return False
