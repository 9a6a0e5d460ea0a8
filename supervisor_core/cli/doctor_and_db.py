"""`supervisor doctor` checks the installation; `supervisor db upgrade` upgrades the ledger and the shared database."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from supervisor_core.cli import FAILURE, SUCCESS
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config import last_good
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.replication.connection import SharedDatabase
from supervisor_core.daemon.replication.rounds import disabled_reason
from supervisor_core.daemon.wiring import installed_chat
from supervisor_core.doctor.checks import Check, CheckResult, run_checks
from supervisor_core.doctor.table import CORE_CHECKS, results_text
from supervisor_core.storage import schema
from supervisor_core.storage.audit import guard as audit_guard
from supervisor_core.storage.ledger_errors import translate_errors
from supervisor_core.storage.ledger_file import LEDGER_FILE, file_state

LOOK_SECONDS = 0.0
"""Enough for reading its version."""


def run_db(options: argparse.Namespace) -> int:
    """Upgrade the ledger first, so that it's done even when the shared database is away."""
    config = load_supervisor_config(options.config)
    if config.ledger_url:
        _upgrade_shared(config, "Ledger")
        return SUCCESS
    path = config.state_dir / LEDGER_FILE
    with translate_errors(path):
        before = file_state(path, LOOK_SECONDS).version if path.exists() else None
    with opened_ledger(config) as ledger:
        ledger.write(audit_guard.install)  # again, in case somebody removed them
        print(f"Ledger {path}: {_in_words(before)}")
    if disabled_reason(config):
        print(f"Shared database: {disabled_reason(config)}")
        return SUCCESS
    _upgrade_shared(config)
    return SUCCESS


def _upgrade_shared(config: SupervisorConfig, what: str = "Shared database") -> None:
    """Upgrade the shared database. Another program's tables raise an error and are left alone."""
    database = SharedDatabase(config.database.url.get_secret_value(), config.database.query_timeout_seconds)
    with database:
        before = None if database.is_missing() else database.check_ours()
        with database.asking():
            schema.ensure(database.engine)
    print(f"{what} {database.address}: {_in_words(before)}")


def _in_words(before: str | None) -> str:
    if before == schema.HEAD:
        return f"up to date (version {before})"
    return f"upgraded from version {before} to {schema.HEAD}" if before else f"created (version {schema.HEAD})"


def run_doctor(options: argparse.Namespace) -> int:
    """Run every check; with the last good configuration while its file is broken."""
    config, problem = last_good.load_or_last_good(options.config)
    results = run_checks([*CORE_CHECKS, *_chat_checks()], config)
    if problem:
        broken = CheckResult(
            "configuration", False, problem, "Fix it. The other checks use the last good configuration."
        )
        results = [broken if result.name == broken.name else result for result in results]
    ok = all(result.ok for result in results)
    if options.json:
        print(json.dumps({"ok": ok, "checks": [result.as_json() for result in results]}, indent=2))
    else:
        print(results_text(results))
    return SUCCESS if ok else FAILURE


def _chat_checks() -> Sequence[Check]:
    try:
        return installed_chat().checks()
    except SupervisorError as error:
        message, remedy = error.message, error.remedy
        return [Check("slack", lambda config: CheckResult("slack", not config.slack.enabled, message, remedy))]
