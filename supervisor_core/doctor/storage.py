"""The checks of the ledger and the shared database."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.doctor.checks import CheckResult
from supervisor_core.host.logging.masking import Masking
from supervisor_core.storage import schema
from supervisor_core.storage.database_check import open_session, verify
from supervisor_core.storage.ledger_errors import LedgerDamaged, ledger_error
from supervisor_core.storage.ledger_file import LEDGER_FILE, file_state
from supervisor_core.storage.shared_database import SharedDatabase

LEDGER = "ledger"
LEDGER_SECONDS = 10.0


def check_ledger(config: SupervisorConfig) -> CheckResult:
    """The SQLite file in the state folder, looked at without changing it."""
    if config.ledger_url:
        return CheckResult(LEDGER, True, f"it's the hub's database {config.database.url}")
    path = config.state_dir / LEDGER_FILE
    if not path.exists():
        return CheckResult(LEDGER, True, f"{path} doesn't exist yet; the first run creates it")
    try:
        seen = file_state(path, LEDGER_SECONDS)
    except sqlite3.Error as error:
        trouble = ledger_error(path, error, "read")
        if trouble is None or not isinstance(trouble, LedgerDamaged):  # the disk: the pages weren't even looked at
            if trouble is not None:
                return CheckResult(LEDGER, False, trouble.message.rstrip("."), trouble.remedy)
            remedy = f"Is the disk of {config.state_dir} mounted? Leave {LEDGER_FILE} in place."
            return CheckResult(LEDGER, False, f"{path} can't be read: {error}", remedy)
        return _damaged(config, str(error))
    if seen.damage:
        return _damaged(config, " ".join(seen.damage.split()))
    if seen.version != schema.HEAD:
        return _of_another_version(seen.version)
    whole = "intact" if seen.whole else f"too large to check in {LEDGER_SECONDS:g} s"
    return CheckResult(LEDGER, True, f"{path} is at version {schema.HEAD}, {whole}")


def _of_another_version(found: str | None) -> CheckResult:
    if found is not None and schema.is_development(found):
        error = schema.unknown_revision(found)
        return CheckResult(LEDGER, False, error.message, error.remedy)
    if found is not None and found > schema.HEAD:
        message = f"version {found} is newer than this program (up to {schema.HEAD})"
        return CheckResult(LEDGER, False, message, "A newer supervisor created it. Install that version.")
    message = f"version {found or 'none'}, expected {schema.HEAD}"
    return CheckResult(LEDGER, False, message, "Run: supervisor db upgrade")


def _damaged(config: SupervisorConfig, what: str) -> CheckResult:
    folder = config.state_dir
    remedy = (
        f"Workers keep running and stay paused. 1. supervisor daemon stop. 2. With a backup: supervisor restore FILE. "
        f"Without one: move {LEDGER_FILE}, {LEDGER_FILE}-wal and {LEDGER_FILE}-shm out of {folder} and keep them. "
        f"Recover what's readable with sqlite3 OLD '.recover' | sqlite3 {LEDGER_FILE}, or begin a new ledger. "
        f"3. supervisor daemon start. 4. supervisor audit verify."
    )
    return CheckResult(LEDGER, False, f"{folder / LEDGER_FILE} is damaged: {what}.", remedy)


DATABASE = "database"
DATABASE_SECONDS = 15.0
QUERY_SECONDS = 5.0
UPGRADE = "Run: supervisor db upgrade"
REMEDY = "Start the server, or correct database.url. `supervisor verify-db` shows details."


def check_database(config: SupervisorConfig) -> CheckResult:
    """Without one there is nothing that could be wrong: the ledger has a check of its own."""
    url = config.database.url.get_secret_value()
    if not url:
        return CheckResult(DATABASE, True, "not configured; the ledger is the database")
    shown = str(config.database.url)
    if _not_there_yet(url):
        return CheckResult(DATABASE, False, f"{shown} doesn't exist yet", "Create it: supervisor db upgrade")
    timeout = min(config.database.query_timeout_seconds, QUERY_SECONDS)
    found = verify(url, (), timeout, DATABASE_SECONDS)
    if not found.passed:
        message = Masking(config.secrets).text(found.failures[0].message)
        return CheckResult(DATABASE, False, f"{shown}: {found.failures[0].name}: {message}", REMEDY)
    responds = f"{shown} responds: {found.asked[1].message}"
    if config.shared_database_disabled:
        return CheckResult(DATABASE, True, f"{responds}{_hub_now(config)}")
    try:
        missing = SharedDatabase(url, timeout).missing_tables()
    except (SupervisorError, SQLAlchemyError) as error:
        return CheckResult(DATABASE, False, f"{shown}: {Masking(config.secrets).text(str(error))}", REMEDY)
    if missing:
        return CheckResult(DATABASE, False, f"{responds}; it has no {' and no '.join(missing)}", UPGRADE)
    return CheckResult(DATABASE, True, responds)


def _hub_now(config: SupervisorConfig) -> str:
    """The machine that is the hub, where this database is the ledger of one."""
    if not config.ledger_url:
        return ""
    from supervisor_core.fleet.hub.ledger import find_hub

    engine = open_session(config.ledger_url, QUERY_SECONDS)
    try:
        with engine.connect() as connection:
            machine = find_hub(connection, config.supervisor.id)
    except SQLAlchemyError:
        return ""
    finally:
        engine.dispose()
    return f"; the hub is {machine}" if machine else "; no machine is the hub now"


def _not_there_yet(url: str) -> bool:
    """True for a SQLite file that the first write will create."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return False
    path = Path((parsed.database or "").removeprefix("file:"))
    return not path.exists() and path.parent.is_dir()
