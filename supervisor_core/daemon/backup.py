"""Backups of the ledger, taken while the daemon runs, and their restore.

Between the backup and now, a waiting command may have run, an approval may have been given, a schedule may have had its
time. Whatever may have happened isn't done again: a restore ends it, with the reason, and people decide.

    check the backup → copy it beside the ledger → end what was open, in one transaction → keep the old ledger under
    another name → rename the copy

A crash before the copy is renamed leaves the old ledger. No daemon and no pass may use the state folder meanwhile.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, select, update

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import canonical_json
from supervisor_core.common.time_zones import next_after
from supervisor_core.common.times import from_text, to_text
from supervisor_core.config.fields import mask_url
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.daemon.environment import prepare_state_dir
from supervisor_core.daemon.ownership import daemon_ownership
from supervisor_core.host.descriptors import PRIVATE_FILE, PRIVATE_FOLDER, temporary_name
from supervisor_core.intake.approvals import rows as approvals
from supervisor_core.intake.approvals.rules import OPEN, Move
from supervisor_core.intake.schedules import service as schedules
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, JobState
from supervisor_core.storage import envelopes
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import RESTORED, AuditEntry
from supervisor_core.storage.ledger_file import (
    LEDGER_FILE,
    READER_SECONDS,
    SHARED_DATABASE,
    WRITER_SECONDS,
    connect,
    file_state,
)
from supervisor_core.storage.schema import HEAD, is_development
from supervisor_core.storage.steps import PENDING, record, take
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import jobs as jobs_table
from supervisor_core.storage.tables import outbox

CHECK_SECONDS = 3600.0
"""Enough to check any file. A backup must be whole, because it's used when all else is lost."""

WORK_FOLDER = "restoring"
"""The folder in the state folder in which a restore prepares the ledger. It's left only where that was killed."""

REPLACED = "ledger.db.replaced-"
LOGS = ("-wal", "-shm")
"""The ends of the names of SQLite's files beside a database."""

log = logging.getLogger(__name__)


class BackupError(SupervisorError):
    """The ledger can't be backed up or restored."""


@dataclass(frozen=True, slots=True)
class BackupFacts:
    path: Path
    version: str
    supervisors: tuple[str, ...]
    """The hosts whose audit trails it has; on a hub there are several."""
    rows: int
    """The rows of the audit trail."""
    newest: datetime | None
    """The time of the newest one."""
    size: int
    fleet: tuple[str, ...] = ()
    """The hosts of the fleet, in a hub's backup."""


def write_backup(config: SupervisorConfig, path: Path) -> BackupFacts:
    """Copy the ledger to a new file. It can be written meanwhile; later rows aren't in the copy."""
    source = _ledger_file(config)
    if not source.exists():
        raise BackupError(f"There is no ledger at {source}.", remedy="The daemon creates it at its first start.")
    temporary = path.with_name(temporary_name(path.name, only_writer=False))
    try:
        if os.path.lexists(path):
            raise FileExistsError
        copy_database(source, temporary)
        facts = _read_backup(temporary, source)
        os.link(temporary, path, follow_symlinks=False)  # fails if somebody else took the name meanwhile
    except FileExistsError:
        raise BackupError(f"{path} exists. Nothing was done.", remedy="Choose another name.") from None
    except OSError as error:
        raise BackupError(f"{path} can't be written: {error.strerror}.") from None
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)
    return replace(facts, path=path)


def restore(
    config: SupervisorConfig, path: Path, by: Issuer, now: datetime, *, force: bool = False
) -> tuple[BackupFacts, Path | None]:
    """Replace the ledger by a backup of this host; `force` takes another host's or the hub's as well. Returns what it
    holds, and where the old ledger is kept.

    `AlreadyRunningError` or `BusyError` while a daemon or a pass uses the state folder.
    """
    ledger_file = _ledger_file(config)
    prepare_state_dir(config)
    stop_first = "Run `supervisor daemon stop` first; workers keep running."
    with daemon_ownership(config.state_dir, wait_seconds=0.0, remedy=stop_first):
        facts = _read_backup(path)
        if not force:
            _check_owner(config, facts)
        work = config.state_dir / WORK_FOLDER
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=PRIVATE_FOLDER)
        try:
            copy, shares = work / LEDGER_FILE, not config.shared_database_disabled
            copy_database(path, copy)
            with Ledger(copy, config.supervisor.id, shares=shares) as ledger:  # upgraded if need be
                faults = ledger.read(chain.verify).faults
                if faults:
                    raise BackupError(
                        f"The audit trail in {path} isn't whole: row {faults[0].audit_id} {faults[0].what}. "
                        "Nothing was done.",
                        remedy="Choose another backup.",
                    )
                ledger.write(partial(_end_open_work, supervisor_id=config.supervisor.id, facts=facts, by=by, now=now))
            _merge_log(copy)
            return facts, _replace_ledger(ledger_file, copy, now)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _ledger_file(config: SupervisorConfig) -> Path:
    if config.ledger_url:
        raise BackupError(
            f"The ledger is in the database {mask_url(config.ledger_url)}. Nothing was done.",
            remedy="Use the database's own tools, such as pg_dump.",
        )
    return config.state_dir / LEDGER_FILE


def copy_database(source: Path, target: Path) -> None:
    """Copy a database to a new, complete file of our own, which is on disk when this returns."""
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), PRIVATE_FILE)
    try:
        with closing(connect(source, "ro", READER_SECONDS)) as reader, closing(sqlite3.connect(target)) as writer:
            reader.backup(writer)
            writer.execute("PRAGMA journal_mode = DELETE")
        if not os.path.samestat(os.fstat(descriptor), target.lstat()):
            raise BackupError(f"{target} was replaced by another program. Nothing was done.")
        os.fsync(descriptor)
    except sqlite3.Error as error:
        raise BackupError(f"{source} can't be copied: {error}.") from None
    finally:
        os.close(descriptor)


def _read_backup(path: Path, source: Path | None = None) -> BackupFacts:
    """Check the whole backup, and return its facts. Errors name the ledger from which it was just copied, if any."""
    name, aim = (source, "backed up") if source else (path, "restored")
    if not path.is_file():
        raise BackupError(f"{name} isn't a file.")
    try:
        state = file_state(path, CHECK_SECONDS)
        version = state.version or ""
        if state.damage:
            raise BackupError(f"{name} is damaged: {' '.join(state.damage.split())}.")
        if not version:
            raise BackupError(f"{name} isn't a backup of a ledger.")
        if is_development(version):
            raise BackupError(f"{name} is of a development version ({version}), which can't be {aim}.")
        if version > HEAD:
            raise BackupError(
                f"{name} has version {version} of the tables; this program knows {HEAD}.",
                remedy="Install the version of the supervisor that wrote it, or a newer one.",
            )
        with closing(connect(path, "ro", READER_SECONDS)) as connection:

            def names(query: str) -> tuple[str, ...]:
                return tuple(str(value) for (value,) in connection.execute(query).fetchall())

            supervisors = names("SELECT DISTINCT supervisor_id FROM audit_log_t ORDER BY 1")
            rows, newest = connection.execute("SELECT count(*), max(created_at) FROM audit_log_t").fetchone()
            has_fleet = names("SELECT name FROM sqlite_master WHERE name = 'fleet_hosts_t'")
            fleet = names("SELECT host_id FROM fleet_hosts_t ORDER BY 1") if has_fleet else ()
    except sqlite3.Error as error:
        raise BackupError(f"{name} isn't a backup of a ledger: {error}.") from None
    size = path.stat().st_size
    return BackupFacts(path, version, supervisors, rows, from_text(newest) if newest else None, size, fleet)


def _check_owner(config: SupervisorConfig, facts: BackupFacts) -> None:
    """Refuse the backup of another host, or of a hub, which has the records of all its hosts."""
    own_id = config.supervisor.id
    if facts.fleet and (config.fleet.role != HUB or own_id in facts.fleet):
        hosts = "1 host" if len(facts.fleet) == 1 else f"{len(facts.fleet)} hosts"
        raise BackupError(
            f"{facts.path} is of the hub of a fleet with {hosts}, and {own_id} isn't that hub. Nothing was done.",
            remedy="Choose a backup of this host, or add --force to make this ledger the hub's.",
        )
    if facts.supervisors and own_id not in facts.supervisors:
        raise BackupError(
            f"{facts.path} is of {', '.join(facts.supervisors)}, and this host is {own_id}. Nothing was done.",
            remedy="Choose a backup of this host, set supervisor.id to the host that it's of, or add --force.",
        )


def _end_open_work(connection: Connection, supervisor_id: str, facts: BackupFacts, by: Issuer, now: datetime) -> None:
    """End everything that may have continued after the backup."""
    then = f"{facts.newest:%Y-%m-%d %H:%M} UTC" if facts.newest else "an unknown time"
    reason = f"The ledger was restored from a backup of {then}. Whatever happened to this since isn't known here."
    for envelope in envelopes.pending_envelopes(connection):
        take(connection, supervisor_id, envelopes.mark_failed(envelope, reason, now), now)
    for approval in approvals.in_states(connection, OPEN):
        step = approvals.move(approval, Move.OVERTAKE, by.id, f"{reason} Ask again if it's still wanted.", now)
        take(connection, supervisor_id, step, now)
    # Rows that waited for the shared database at that time may be there by now. The sender looks for them.
    waiting = (outbox.c.kind == SHARED_DATABASE) & (outbox.c.state == PENDING) & outbox.c.address_json.is_(None)
    connection.execute(update(outbox).where(waiting).values(address_json=canonical_json({"after": 0})))
    ended = 0
    query = select(jobs_table).where(jobs_table.c.state.not_in(FINAL)).order_by(jobs_table.c.job_id)
    for row in connection.execute(query).mappings().all():
        step = jobs.interrupt(jobs.of_row(row), Outcome.failed(f"{reason} It wasn't started again."), now)
        step = replace(step, expected=(JobState.QUEUED, JobState.CLAIMED, JobState.STARTED), follow=None)
        ended += take(connection, supervisor_id, step, now)
    for schedule in schedules.due(connection, now):
        later = next_after(schedule.cron, schedule.zone, now)
        take(connection, supervisor_id, schedules.correct_next(schedule, later), now)
    about = {"file": str(facts.path), "newest": to_text(facts.newest) if facts.newest else None, "ended": ended}
    entry = AuditEntry(by.id, RESTORED, supervisor_id, label=by.name or None, target_type="supervisor", details=about)
    record(connection, supervisor_id, entry, (), now)


def _merge_log(path: Path) -> None:
    """Move everything into the file itself, so that it can be renamed alone."""
    with closing(connect(path, "rw", WRITER_SECONDS)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")


def _replace_ledger(ledger_file: Path, copy: Path, now: datetime) -> Path | None:
    """Rename the copy. The old ledger is kept under the returned name; a damaged one with its log, as it is."""
    kept = None
    if ledger_file.exists():  # a restore that was killed within this second may have left one
        while (kept := ledger_file.with_name(f"{REPLACED}{now:%Y%m%dT%H%M%SZ}")).exists():
            now += timedelta(seconds=1)
    crashpoints.reach("restore:before")
    if kept is not None:
        try:
            _keep(ledger_file, kept)
        except OSError:  # such as a full disk, which half a copy would keep full
            for end in ("", *LOGS):
                kept.with_name(kept.name + end).unlink(missing_ok=True)
            raise
    for end in LOGS:
        ledger_file.with_name(ledger_file.name + end).unlink(missing_ok=True)
    crashpoints.reach("restore:kept")
    copy.replace(ledger_file)
    _sync(ledger_file.parent)
    crashpoints.reach("restore:after")
    return kept


def _keep(ledger_file: Path, kept: Path) -> None:
    """Keep the old ledger under another name, and leave no log of it: SQLite would read it into the new one."""
    try:
        copy_database(ledger_file, kept)
        _merge_log(ledger_file)
    except (sqlite3.Error, BackupError) as error:
        log.warning("the old ledger is kept as it is, because it can't be read: %s", str(error).rstrip("."))
        for end in LOGS:
            with suppress(FileNotFoundError):
                shutil.copy2(ledger_file.with_name(ledger_file.name + end), kept.with_name(kept.name + end))
        shutil.copy2(ledger_file, kept)
        _sync(kept)


def _sync(path: Path) -> None:
    """Sync a file, or a folder where the system can."""
    with suppress(OSError) if path.is_dir() else nullcontext():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
