"""Retention: deletes old rows, files and refs once a day, a small piece at a time.

A row is deleted only when nothing can refer to it any more: rows are looked up without a lock and deleted in small
transactions that check the same condition again. The audit trail is kept. `docs/reference/limits.md` lists all rules.
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

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, not_, or_, select, tuple_

from supervisor_core.alerts.messages import CALL, CONFIG, MORNING, WEEK
from supervisor_core.alerts.outside.documents import WEBHOOK
from supervisor_core.alerts.rows import ALERT
from supervisor_core.alerts.rules import AlertState
from supervisor_core.code.git import Git, top_of
from supervisor_core.code.git_changes import delete_kept_ref, kept_refs, remove_stale_worktrees, task_ids_of_ref
from supervisor_core.code.packages import FOLDER as PACKAGES
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.addresses import SEPARATOR, Address, is_address
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.diagnosis.reports.files import FOLDER as REPORTS
from supervisor_core.diagnosis.reports.files import KEPT_AT_HOME
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.drive_files import open_folder
from supervisor_core.host.old_files import delete_old, next_sweep, note_part, note_sweep, parts_done
from supervisor_core.host.open_folder import OpenFolder
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
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import approvals, bakes, conditions, flips, jobs, outbox, team_members
from supervisor_core.workers.conditions import ALERTMANAGER, FLAPPING, WORKER, Condition
from supervisor_core.workers.context import HostContext

log = logging.getLogger(__name__)

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


def _simple(
    table: Table,
    kept: timedelta,
    moment: str,
    after: str,
    states: Collection[str] | None = None,
    *,
    name: str = "",
    also: ColumnElement[bool] | None = None,
) -> Retention:
    """The rows that are in one of these states, for which a condition holds, and whose `moment` is long ago."""
    terms = [] if also is None else [also]
    if states is not None:
        terms.append(table.c.state.in_(states))
    return Retention(table, kept, lambda _, old: and_(table.c[moment] < old, *terms), after, name)


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
    rank = func.row_number().over(partition_by=jobs.c.worker_id, order_by=newest_first).label("rank")
    ranked = select(jobs.c.task_id, rank).where(jobs.c.handler.in_(CODE_HANDLERS), changed).subquery("ranked")
    return select(ranked.c.task_id).where(ranked.c.rank <= CHANGES_KEPT).scalar_subquery()


def _delivered(scope: RetentionScope, before: datetime) -> ColumnElement[bool]:
    sent = (outbox.c.state != PENDING) & outbox.c.kind.not_in(RENEWED)
    live = select(tables.alerts.c.alert_id).where(tables.alerts.c.state != AlertState.CLOSED)
    edited = (outbox.c.kind == ALERT) & outbox.c.subject.in_(live)
    old = [(outbox.c.kind == kind) & (outbox.c.created_at < scope.now - kept) for kind, kept in MESSAGES_KEPT.items()]
    other = outbox.c.kind.not_in(MESSAGES_KEPT) & (outbox.c.created_at < before)
    return sent & ~edited & or_(other, *old)


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


_votes, _changes, _c = tables.votes.c, tables.rolling_changes.c, conditions.c
_jobs_of_change, _of_approval = jobs.c.task_id == _changes.task_id, jobs.c.task_id == approvals.c.task_id

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
    _simple(tables.envelopes, DAY, "received_at", "Slack sent it, once it is handled", envelopes.DEALT_WITH),
    Retention(jobs, QUARTER, _jobs, "the command ended, unless something still refers to it; the newest stays"),
    _simple(
        tables.rolling_changes,
        QUARTER,
        "decided_at",
        "the command ended, with its jobs",
        also=~exists().where(_jobs_of_change),
    ),
    _simple(
        approvals,
        QUARTER,
        "finished_at",
        "the decision",
        DECIDED,
        also=~exists().where(_of_approval, jobs.c.state.not_in(ENDED)),
    ),
    Retention(
        tables.votes,
        QUARTER,
        lambda _scope, _before: not_(exists().where(approvals.c.approval_id == _votes.approval_id)),
        "the decision, with the approval",
    ),
    _simple(bakes, QUARTER, "until", "the end of the watch", also=bakes.c.state != BakeState.WATCHING),
    _simple(tables.schedules, QUARTER, "removed_at", "the schedule was removed", (ScheduleState.REMOVED,)),
    _simple(tables.alerts, QUARTER, "closed_at", "the alert closed", (AlertState.CLOSED,)),
    Retention(conditions, QUARTER, _conditions, "the worker was removed; one row for each worker and part of the host"),
    _simple(
        conditions,
        MONTH,
        "since",
        "Alertmanager's alert ended",
        name="alertmanager",
        also=(_c.target_type == ALERTMANAGER) & (_c.condition == Condition.WELL),
    ),
    _simple(
        tables.foreign_alerts,
        MONTH,
        "heard_at",
        "Alertmanager sent it last, once it has ended",
        also=tables.foreign_alerts.c.firing == 0,
    ),
    Retention(flips, QUARTER, _flips, "the change; the newest change of each target stays"),
    _simple(tables.suppressions, MONTH, "until", "the suppression ended"),
    Retention(tables.workers, QUARTER, _workers, "the last heartbeat of a removed worker; two rows for each worker"),
    _simple(tables.fleet_invites, QUARTER, "expires_at", "the invite expired"),
    _simple(team_members, QUARTER, "left_at", "the worker left the team"),
)

KEPT_TABLES: Mapping[str, str] = {
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
    path: str
    """Below the state folder; on the drive, one of `nas.folders` and what is below it."""
    names: str
    kept: timedelta
    most: int | None = None
    on_drive: bool = False
    spare: Callable[[SupervisorConfig, str], bool] = lambda _config, _name: False
    """The files that stay all the same."""

    def folder(self, config: SupervisorConfig) -> Path:
        if not self.on_drive:
            return config.state_dir / self.path
        name, *below = self.path.split("/")
        return config.folder(name).joinpath(*below)


def _is_known_worker(config: SupervisorConfig, name: str) -> bool:
    """True if the worker of a file is configured or has a record: its process may still run."""
    worker_id = name.rpartition(".")[0]
    return worker_id in config.workers or (config.state_dir / "workers" / f"{worker_id}.json").exists()


LEFT_BY_CRASH = partial(Files, names=TEMPORARY, kept=DAY)

FILES: tuple[Files, ...] = (
    Files("result files", "outbox", r"supervisor_result_.+\.json", QUARTER, 10_000, on_drive=True),
    Files("reports on the drive", f"logs/{REPORTS}", REPORT, QUARTER, 1_000, on_drive=True),
    Files("reports in the state folder", REPORTS, REPORT, QUARTER, KEPT_AT_HOME),
    Files("package lists", PACKAGES, r".+\.json", MONTH),
    Files("records of removed workers", "workers", OF_A_WORKER, QUARTER, spare=_is_known_worker),
    *(
        LEFT_BY_CRASH(f"temporary files in state_dir/{name}", name)
        for name in (".", "workers", "desired", REPORTS, PACKAGES)
    ),
    *(
        LEFT_BY_CRASH(f"temporary files in nas.folders.{name}", name, on_drive=True)
        for name in ("outbox", "state", "logs")
    ),
    LEFT_BY_CRASH("temporary files in reports on the drive", f"logs/{REPORTS}", on_drive=True),
)


REFS_AT_ONCE = 50
"""Git is started once for each."""

Pieces = Iterator[tuple[int, bool]]
"""The work on one part, piece by piece: how many were deleted, and whether there may be more."""


def delete_batch(ledger: Ledger, retention: Retention, scope: RetentionScope) -> int:
    """Delete the next rows that are old; how many that were."""
    table = retention.table
    old = retention.rows(scope, scope.now - retention.kept)
    key = tuple_(*table.primary_key.columns)
    query = select(*table.primary_key.columns).where(old).limit(retention.batch)
    keys = ledger.read(lambda local: [tuple(row) for row in local.execute(query)])
    if not keys:
        return 0
    return ledger.write(lambda local: local.execute(delete(table).where(key.in_(keys), old)).rowcount)


def sweep(host: HostContext, ledger: Ledger, now: datetime) -> Iterator[None]:
    """Delete everything old, a small piece in each step. A failing part doesn't affect the others.

    An interrupted sweep continues with its last part."""
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
            log.warning("retention of %s failed, retrying tomorrow: %s", name, error)
        except Exception:  # the edge: a mistake here must not stop the rest
            log.exception("retention of %s failed, retrying tomorrow", name)
        note_part(state_dir, name)
    note_sweep(state_dir)
    if +removed:
        log.info("retention: deleted %s", ", ".join(f"{count} of {name}" for name, count in (+removed).items()))


def _parts(host: HostContext, ledger: Ledger, now: datetime) -> Iterator[tuple[str, Pieces]]:
    config = host.config
    workers = set(config.workers)
    if config.fleet.role == HUB:
        from supervisor_core.fleet.members import FleetMembers

        hosts = FleetMembers(ledger).hosts()
        workers |= {str(Address(member.host_id, worker_id)) for member in hosts for worker_id in member.workers}
    scope = RetentionScope(now, workers, shares=not config.shared_database_disabled)
    for retention in RETENTIONS:
        yield f"{retention.table.name} {retention.name}".strip(), _rows(ledger, retention, scope)
    for files in FILES:
        yield files.name, _files(host, files, now)
    with suppress(DriveUnavailable, OSError):  # a checkout on a drive that is away is left for another day
        paths = {worker.code.path for worker in config.workers.values()}
        tops = host.drive.call(lambda: {top for path in paths if ((top := top_of(path)) / ".git").exists()})
        for git in map(Git, sorted(tops)):
            yield f"refs of {git.folder}", _refs(git, ledger, now)
            yield f"dry-run worktrees of {git.folder}", _trials(git, config.state_dir)


def _rows(ledger: Ledger, retention: Retention, scope: RetentionScope) -> Pieces:
    full = True
    while full:
        count = delete_batch(ledger, retention, scope)
        if count and retention.lost:
            days = retention.kept.days
            message = "dropped %d messages that couldn't be delivered for %d days"
            log.warning(message, count, days, extra=LogEvent.OUTBOX_EXPIRED.extra(count=count, days=days))
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
        opened = open_folder(config.drive_root, path) if files.on_drive else OpenFolder.at(path, shared=False)
    except (FileNotFoundError, NotADirectoryError):
        return 0, False
    with opened as folder:
        return delete_old(folder, re.compile(files.names), before, files.most, partial(files.spare, config))


def _refs(git: Git, ledger: Ledger, now: datetime) -> Pieces:
    """Refs whose command is in the audit trail, long over, and no job any more. Others' are left alone."""
    refs = kept_refs(git)
    for start in range(0, len(refs), REFS_AT_ONCE):
        commands = {ref: set(task_ids_of_ref(ref)) for ref in refs[start : start + REFS_AT_ONCE]}
        task_ids = set().union(*commands.values())
        with_job, old = ledger.read(partial(_known_commands, task_ids=task_ids, before=now - QUARTER))
        old_refs = [ref for ref, task_ids in commands.items() if not with_job & task_ids and old & task_ids]
        yield sum(delete_kept_ref(git, ref) for ref in old_refs), start + REFS_AT_ONCE < len(refs)


def _known_commands(connection: Connection, task_ids: set[str], before: datetime) -> tuple[set[str], set[str]]:
    """Those of these commands with a job, and those that the audit trail knows from before this moment."""
    trail = tables.audit_log.c
    with_job = select(jobs.c.task_id).where(jobs.c.task_id.in_(task_ids))
    old = select(trail.task_id).where(trail.task_id.in_(task_ids), trail.created_at < before)
    return set(connection.scalars(with_job)), set(connection.scalars(old))


def _trials(git: Git, state_dir: Path) -> Pieces:
    remove_stale_worktrees(git, state_dir)
    yield 0, False


AFTER_START = timedelta(minutes=1)
"""A daemon that starts has better things to do."""

CHECK_EVERY = timedelta(hours=1)
CHECK_SECONDS = 5.0
"""Enough for some gigabytes on a local disk; a larger ledger is looked through in part."""


class RetentionChore:
    """Has its own lane in the scheduler, so a slow drive delays nothing else."""

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
