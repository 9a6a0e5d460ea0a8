"""The upkeep of an installation: `doctor`, `backup` and `restore` of the ledger, and `db upgrade`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from supervisor_core.cli import FAILURE, SUCCESS
from supervisor_core.cli.arguments import JSON, Subparsers, add_command
from supervisor_core.cli.host import load_config, shell_issuer
from supervisor_core.cli.output import print_json
from supervisor_core.code.change_plan import count
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.backup import BackupFacts, write_backup
from supervisor_core.daemon.configuration import last_good
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.restore import restore
from supervisor_core.daemon.wiring import installed_chat
from supervisor_core.doctor.checks import Check, CheckResult, run_checks
from supervisor_core.doctor.table import CORE_CHECKS, results_text
from supervisor_core.storage import schema
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.ledger_errors import translate_errors
from supervisor_core.storage.ledger_file import LEDGER_FILE, file_state
from supervisor_core.storage.shared_database import DatabaseUnavailable, SharedDatabase


def add_parser(subparsers: Subparsers) -> None:
    description = "Check the installation, Slack included, and say how to fix each problem."
    doctor = add_command(subparsers, "doctor", run_doctor, description, "doctor")
    doctor.add_argument("--json", action="store_true", help=JSON)
    description = "Upgrade the ledger; create the shared database's tables."
    db = add_command(subparsers, "db", run_db, description, "db upgrade")
    db.add_argument("upgrade", choices=["upgrade"], help="run the missing migrations")
    backup = add_command(subparsers, "backup", run_backup, "Copy the ledger to a file while the daemon runs.", "backup")
    backup.add_argument("file", nargs="?", metavar="FILE", help="the new file (default: ledger-HOST-TIME.db)")
    backup.add_argument("--json", action="store_true", help=JSON)
    description = "Put a backup in the place of the ledger, while the daemon is stopped. Workers keep running."
    example = "restore ledger-OrionMX-20260205T143015Z.db"
    restore = add_command(subparsers, "restore", run_restore, description, example)
    restore.add_argument("file", metavar="FILE", help="a file that `supervisor backup` wrote")
    restore.add_argument("--force", action="store_true", help="take the backup of another host or of a hub as well")


def run_backup(arguments: argparse.Namespace) -> int:
    """Write a backup and say what it holds."""
    config = load_config(arguments.config)
    now = datetime.now(UTC)
    path = Path(arguments.file or f"ledger-{config.supervisor.id}-{now:%Y%m%dT%H%M%SZ}.db").absolute()
    facts = write_backup(config, path)
    if arguments.json:
        print_json({"file": str(path), "bytes": facts.size, "audit_rows": facts.rows, "newest": facts.newest})
        return SUCCESS
    print(f"Backed up the ledger to {path}: {_describe(facts)}.")
    return SUCCESS


def run_restore(arguments: argparse.Namespace) -> int:
    """Replace the ledger by a backup."""
    config = load_config(arguments.config)
    path, now = Path(arguments.file).absolute(), datetime.now(UTC)
    facts, kept = restore(config, path, shell_issuer(), now, force=arguments.force)
    print(f"Restored the ledger from {facts.path}: {_describe(facts)}.")
    print("Commands and approvals that were open in it have ended; nothing was run again.")
    if kept is not None:
        print(f"The ledger before it is kept as {kept}. Commands that waited in it don't run: request them again.")
    print("Now start the daemon again.")
    return SUCCESS


def _describe(facts: BackupFacts) -> str:
    newest = f", the newest from {facts.newest:%Y-%m-%d %H:%M:%S} UTC" if facts.newest else ""
    return f"{facts.size / 2**20:.1f} MB, {count(facts.rows, 'audit row')}{newest}"


def run_db(arguments: argparse.Namespace) -> int:
    """Upgrade the ledger, then create the missing tables of the shared database."""
    config = load_supervisor_config(arguments.config)
    if config.ledger_url:
        engine = shared_engine(config.ledger_url, config.database.query_timeout_seconds)
        try:
            with engine.connect() as connection:
                before = schema.check_ours(connection)
            schema.ensure(engine)
        except DBAPIError as error:
            database = SharedDatabase(config.ledger_url, config.database.query_timeout_seconds)
            raise DatabaseUnavailable(f"{database.address} can't be used: {database.describe(error)}") from error
        finally:
            engine.dispose()
        print(f"Ledger {config.database.url}: {_describe_version(before)}")
        return SUCCESS
    path = config.state_dir / LEDGER_FILE
    with translate_errors(path):
        before = file_state(path, 0.0).version if path.exists() else None
    with opened_ledger(config):
        print(f"Ledger {path}: {_describe_version(before)}")
    if config.shared_database_disabled:
        print(f"Shared database: {config.shared_database_disabled}")
        return SUCCESS
    database = SharedDatabase(config.database.url.get_secret_value(), config.database.query_timeout_seconds)
    created = database.create_tables()
    changes = f"created {' and '.join(created)}" if created else "nothing to create"
    print(f"Shared database {database.address}: {changes}")
    return SUCCESS


def _describe_version(before: str | None) -> str:
    if before == schema.HEAD:
        return f"up to date (version {before})"
    return f"upgraded from version {before} to {schema.HEAD}" if before else f"created (version {schema.HEAD})"


def run_doctor(arguments: argparse.Namespace) -> int:
    """Run every check; with the last good configuration while its file is broken."""
    config, problem = last_good.load_or_last_good(arguments.config)
    try:
        chat_checks: Sequence[Check] = installed_chat().checks()
    except SupervisorError as error:
        result = CheckResult("slack", not config.slack.enabled, error.message, error.remedy)
        chat_checks = [Check("slack", lambda _config: result)]
    results = run_checks([*CORE_CHECKS, *chat_checks], config)
    if problem:
        broken = CheckResult(
            "configuration", False, problem, "Fix it. The other checks use the last good configuration."
        )
        results = [broken if result.name == broken.name else result for result in results]
    ok = all(result.ok for result in results)
    if arguments.json:
        print_json({"ok": ok, "checks": [result.as_json() for result in results]}, indented=True)
    else:
        print(results_text(results))
    return SUCCESS if ok else FAILURE
