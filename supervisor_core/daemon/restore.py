"""Restoring a backup: the ledger as it was, with everything that was under way then brought to an end.

Between the backup and now, a waiting command may have run, an approval may have been given, a schedule may have had its
time. Whatever may have happened isn't done again: it ends here, with the reason, and people decide.

    check the backup → copy it beside the ledger → end what was open, in one transaction → keep the old ledger under
    another name → rename the copy

A crash before the copy is renamed leaves the old ledger. No daemon and no pass may use the state folder meanwhile.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, select, update

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.common import crashpoints
from supervisor_core.common.text import canonical_json
from supervisor_core.common.time_zones import next_after
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.daemon.backup import (
    BackupError,
    BackupFacts,
    copy_database,
    read_backup,
    require_file,
    sync_file,
    sync_folder,
)
from supervisor_core.daemon.environment import prepare_state_dir
from supervisor_core.daemon.ownership import daemon_ownership
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.intake.approvals import rows as approvals
from supervisor_core.intake.approvals.rules import OPEN, Move
from supervisor_core.intake.schedules import service as schedules
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, JobState
from supervisor_core.storage import envelopes
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import RESTORED, AuditEntry
from supervisor_core.storage.ledger_file import LEDGER_FILE, SHARED_DATABASE, WRITER_SECONDS, connect
from supervisor_core.storage.steps import PENDING, record, take
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import jobs as jobs_table
from supervisor_core.storage.tables import outbox

WORK_FOLDER = "restoring"
"""The folder in the state folder in which a restore prepares the ledger. It's left only where that was killed."""

REPLACED = "ledger.db.replaced-"
STOP_FIRST = "Run `supervisor daemon stop` first; workers keep running."

LOGS = ("-wal", "-shm")
"""The ends of the names of SQLite's files beside a database."""

log = logging.getLogger(__name__)


def restore(
    config: SupervisorConfig, path: Path, by: Issuer, now: datetime, *, force: bool = False
) -> tuple[BackupFacts, Path | None]:
    """Replace the ledger by a backup of this host; `force` takes another host's or the hub's as well. Returns what it
    holds, and where the old ledger is kept.

    `AlreadyRunningError` or `BusyError` while a daemon or a pass uses the state folder.
    """
    place = require_file(config)
    prepare_state_dir(config)
    with daemon_ownership(config.state_dir, wait_seconds=0.0, remedy=STOP_FIRST):
        facts = read_backup(path)
        if not force:
            _check_owner(config, facts)
        work = config.state_dir / WORK_FOLDER
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=PRIVATE_FOLDER)
        try:
            copy_database(path, work / LEDGER_FILE)
            _prepare(config, work, facts, by, now)
            return facts, _swap(place, work, now)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _check_owner(config: SupervisorConfig, facts: BackupFacts) -> None:
    """Refuse the backup of another host, or of a hub, which has the records of all its hosts."""
    mine = config.supervisor.id
    if facts.fleet and (config.fleet.role != HUB or mine in facts.fleet):
        hosts = "1 host" if len(facts.fleet) == 1 else f"{len(facts.fleet)} hosts"
        raise BackupError(
            f"{facts.path} is of the hub of a fleet with {hosts}, and {mine} isn't that hub. Nothing was done.",
            remedy="Choose a backup of this host, or add --force to make this ledger the hub's.",
        )
    if facts.supervisors and mine not in facts.supervisors:
        known = ", ".join(facts.supervisors)
        raise BackupError(
            f"{facts.path} is of {known}, and this host is {mine}. Nothing was done.",
            remedy="Choose a backup of this host, set supervisor.id to the host that it's of, or add --force.",
        )


def _prepare(config: SupervisorConfig, work: Path, facts: BackupFacts, by: Issuer, now: datetime) -> None:
    """Upgrade the copy, check its trail, and end what was open in it."""
    supervisor_id, shares = config.supervisor.id, not config.shared_database_disabled
    with Ledger(work / LEDGER_FILE, supervisor_id, shares=shares) as ledger:
        faults = ledger.read(chain.verify).faults
        if faults:
            raise BackupError(
                f"The audit trail in {facts.path} isn't whole: row {faults[0].audit_id} {faults[0].what}. "
                "Nothing was done.",
                remedy="Choose another backup.",
            )
        ledger.write(partial(_end_open_work, supervisor_id=supervisor_id, facts=facts, by=by, now=now))
    _close_log(work / LEDGER_FILE)


def _end_open_work(connection: Connection, supervisor_id: str, facts: BackupFacts, by: Issuer, now: datetime) -> None:
    """End everything that may have continued after the backup."""
    then = f"{facts.newest:%Y-%m-%d %H:%M} UTC" if facts.newest else "an unknown time"
    why = f"The ledger was restored from a backup of {then}. Whatever happened to this since isn't known here."
    for envelope in envelopes.pending_envelopes(connection):
        take(connection, supervisor_id, envelopes.mark_failed(envelope, why, now), now)
    for approval in approvals.in_states(connection, OPEN):
        step = approvals.move(approval, Move.OVERTAKE, by.id, f"{why} Ask again if it's still wanted.", now)
        take(connection, supervisor_id, step, now)
    # Rows that waited for the shared database at that time may be there by now. The sender looks for them.
    waiting = (outbox.c.kind == SHARED_DATABASE) & (outbox.c.state == PENDING) & outbox.c.address_json.is_(None)
    connection.execute(update(outbox).where(waiting).values(address_json=canonical_json({"after": 0})))
    counted = 0
    query = select(jobs_table).where(jobs_table.c.state.not_in(FINAL)).order_by(jobs_table.c.job_id)
    for row in connection.execute(query).mappings().all():
        job = jobs.of_row(row)
        end = jobs.interrupt(job, Outcome.failed(f"{why} It wasn't started again."), now)
        step = replace(end, expected=(JobState.QUEUED, JobState.CLAIMED, JobState.STARTED), follow=None)
        counted += take(connection, supervisor_id, step, now)
    for schedule in schedules.due(connection, now):
        later = next_after(schedule.cron, schedule.zone, now)
        take(connection, supervisor_id, schedules.correct_next(schedule, later), now)
    about = {"file": str(facts.path), "newest": to_text(facts.newest) if facts.newest else None, "ended": counted}
    entry = AuditEntry(by.id, RESTORED, supervisor_id, label=by.name or None, target_type="supervisor", details=about)
    record(connection, supervisor_id, entry, (), now)


def _close_log(path: Path) -> None:
    """Move everything into the file itself, so that it can be renamed alone."""
    with closing(connect(path, "rw", WRITER_SECONDS)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")


def _swap(place: Path, work: Path, now: datetime) -> Path | None:
    """Put the copy in the ledger's place. The old ledger is kept; a damaged one with its log, as it is."""
    kept = _unused_name(place, now) if place.exists() else None
    crashpoints.reach("restore:before")
    if kept is not None:
        try:
            _keep(place, kept)
        except OSError:  # such as a full disk, which half a copy would keep full
            for end in ("", *LOGS):
                kept.with_name(kept.name + end).unlink(missing_ok=True)
            raise
    for end in LOGS:
        place.with_name(place.name + end).unlink(missing_ok=True)
    crashpoints.reach("restore:kept")
    (work / LEDGER_FILE).replace(place)
    sync_folder(place.parent)
    crashpoints.reach("restore:after")
    return kept


def _unused_name(place: Path, moment: datetime) -> Path:
    """The name for the old ledger. A restore that was killed within this second may have left one."""
    while (kept := place.with_name(f"{REPLACED}{moment:%Y%m%dT%H%M%SZ}")).exists():
        moment += timedelta(seconds=1)
    return kept


def _keep(place: Path, kept: Path) -> None:
    """Keep the old ledger under another name, and leave no log of it: SQLite would read it into the new one."""
    try:
        copy_database(place, kept)
        _close_log(place)
    except (sqlite3.Error, BackupError) as error:
        log.warning("the old ledger is kept as it is, because it can't be read: %s", str(error).rstrip("."))
        for end in LOGS:
            with suppress(FileNotFoundError):
                shutil.copy2(place.with_name(place.name + end), kept.with_name(kept.name + end))
        shutil.copy2(place, kept)
        sync_file(kept)
