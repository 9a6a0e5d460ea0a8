"""`supervisor db upgrade`: bring the tables of the ledger and of the shared database up to date.

`supervisor doctor`: whether everything is in its place, and what to do where it is not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from supervisor_core.cli import FAILURE, SUCCESS
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.replication.connection import SharedDatabase
from supervisor_core.daemon.replication.rounds import disabled_reason
from supervisor_core.daemon.wiring import installed_chat
from supervisor_core.doctor.checks import Check
from supervisor_core.doctor.table import core_checks
from supervisor_core.storage import schema
from supervisor_core.storage.audit import guard as audit_guard
from supervisor_core.storage.ledger_errors import translate_errors
from supervisor_core.storage.ledger_file import LEDGER_FILE, file_state

LOOK_SECONDS = 0.0
"""Only its version is asked for."""


def configure_db(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("upgrade", choices=["upgrade"], help="run the migrations that are missing")


def run_db(options: argparse.Namespace) -> int:
    """The ledger first: it is upgraded also where the shared database is away."""
    config = load_supervisor_config(options.config)
    path = config.state_dir / LEDGER_FILE
    with translate_errors(path):
        before = file_state(path, LOOK_SECONDS).version if path.exists() else None
    with opened_ledger(config) as ledger:
        ledger.write(audit_guard.install)  # again, in case somebody removed them
        print(f"ledger {path}: {_in_words(before)}")
    if disabled_reason(config):
        print(f"shared database: {disabled_reason(config)}")
        return SUCCESS
    _upgrade_shared(config)
    return SUCCESS


def _upgrade_shared(config: SupervisorConfig) -> None:
    """An error says what is wrong; the tables of another program are left alone."""
    database = SharedDatabase(config.database.url.get_secret_value(), config.database.query_timeout_seconds)
    with database:
        before = None if database.is_missing() else database.check_ours()
        with database.asking():
            schema.ensure(database.engine)
    print(f"shared database {database.address}: {_in_words(before)}")


def _in_words(before: str | None) -> str:
    if before == schema.HEAD:
        return f"at version {before}, nothing to do"
    return f"upgraded from version {before} to {schema.HEAD}" if before else f"made, at version {schema.HEAD}"


INDENT = " " * 10


def configure_doctor(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--json", action="store_true", help="for programs")


def run_doctor(options: argparse.Namespace) -> int:
    """Look at everything. A configuration that can't be read is an error like in every other command."""
    config = load_supervisor_config(options.config)
    checks = [*core_checks(config), *_chat_checks(config)]
    well = all(check.ok for check in checks)
    if options.json:
        print(json.dumps({"ok": well, "checks": [check.as_json() for check in checks]}, indent=2))
    else:
        print(_for_people(checks))
    return SUCCESS if well else FAILURE


def _chat_checks(config: SupervisorConfig) -> list[Check]:
    try:
        chat = installed_chat()
    except SupervisorError as error:
        return [Check("slack", not config.slack.enabled, error.message, error.remedy)]
    return chat.checks(config)


def _for_people(checks: Sequence[Check]) -> str:
    lines = []
    for check in checks:
        mark = "✗ failed " if not check.ok else "! warning" if check.remedy else "✓ ok     "
        lines.append(f"{mark} {check.name}: {check.message}")
        if check.remedy:
            lines.append(f"{INDENT}→ {check.remedy}")
    failed = sum(not check.ok for check in checks)
    warned = sum(check.ok and bool(check.remedy) for check in checks)
    well = f"Nothing failed; {warned} to be looked at." if warned else "Everything is in its place."
    lines += ["", f"{failed} of {len(checks)} checks failed." if failed else well]
    return "\n".join(lines)
