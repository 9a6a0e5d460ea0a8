"""A backup of the ledger: one file with everything that was stored at one moment, taken while the daemon runs."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.times import from_text
from supervisor_core.config.fields import mask_url
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host.descriptors import PRIVATE_FILE, temporary_name
from supervisor_core.storage.ledger_file import LEDGER_FILE, READER_SECONDS, connect, file_state
from supervisor_core.storage.schema import HEAD, is_development

CHECK_SECONDS = 3600.0
"""Enough to check any file. A backup must be whole, because it's used when all else is lost."""


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


def require_file(config: SupervisorConfig) -> Path:
    """The ledger's file; `BackupError` if the ledger is in a database server."""
    if config.ledger_url:
        raise BackupError(
            f"The ledger is in the database {mask_url(config.ledger_url)}. Nothing was done.",
            remedy="Use the database's own tools, such as pg_dump.",
        )
    return config.state_dir / LEDGER_FILE


def write_backup(config: SupervisorConfig, path: Path) -> BackupFacts:
    """Copy the ledger to a new file. It can be written meanwhile; later rows aren't in the copy."""
    source = require_file(config)
    if not source.exists():
        raise BackupError(f"There is no ledger at {source}.", remedy="The daemon creates it at its first start.")
    temporary = path.with_name(temporary_name(path.name, only_writer=False))
    try:
        if os.path.lexists(path):
            raise FileExistsError
        copy_database(source, temporary)
        facts = read_backup(temporary, source)
        os.link(temporary, path, follow_symlinks=False)  # fails if somebody else took the name meanwhile
    except FileExistsError:
        raise BackupError(f"{path} exists. Nothing was done.", remedy="Choose another name.") from None
    except OSError as error:
        raise BackupError(f"{path} can't be written: {error.strerror}.") from None
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return BackupFacts(path, *(getattr(facts, name) for name in BackupFacts.__slots__[1:]))


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


def sync_file(path: Path) -> None:
    with path.open("rb") as copied:
        os.fsync(copied.fileno())


def sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some systems can't
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_backup(path: Path, copied: Path | None = None) -> BackupFacts:
    """Check the whole backup, and return its facts. Errors name the ledger of which it was just copied, if any."""
    named, aim = (copied, "backed up") if copied else (path, "restored")
    if not path.is_file():
        raise BackupError(f"{named} isn't a file.")
    try:
        state = file_state(path, CHECK_SECONDS)
        version = state.version or ""
        if state.damage:
            raise BackupError(f"{named} is damaged: {' '.join(state.damage.split())}.")
        if not version:
            raise BackupError(f"{named} isn't a backup of a ledger.")
        if is_development(version):
            raise BackupError(f"{named} is of a development version ({version}), which can't be {aim}.")
        if version > HEAD:
            raise BackupError(
                f"{named} has version {version} of the tables; this program knows {HEAD}.",
                remedy="Install the version of the supervisor that wrote it, or a newer one.",
            )
        with closing(connect(path, "ro", READER_SECONDS)) as connection:
            names = connection.execute("SELECT DISTINCT supervisor_id FROM audit_log_t ORDER BY 1").fetchall()
            fleet = _fleet(connection)
            rows, newest = connection.execute("SELECT count(*), max(created_at) FROM audit_log_t").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"{named} isn't a backup of a ledger: {error}.") from None
    known = tuple(str(name) for (name,) in names)
    return BackupFacts(path, version, known, rows, from_text(newest) if newest else None, path.stat().st_size, fleet)


def _fleet(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The hosts of the fleet; none in a version without that table."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'fleet_hosts_t'").fetchone():
        return ()
    found = connection.execute("SELECT host_id FROM fleet_hosts_t ORDER BY 1").fetchall()
    return tuple(str(host) for (host,) in found)
