"""`supervisor db upgrade`: bring the tables of the ledger and of the shared database up to date."""

from __future__ import annotations

import argparse

from supervisor_core.cli import SUCCESS
from supervisor_core.config import SupervisorConfig, load_supervisor_config
from supervisor_core.ledger import audit_guard, schema
from supervisor_core.ledger.forward_database import SharedDatabase
from supervisor_core.ledger.ledger_file import FILE_NAME, file_state
from supervisor_core.ledger.trouble import as_trouble
from supervisor_core.runtime.forwarding import why_not
from supervisor_core.runtime.host import opened_ledger

LOOK_SECONDS = 0.0
"""Only its version is asked for."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("upgrade", choices=["upgrade"], help="run the migrations that are missing")


def run(options: argparse.Namespace) -> int:
    """The ledger first: it is upgraded also where the shared database is away."""
    config = load_supervisor_config(options.config)
    path = config.state_dir / FILE_NAME
    with as_trouble(path):
        before = file_state(path, LOOK_SECONDS).version if path.exists() else None
    with opened_ledger(config) as ledger:
        ledger.write(audit_guard.install)  # again, in case somebody removed them
        print(f"ledger {path}: {_in_words(before)}")
    if why_not(config):
        print(f"shared database: {why_not(config)}")
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
