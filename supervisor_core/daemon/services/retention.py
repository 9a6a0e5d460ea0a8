"""The retention sweep: deletes old rows, files and refs once a day, a small piece at a time.

Rows are looked up without a lock and deleted in small transactions that check the same condition again. A ref under
`refs/supervisor/` stays as long as the job of its command.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, delete, select, tuple_

from supervisor_core.code.git import Git, top_of
from supervisor_core.code.git_changes import delete_kept_ref, kept_refs, remove_stale_worktrees, task_ids_of_ref
from supervisor_core.commands.addresses import Address
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.daemon.services.retention_rules import (
    FILES,
    QUARTER,
    RETENTIONS,
    Files,
    Retention,
    RetentionScope,
)
from supervisor_core.fleet.members import FleetMembers
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.drive_files import open_folder
from supervisor_core.host.old_files import delete_old, next_sweep, note_part, note_sweep, parts_done
from supervisor_core.host.open_folder import OpenFolder
from supervisor_core.storage import tables
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import jobs
from supervisor_core.workers.context import HostContext

REFS_AT_ONCE = 50
"""Git is started once for each."""

Pieces = Iterator[tuple[int, bool]]
"""The work on one part, piece by piece: how many were deleted, and whether there may be more."""

log = logging.getLogger(__name__)


def delete_batch(ledger: Ledger, retention: Retention, scope: RetentionScope) -> int:
    """Delete the next rows that are old; how many that were."""
    table = retention.table
    old = retention.rows(scope, scope.now - retention.kept)
    key = tuple_(*table.primary_key.columns)
    query = select(*table.primary_key.columns).where(old).limit(retention.batch)
    found = ledger.read(lambda local: [tuple(row) for row in local.execute(query)])
    if not found:
        return 0
    return ledger.write(lambda local: local.execute(delete(table).where(key.in_(found), old)).rowcount)


def commands_with_jobs(connection: Connection, task_ids: Collection[str]) -> set[str]:
    return set(connection.scalars(select(jobs.c.task_id).where(jobs.c.task_id.in_(task_ids))))


def commands_before(connection: Connection, task_ids: Collection[str], before: datetime) -> set[str]:
    """Those of these commands that the audit trail knows from before this moment."""
    trail = tables.audit_log.c
    return set(connection.scalars(select(trail.task_id).where(trail.task_id.in_(task_ids), trail.created_at < before)))


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
    members = FleetMembers(ledger).hosts() if config.fleet.role == HUB else ()
    elsewhere = {str(Address(member.host_id, worker_id)) for member in members for worker_id in member.workers}
    scope = RetentionScope(now, elsewhere.union(config.workers), shares=not config.shared_database_disabled)
    for retention in RETENTIONS:
        yield f"{retention.table.name} {retention.name}".strip(), _rows(ledger, retention, scope)
    for files in FILES:
        yield files.name, _files(host, files, now)
    for git in _checkouts(host):
        yield f"refs of {git.folder}", _refs(git, ledger, now)
        yield f"dry-run worktrees of {git.folder}", _trials(git, config.state_dir)


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
            words = "dropped %d messages that couldn't be delivered for %d days"
            log.warning(words, count, days, extra=LogEvent.OUTBOX_EXPIRED.extra(count=count, days=days))
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
        some = {ref: task_ids_of_ref(ref) for ref in refs[start : start + REFS_AT_ONCE]}
        ids = {task_id for found in some.values() for task_id in found}
        known = ledger.read(partial(commands_with_jobs, task_ids=ids))
        over = ledger.read(partial(commands_before, task_ids=ids, before=now - QUARTER))
        gone = [ref for ref, found in some.items() if not known & set(found) and over & set(found)]
        yield sum(delete_kept_ref(git, ref) for ref in gone), start + REFS_AT_ONCE < len(refs)


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
