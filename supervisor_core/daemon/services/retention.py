"""Retention: deletes old rows, files and refs once a day, a small piece at a time.

A row is deleted only when nothing can refer to it any more: rows are looked up without a lock and deleted in small
transactions that check the same condition again. The audit trail is kept. `docs/reference/limits.md` lists all rules.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import (
    BindParameter,
    Boolean,
    ColumnElement,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
)

from supervisor_core.alerts.messages import CALL, CONFIG, MORNING, WEEK
from supervisor_core.alerts.outside.documents import WEBHOOK
from supervisor_core.alerts.rows import ALERT
from supervisor_core.alerts.rules import AlertState
from supervisor_core.code.git import Git, top_of
from supervisor_core.code.git_changes import delete_kept_ref, kept_refs, remove_stale_worktrees, task_ids_of_ref
from supervisor_core.code.packages import FOLDER as PACKAGES
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.addresses import SEPARATOR, Address
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
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
from supervisor_core.storage.engine import JsonText, UtcDateTime, in_bytes
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.storage.outbox import APPROVAL_REQUEST, CARD, DETAILS
from supervisor_core.storage.steps import PENDING
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import approvals, bakes, conditions, flips, jobs, outbox
from supervisor_core.workers.conditions import ALERTMANAGER, FLAPPING, WORKER, Condition
from supervisor_core.workers.context import HostContext

log = logging.getLogger(__name__)

DAY = timedelta(days=1)
MONTH, QUARTER, YEAR = 30 * DAY, 90 * DAY, 365 * DAY

BATCH = 500
"""Rows deleted in one transaction. That takes some milliseconds, and other writers wait for the lock meanwhile."""

CHANGES_KEPT = 20
"""The newest changes of the code of each worker. They stay however old they are, so that they can be undone."""

MESSAGES_KEPT: Mapping[timedelta, Sequence[str]] = {
    YEAR: (ALERT, WEEK),
    MONTH: (CARD, APPROVAL_REQUEST, DETAILS, SCHEDULE, CALL, CONFIG, MORNING, WEBHOOK, RESULT_FILE),
}
"""The kinds of delivered messages that are kept for so long. Other kinds are never edited: one day."""

RENEWED = ("deadman", "welcome")
"""Kinds with one row that stays: one for the dead-man's switch, and one for the introduction in each channel, which is
posted once."""

WAITS_AT_MOST = YEAR
"""Longest wait of a row for delivery. After that it is deleted, and the log has the number."""


OLD = bindparam("old", type_=UtcDateTime())
"""The moment before which rows are old."""

WORKERS: BindParameter[str] = bindparam("workers", expanding=True)
"""The configured workers; on a hub, also those of its hosts by their addresses."""

HEARTBEATS: BindParameter[str] = bindparam("heartbeats", expanding=True)
"""The ids of these workers in the table of heartbeats."""

SHARES = bindparam("shares", type_=Boolean())
"""True if audit rows go to a shared database: those wait however long it takes."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The rows of one table that go after a while."""

    table: Table
    period: timedelta
    after: str
    """The end of the sentence “Rows are kept for 90 days after …”, for the limits reference."""
    rows: ColumnElement[bool]
    name: str = ""
    """Set where a table has several."""
    lost: bool = False
    """True if the log warns, because something acknowledged isn't delivered."""


def _ended_jobs() -> ColumnElement[bool]:
    """Ended commands that nothing refers to: a job goes with the last job of its command."""
    j = jobs.c
    other = jobs.alias("other")
    open_sibling = exists().where(
        other.c.task_id == j.task_id, or_(other.c.state.not_in(ENDED), other.c.finished_at >= OLD)
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
    # The next change is numbered from the newest one, and only higher numbers are copied to other places.
    newest = select(other.c.job_id).order_by(other.c.changed.desc(), other.c.job_id.desc()).limit(1).scalar_subquery()
    # The commands that last changed the code of each worker stay.
    details = j.details_json
    changed = or_(JsonText(details, "before") != JsonText(details, "after"), JsonText(details, "packages") != "[]")
    newest_first = j.finished_at.desc(), j.job_id.desc()
    rank = func.row_number().over(partition_by=j.worker_id, order_by=newest_first).label("rank")
    ranked = select(j.task_id, rank).where(j.handler.in_(CODE_HANDLERS), changed).subquery("ranked")
    changes = select(ranked.c.task_id).where(ranked.c.rank <= CHANGES_KEPT).scalar_subquery()
    return j.state.in_(ENDED) & (j.finished_at < OLD) & ~needed & (j.job_id != newest) & j.task_id.not_in(changes)


def _quiet_flips() -> ColumnElement[bool]:
    """Those that aren't the newest of their target. Of a host's workers, a hub has copies without a present condition,
    because its own conditions name them by their addresses."""
    current = exists().where(
        conditions.c.supervisor_id == flips.c.supervisor_id, conditions.c.flip_id == flips.c.flip_id
    )
    names = ("supervisor_id", "target_type", "target_id")
    newer = flips.alias("newer")
    has_newer = exists().where(*(newer.c[name] == flips.c[name] for name in names), newer.c.flip_id > flips.c.flip_id)
    address = flips.c.supervisor_id + SEPARATOR + flips.c.target_id
    copied = and_(flips.c.target_type.in_((WORKER, FLAPPING)), address.in_(WORKERS))
    return (flips.c.at < OLD) & ~current & ~(copied & ~has_newer)


t, _beat = tables, tables.workers.c.last_heartbeat_at
_live_alert = t.alerts.c.state != AlertState.CLOSED
_delivered = and_(
    outbox.c.state != PENDING,
    outbox.c.kind.not_in(RENEWED),
    outbox.c.created_at < OLD,
    ~((outbox.c.kind == ALERT) & outbox.c.subject.in_(select(t.alerts.c.alert_id).where(_live_alert))),
)
# The due time of a retried message moves.
_undeliverable = and_(
    outbox.c.state == PENDING,
    outbox.c.kind.not_in(RENEWED),
    ~((outbox.c.kind == SHARED_DATABASE) & SHARES),
    or_((outbox.c.kind == RESULT_FILE) & (outbox.c.created_at < OLD), outbox.c.due_at < OLD),
)
_removed_conditions = and_(
    conditions.c.target_type.in_((WORKER, FLAPPING)),
    conditions.c.target_id.not_in(WORKERS),
    conditions.c.since < OLD,
    ~exists().where(
        t.alerts.c.target_type == conditions.c.target_type, t.alerts.c.target_id == conditions.c.target_id, _live_alert
    ),
)

RETENTIONS: tuple[Retention, ...] = (
    Retention(
        outbox,
        DAY,
        "delivery, or longer (see below)",
        _delivered & outbox.c.kind.not_in([kind for kinds in MESSAGES_KEPT.values() for kind in kinds]),
        name="delivered",
    ),
    *(
        Retention(outbox, period, "", _delivered & outbox.c.kind.in_(kinds), name=f"delivered {period.days}")
        for period, kinds in MESSAGES_KEPT.items()
    ),
    Retention(
        outbox,
        WAITS_AT_MOST,
        "the last change of a row that nothing accepts; the log says how many",
        _undeliverable,
        name="undeliverable",
        lost=True,
    ),
    Retention(
        t.envelopes,
        DAY,
        "Slack sent it, once it is handled",
        (t.envelopes.c.received_at < OLD) & t.envelopes.c.state.in_(envelopes.DEALT_WITH),
    ),
    Retention(jobs, QUARTER, "the command ended, unless something still refers to it; the newest stays", _ended_jobs()),
    Retention(
        t.rolling_changes,
        QUARTER,
        "the command ended, with its jobs",
        (t.rolling_changes.c.decided_at < OLD) & ~exists().where(jobs.c.task_id == t.rolling_changes.c.task_id),
    ),
    Retention(
        approvals,
        QUARTER,
        "the decision",
        (approvals.c.finished_at < OLD)
        & approvals.c.state.in_(DECIDED)
        & ~exists().where(jobs.c.task_id == approvals.c.task_id, jobs.c.state.not_in(ENDED)),
    ),
    Retention(
        t.votes,
        QUARTER,
        "the decision, with the approval",
        ~exists().where(approvals.c.approval_id == t.votes.c.approval_id),
    ),
    Retention(bakes, QUARTER, "the end of the watch", (bakes.c.until < OLD) & (bakes.c.state != BakeState.WATCHING)),
    Retention(
        t.schedules,
        QUARTER,
        "the schedule was removed",
        (t.schedules.c.removed_at < OLD) & (t.schedules.c.state == ScheduleState.REMOVED),
    ),
    Retention(t.alerts, QUARTER, "the alert closed", (t.alerts.c.closed_at < OLD) & ~_live_alert),
    Retention(
        conditions, QUARTER, "the worker was removed; one row for each worker and part of the host", _removed_conditions
    ),
    Retention(
        conditions,
        MONTH,
        "Alertmanager's alert ended",
        (conditions.c.since < OLD)
        & (conditions.c.target_type == ALERTMANAGER)
        & (conditions.c.condition == Condition.WELL),
        name="alertmanager",
    ),
    Retention(
        t.foreign_alerts,
        MONTH,
        "Alertmanager sent it last, once it has ended",
        (t.foreign_alerts.c.heard_at < OLD) & (t.foreign_alerts.c.firing == 0),
    ),
    Retention(flips, QUARTER, "the change; the newest change of each target stays", _quiet_flips()),
    Retention(t.suppressions, MONTH, "the suppression ended", t.suppressions.c.until < OLD),
    Retention(
        t.workers,
        QUARTER,
        "the last heartbeat of a removed worker; two rows for each worker",
        t.workers.c.worker_id.not_in(HEARTBEATS) & or_(_beat.is_(None), _beat < OLD),
    ),
    Retention(t.fleet_invites, QUARTER, "the invite expired", t.fleet_invites.c.expires_at < OLD),
    Retention(t.team_members, QUARTER, "the worker left the team", t.team_members.c.left_at < OLD),
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
    period: timedelta
    most: int | None = None
    on_drive: bool = False


FILES: tuple[Files, ...] = (
    Files("result files", "outbox", r"supervisor_result_.+\.json", QUARTER, 10_000, on_drive=True),
    Files("reports on the drive", f"logs/{REPORTS}", REPORT, QUARTER, 1_000, on_drive=True),
    Files("reports in the state folder", REPORTS, REPORT, QUARTER, KEPT_AT_HOME),
    Files("package lists", PACKAGES, r".+\.json", MONTH),
    Files("records of removed workers", "workers", OF_A_WORKER, QUARTER),
    *(
        Files(f"temporary files in state_dir/{path}", path, TEMPORARY, DAY)
        for path in (".", "workers", "desired", REPORTS, PACKAGES)
    ),
    *(
        Files(f"temporary files in nas.folders.{path}", path, TEMPORARY, DAY, on_drive=True)
        for path in ("outbox", "state", "logs", f"logs/{REPORTS}")
    ),
)

REFS_AT_ONCE = 50
"""Git is started once for each."""


def sweep(host: HostContext, ledger: Ledger, now: datetime) -> Iterator[None]:
    """Delete everything old, a small piece in each step. A failing part doesn't affect the others.

    An interrupted sweep continues with its last part."""
    state_dir, removed = host.config.state_dir, Counter[str]()
    finished = parts_done(state_dir)
    for name, delete_piece in _parts(host, ledger, now):
        unfinished = name not in finished
        while unfinished:
            unfinished = False
            try:
                count, unfinished = delete_piece()
                removed[name] += count
            except DriveUnavailable as error:
                log.debug("retention of %s waits for the drive: %s", name, error)
            except (SupervisorError, OSError) as error:
                log.warning("retention of %s failed, retrying tomorrow: %s", name, error)
            except Exception:  # the edge: a mistake here must not stop the rest
                log.exception("retention of %s failed, retrying tomorrow", name)
            if not unfinished:
                note_part(state_dir, name)
            yield
    note_sweep(state_dir)
    if +removed:
        log.info("retention: deleted %s", ", ".join(f"{count} of {name}" for name, count in (+removed).items()))


def _parts(host: HostContext, ledger: Ledger, now: datetime) -> Iterator[tuple[str, Callable[[], tuple[int, bool]]]]:
    """Each part by its name, with a function that deletes the next piece: how many, and whether there may be more."""
    config = host.config
    workers = set(config.workers)
    if config.fleet.role == HUB:
        from supervisor_core.fleet.members import FleetMembers

        hosts = FleetMembers(ledger).hosts()
        workers |= {str(Address(member.host_id, worker_id)) for member in hosts for worker_id in member.workers}
    shares = not config.shared_database_disabled
    for retention in RETENTIONS:
        name = f"{retention.table.name} {retention.name}".strip()
        yield name, partial(delete_rows, ledger, retention, now, workers, shares=shares)
    for files in FILES:
        yield files.name, partial(_delete_files, host, files, now)
    with suppress(DriveUnavailable, OSError):  # a checkout on a drive that is away is left for another day
        paths = {worker.code.path for worker in config.workers.values()}
        tops = host.drive.call(lambda: {top for path in paths if ((top := top_of(path)) / ".git").exists()})
        for top in sorted(tops):
            yield f"refs of {top}", partial(_delete_refs, Git(top), ledger, config.state_dir, now)


def delete_rows(
    ledger: Ledger, retention: Retention, now: datetime, workers: Collection[str] = (), *, shares: bool = False
) -> tuple[int, bool]:
    """Delete the next rows that are old; how many that were, and whether there may be more."""
    table, days = retention.table, retention.period.days
    values = {
        "old": now - retention.period,
        "workers": list(workers),
        "heartbeats": [*workers, *(f"supervisor_{worker_id}" for worker_id in workers)],
        "shares": shares,
    }
    key = table.primary_key.columns
    query = select(*key).where(retention.rows).limit(BATCH)
    keys = ledger.read(lambda connection: [tuple(row) for row in connection.execute(query, values)])
    if not keys:
        return 0, False
    statement = delete(table).where(tuple_(*key).in_(keys), retention.rows)
    count = ledger.write(lambda connection: connection.execute(statement, values).rowcount)
    if count and retention.lost:
        message = "dropped %d messages that couldn't be delivered for %d days"
        log.warning(message, count, days, extra=LogEvent.OUTBOX_EXPIRED.extra(count=count, days=days))
    return count, count >= BATCH


def _delete_files(host: HostContext, files: Files, now: datetime) -> tuple[int, bool]:
    config = host.config

    def is_in_use(name: str) -> bool:
        """True if the worker of a file is configured or has a record: its process may still run."""
        worker_id = name.rpartition(".")[0]
        return worker_id in config.workers or (config.state_dir / "workers" / f"{worker_id}.json").exists()

    def work() -> tuple[int, bool]:
        try:
            if files.on_drive:
                name, *below = files.path.split("/")
                opened = open_folder(config.drive_root, config.folder(name).joinpath(*below))
            else:
                opened = OpenFolder.at(config.state_dir / files.path, shared=False)
        except (FileNotFoundError, NotADirectoryError):
            return 0, False
        spare = is_in_use if files.names == OF_A_WORKER else lambda _name: False
        with opened as folder:
            return delete_old(folder, re.compile(files.names), (now - files.period).timestamp(), files.most, spare)

    if not files.on_drive:
        return work()
    host.drive.check()
    return host.drive.call(work)


def _delete_refs(git: Git, ledger: Ledger, state_dir: Path, now: datetime) -> tuple[int, bool]:
    """Delete refs whose command is in the audit trail, long over, and no job any more, and the worktrees of dry runs.

    The refs of others stay.
    """
    remove_stale_worktrees(git, state_dir)
    commands = {ref: set(task_ids_of_ref(ref)) for ref in kept_refs(git)}
    trail, task_ids = t.audit_log.c, set().union(*commands.values())
    old = select(trail.task_id).where(trail.task_id.in_(task_ids), trail.created_at < now - QUARTER)
    with_job = select(jobs.c.task_id).where(jobs.c.task_id.in_(task_ids))
    with_jobs, old_ids = ledger.read(
        lambda connection: (set(connection.scalars(with_job)), set(connection.scalars(old)))
    )
    refs = [ref for ref, ids in commands.items() if not with_jobs & ids and old_ids & ids][:REFS_AT_ONCE]
    count = sum(delete_kept_ref(git, ref) for ref in refs)
    return count, count == REFS_AT_ONCE


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
